//! Emptying one zone: read what lives in the order it lies, write it in the same order, [swap](super::swap) the index.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{Blocks, ZoneId};
use shingle_record::{RecordPlace, SlicePlan};

use crate::drive::payload::Home;
use crate::drive::{HOST_FULL, host_full};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::gc::Destination;
use crate::gc::swap::{Copied, Live};
use crate::index::Located;
use crate::types::Stream;
use crate::types::ZoneStatus;
use crate::zones::leases::Holder;

/// Blocks read at once.
const RUN_BLOCKS: u32 = 1024;

/// Garbage that is read along rather than skipped: skipping costs a revolution or so.
const GAP_BLOCKS: u32 = 64;

/// Reads of a victim that may fail before it is given up (CS-GC-7): a disk tries each for seconds.
pub(crate) const FAILED_READS_MAX: u32 = 32;

/// Pause until GC looks again for a zone to move to, and the longest of those that follow: a reader may keep the only one for long.
const ZONE_PAUSE: Duration = Duration::from_millis(1);
const ZONE_PAUSE_MAX: Duration = Duration::from_millis(128);

/// Reads of a victim that the drive failed.
#[derive(Default)]
struct Failed {
    commands: u32,
    records: u32,
    /// Block of the record with which they were too many.
    at: Option<u32>,
}

/// A record's data, on its way.
struct Moving {
    live: Live,
    data: Bytes,
}

/// Records ready to be written.
struct Framed {
    pieces: Vec<Bytes>,
    copied: Vec<Copied>,
    /// Number of the records to be moved that are in this run, or are not needed any more.
    taken: usize,
    /// End of the zone after that.
    next: u32,
}

impl Engine {
    /// Empties a zone that takes no more records. Something that fails its check stays, and keeps the zone from being a victim
    /// again; so does, for a while, something that the drive cannot read (CS-GC-10).
    pub(crate) async fn empty_zone(self: &Rc<Self>, victim: ZoneId) -> Result<()> {
        if !self.collector.begin(victim) {
            return Err(Error::new(ErrorKind::Invalid, "another zone is being emptied"));
        }
        let (stream, live) = self.live_records(victim);
        let pin = self.pin(victim);
        self.collector.expect(live.iter().map(|live| u64::from(live.record.length)).sum());
        let mut copies = Vec::with_capacity(live.len());
        let result = self.copy_all(victim, stream, &live, &mut copies).await;
        let mut doubtful = BTreeSet::new();
        // Copied records count, even if the rest failed.
        let swapped = match self.drive.flush.flush().await.map_err(Arc::new) {
            Ok(()) => {
                doubtful = self.doubtful_destinations(victim, stream, &copies).await;
                self.swap(victim, &copies, &doubtful)
            }
            Err(error) => {
                self.stop_if_gone(&error);
                Err(self.write_error(&error))
            }
        };
        self.release_index_room();
        self.collector.end();
        drop(pin);
        let mut state = self.state.borrow_mut();
        for copied in &copies {
            state.zones.get_mut(copied.copy.zone).filling = false;
            state.zones.note_garbage(copied.copy.zone);
        }
        self.mark_ended(&mut state, doubtful);
        let emptied = result.and_then(|unread| swapped.map(|()| unread));
        if let Ok(unread) = emptied {
            let zone = state.zones.get_mut(victim);
            if zone.groups.is_empty() {
                state.counters.gc_zones += 1;
            } else if unread {
                self.rest(&mut state, victim);
            } else if matches!(zone.status, ZoneStatus::Closed | ZoneStatus::ReadOnly) {
                zone.damaged = true;
            }
        }
        state.zones.note_garbage(victim);
        emptied.map(drop)
    }

    /// The zone's stream and live records, in the order they lie; where the index has little room, those of a chunk together. They begin where
    /// the last try ended, if that gave up.
    fn live_records(&self, victim: ZoneId) -> (Stream, Vec<Live>) {
        let state = self.state.borrow();
        let zone = state.zones.get(victim);
        let mut handles = zone.groups.to_vec();
        handles.sort_unstable();
        handles.dedup();
        let mut live = Vec::new();
        for handle in handles {
            let Some(chunk) = state.chunks.get(handle) else { continue };
            for group in chunk.groups.iter().filter(|group| group.zone == victim) {
                let found = group.records().map(|record| Live { handle, birth: chunk.birth, id: chunk.id, record });
                live.extend(found);
            }
        }
        if self.reserve_index_room(&state, live.len() as u64) {
            live.sort_unstable_by_key(|live| live.record.block);
        } else {
            live.sort_unstable_by_key(|live| (live.handle, live.record.offset));
        }
        let same = live.iter().position(|live| live.record.block == zone.given_up_at);
        // It may have died meanwhile.
        let next = || live.iter().position(|live| live.record.block > zone.given_up_at);
        let first = same.or_else(next).unwrap_or(0);
        live.rotate_left(first);
        (zone.stream, live)
    }

    /// True if a victim is of use only as a whole (CS-GC-13).
    fn has_to_win(&self, victim: ZoneId) -> bool {
        self.is_short() && self.state.borrow().zones.get(victim).status == ZoneStatus::Closed
    }

    /// Reads all that lives in a victim. Returns whether all of it can be moved.
    async fn reads_whole(self: &Rc<Self>, victim: ZoneId, live: &[Live], failed: &mut Failed) -> Result<bool> {
        let mut rest = live;
        while !rest.is_empty() {
            let (run, later) = rest.split_at(run_length(rest));
            if self.read_run(victim, run, failed).await?.len() < run.len() {
                return Ok(false);
            }
            rest = later;
        }
        Ok(true)
    }

    /// Copies all that can be read. Returns whether more may be another time.
    async fn copy_all(
        self: &Rc<Self>,
        victim: ZoneId,
        stream: Stream,
        live: &[Live],
        copies: &mut Vec<Copied>,
    ) -> Result<bool> {
        let mut rest = live;
        let mut failed = Failed::default();
        let whole = self.has_to_win(victim);
        if whole && !self.collector.rests.is_empty() && !self.reads_whole(victim, live, &mut failed).await? {
            return Ok(failed.records > 0);
        }
        while !rest.is_empty() && failed.commands < FAILED_READS_MAX {
            let began = self.rt.now();
            let (run, later) = rest.split_at(run_length(rest));
            let moving = self.read_run(victim, run, &mut failed).await?;
            if whole && moving.len() < run.len() {
                return Ok(failed.records > 0);
            }
            self.write_run(victim, stream, moving, copies).await?;
            rest = later;
            let share = self.collector.advance(run.iter().map(|live| u64::from(live.record.length)).sum());
            self.gc_pause(victim, self.rt.now().since(began), share).await;
            self.state.borrow().running()?;
        }
        self.state.borrow_mut().zones.get_mut(victim).given_up_at = failed.at.unwrap_or(0);
        Ok(failed.records > 0 || !rest.is_empty())
    }

    /// Reads and verifies the records of a run with one command; one by one if that fails. Unreadable records are left
    /// out. Counts the commands that failed, and ends once they are too many (CS-GC-7).
    ///
    /// # Errors
    /// `Stopped` if the drive is gone: it is asked no more.
    async fn read_run(self: &Rc<Self>, victim: ZoneId, run: &[Live], failed: &mut Failed) -> Result<Vec<Moving>> {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(Vec::new()) };
        let start = first.record.block;
        let length = Blocks(u64::from(last.record.block - start)) + last.record.blocks();
        let at = self.drive.block(victim, start);
        let raw = self.drive.dev.read(at, length).await.inspect_err(|error| self.stop_if_gone(error)).ok();
        self.state.borrow().running()?;
        failed.commands += u32::from(raw.is_none());
        let mut moving = Vec::with_capacity(run.len());
        for &live in run {
            let mut data = Vec::with_capacity(live.record.length as usize);
            let verified = match &raw {
                Some(raw) => {
                    let from = Blocks(u64::from(live.record.block - start)).bytes() as usize;
                    let plan = SlicePlan::new(live.record.length, 0, live.record.length);
                    raw.get(from..).and_then(|record| {
                        self.verifier.payload.extract(&plan, record, live.id, live.record.offset, &mut data).ok()
                    })
                }
                None => None,
            };
            if verified.is_none() {
                data.clear();
                let length = live.record.length;
                if let Err(error) = self.read_record(live.id, live.record, 0, length, &mut data).await {
                    if error.kind == ErrorKind::Stopped {
                        self.stop(&error.message);
                        return Err(error);
                    }
                    tracing::warn!(zone = victim.0, %error, "GC leaves a record that cannot be read where it is");
                    let fails = u32::from(error.kind == ErrorKind::Device);
                    (failed.commands, failed.records) = (failed.commands + fails, failed.records + fails);
                    if failed.commands >= FAILED_READS_MAX {
                        tracing::warn!(zone = victim.0, "GC gives up a zone of which too much cannot be read");
                        failed.at = Some(live.record.block);
                        break;
                    }
                    continue;
                }
            }
            moving.push(Moving { live, data: Bytes::from(data) });
        }
        Ok(moving)
    }

    /// Writes records to the stream's destination, in another zone where one fills up or fails.
    async fn write_run(
        self: &Rc<Self>,
        victim: ZoneId,
        stream: Stream,
        moving: Vec<Moving>,
        copies: &mut Vec<Copied>,
    ) -> Result<()> {
        let mut rest = moving.as_slice();
        let mut failures = 0;
        while let Some(first) = rest.first() {
            let need = first.live.record.blocks().0 as u32;
            let Some(destination) = self.destination(victim, stream, need).await? else { return Ok(()) };
            let Framed { pieces, copied, taken, next } = self.frame_run(destination, rest);
            if copied.is_empty() {
                rest = rest.get(taken..).unwrap_or_default();
                continue;
            }
            let bytes: u64 = pieces.iter().map(|piece: &Bytes| piece.len() as u64).sum();
            let at = self.drive.block(destination.zone, destination.next);
            match self.drive.dev.write(at, pieces).await {
                Ok(()) => {
                    rest = rest.get(taken..).unwrap_or_default();
                    copies.extend(copied);
                    self.collector.redirect(stream, Some(Destination { next, ..destination }));
                    let mut state = self.state.borrow_mut();
                    let slot = state.zones.get_mut(destination.zone);
                    (slot.written, slot.filling) = (next, true);
                    state.counters.gc_written_bytes += bytes;
                }
                Err(error) if self.left_untouched(destination.zone, destination.next, &error).await => {
                    return Err(Error::new(ErrorKind::HostFull, HOST_FULL).caused_by(error));
                }
                Err(error) => {
                    failures += 1;
                    self.stop_if_gone(&error);
                    tracing::warn!(zone = destination.zone.0, %error, "a write of GC failed; its zone is closed");
                    let status = self.status_after_error(destination.zone, &error).await;
                    self.end_destination(stream, status);
                    self.mark_ended(&mut self.state.borrow_mut(), [destination.zone]);
                    if failures > 8 || self.state.borrow().stopped.is_some() {
                        return Err(Error::new(ErrorKind::Device, error.to_string()).caused_by(error));
                    }
                }
            }
        }
        Ok(())
    }

    /// Frames as many of the records as fit.
    ///
    /// A record whose chunk is gone by now is left out (CS-GC-4).
    fn frame_run(&self, destination: Destination, moving: &[Moving]) -> Framed {
        let zone = destination.zone;
        let state = self.state.borrow();
        // Copies are flushed before the index takes them, not run by run (CS-GC-1).
        let (epoch, durable) = (state.zones.get(zone).epoch, state.zones.get(zone).indexed_to);
        let mut next = destination.next;
        let (mut pieces, mut copied, mut taken) = (Vec::new(), Vec::new(), 0);
        for Moving { live, data } in moving {
            if state.chunks.get(live.handle).is_none_or(|chunk| chunk.birth != live.birth) {
                taken += 1;
                continue;
            }
            let blocks = live.record.blocks().0 as u32;
            if next + blocks > self.drive.zone_room + 1 {
                break;
            }
            let place = RecordPlace { store: self.store, epoch, zone, block: next };
            let (sequence, offset) = (self.sequence.next(), live.record.offset);
            let home = Home { place, sequence, id: live.id, offset, durable };
            pieces.extend(self.verifier.payload.frame(&home, std::slice::from_ref(data)));
            copied.push(Copied { live: *live, copy: Located { zone, block: next, ..live.record } });
            next += blocks;
            taken += 1;
        }
        Framed { pieces, copied, taken, next }
    }

    /// The zone that takes the stream's moved records, with room for `need` blocks. `None` if nothing lives in the victim
    /// any more: it may be the only garbage then, and cannot be reset before GC lets go of it.
    async fn destination(self: &Rc<Self>, victim: ZoneId, stream: Stream, need: u32) -> Result<Option<Destination>> {
        if let Some(destination) = self.collector.destination(stream)
            && destination.next + need <= self.drive.zone_room + 1
        {
            return Ok(Some(destination));
        }
        self.end_destination(stream, ZoneStatus::Closed);
        self.end_surplus_destination();
        let mut pause = ZONE_PAUSE;
        loop {
            let lease = {
                let mut state = self.state.borrow_mut();
                state.running()?;
                if state.zones.get(victim).groups.is_empty() {
                    return Ok(None);
                }
                let free = state.zones.next_free();
                if free.is_none() && state.zones.count(ZoneStatus::Garbage) == 0 {
                    return Err(Error::new(ErrorKind::NoSpace, "GC has no free zone to move to"));
                }
                // No zone can be opened, and none reset either, which others would be waited for.
                if self.is_log_full() {
                    return Err(Error::new(ErrorKind::Device, "GC can open no zone: the journal takes no entry"));
                }
                free.and_then(|zone| state.leases.take(zone, Holder::Gc))
            };
            let Some(lease) = lease else {
                // The keeper turns garbage into a free zone, where no reader holds it up, and has the drive give up zones
                // that are done with. It resets none while the journal waits for room.
                self.has_host_room()?;
                self.wakes.keeper.notify_one();
                self.rt.sleep(pause).await;
                pause = (2 * pause).min(ZONE_PAUSE_MAX);
                continue;
            };
            // The keeper opens zones too; whichever of the two takes a zone first marks it opened at once.
            let zone = lease.zone();
            let opened = self.open_zone(lease, stream).await;
            if opened.as_ref().is_err_and(|error| error.kind.is_host_full()) {
                return Err(host_full());
            }
            if self.opens_no_zone() {
                return Err(Error::new(ErrorKind::Device, "GC can open no zone: the drive fails that"));
            }
            if opened.is_ok() {
                self.state.borrow_mut().zones.set_status(zone, ZoneStatus::Activated);
                let destination = Destination { zone, next: 1 };
                self.collector.redirect(stream, Some(destination));
                return Ok(Some(destination));
            }
        }
    }

    /// Makes place for one more destination: streams that have no pool of their own share what leases allow.
    fn end_surplus_destination(&self) {
        let most = self.state.borrow().leases.gc().saturating_sub(1) as usize;
        self.collector
            .streams()
            .into_iter()
            .skip(most)
            .for_each(|stream| self.end_destination(stream, ZoneStatus::Closed));
    }

    /// Ends the stream's destination: nothing more is moved there.
    pub(crate) fn end_destination(&self, stream: Stream, status: ZoneStatus) {
        let Some(destination) = self.collector.redirect(stream, None) else { return };
        let mut state = self.state.borrow_mut();
        state.zones.set_status(destination.zone, status);
        // Copies that are not swapped in yet will be (CS-GC-5).
        state.zones.note_garbage(destination.zone);
        state.leases.end(destination.zone);
        self.wakes.keeper.notify_one();
    }
}

/// Number of records that make a run: near each other, and not too long.
fn run_length(live: &[Live]) -> usize {
    let Some(first) = live.first() else { return 0 };
    let mut end = first.record.block + first.record.blocks().0 as u32;
    1 + live[1..]
        .iter()
        .take_while(|next| {
            let next_end = next.record.block + next.record.blocks().0 as u32;
            // Of another chunk it may lie before.
            let gap = next.record.block.checked_sub(end);
            let near = gap.is_some_and(|gap| gap <= GAP_BLOCKS) && next_end - first.record.block <= RUN_BLOCKS;
            end = next_end;
            near
        })
        .count()
}
