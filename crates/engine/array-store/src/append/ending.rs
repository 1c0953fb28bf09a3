//! End of an open set: a digest of its items, on every member. (SMORE, section III-D.)
//!
//! # Invariants
//! - AS-WRITE-6: a set that has ended keeps no zone active on a drive that limits active ones, however it ended.
//!   `sets_that_failed_writes_end_keep_no_zone_active`.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks};
use shingle_record::{RecordPlace, frame};
use shingle_zoned::{DeviceError, ZoneInfo, ZoneOp, ZoneState};

use crate::append::open_set::OpenSet;
use crate::append::writer::Writes;
use crate::drives::asking::{Reports, at};
use crate::engine::Engine;
use crate::format::{DIGEST, Digest, Member, frame_trailer};
use crate::lifecycle::state::BusyTask;
use crate::types::{DriveId, SetState};
use crate::zone_set::{Phase, Written, ZoneSet};

/// True if a zone counts against the limit on active ones.
fn is_active(zone: &ZoneInfo) -> bool {
    matches!(zone.state, ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed)
}

impl Engine {
    /// Finishes zones that are longer than their set, on drives that limit active zones: they would stay active.
    pub(crate) async fn finish_longer(&self, members: &[Member], end: u32) {
        for member in members {
            let Some(dev) = self.drives.usable(member.drive) else { continue };
            if dev.geometry().active_zones_max.is_none() || self.drives.zone_capacity(member.drive) <= end {
                continue;
            }
            if let Err(error) = dev.manage(member.zone, ZoneOp::Finish).await {
                tracing::warn!(drive = self.drives.name(member.drive), %error, "a zone could not be finished");
            }
        }
    }

    /// Finishes zones of sets that a failed write ended, on drives that limit active zones: they would stay active until the set is cleaned, on
    /// all of its members. Not before a superblock says where the set ends: a zone that is short of an item proves that the item was not
    /// acknowledged. (AS-EXAM-1)
    async fn finish_failed(&self, members: &[Member]) {
        if !members.iter().any(|member| self.limits_active(member)) {
            return;
        }
        match self.say_superblock().await {
            Ok(()) => self.finish_active(members).await,
            Err(error) => {
                tracing::warn!(%error, "zones of a set that ended stay active until the array is opened again")
            }
        }
    }

    fn limits_active(&self, member: &Member) -> bool {
        self.drives.usable(member.drive).is_some_and(|dev| dev.geometry().active_zones_max.is_some())
    }

    /// Finishes those of the zones that are active, on drives that limit them.
    async fn finish_active(&self, members: &[Member]) {
        for member in members.iter().filter(|member| self.limits_active(member)) {
            let Some(dev) = self.drives.usable(member.drive) else { continue };
            let finished = match dev.report(member.zone, 1).await {
                Ok(zones) if zones.iter().any(is_active) => dev.manage(member.zone, ZoneOp::Finish).await,
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = finished {
                tracing::warn!(drive = self.drives.name(member.drive), %error, "a zone could not be finished");
            }
        }
    }

    /// The same of all sets that have ended, as an opening finds them: the process before may not have come to it. Their ends are in a
    /// superblock.
    pub(crate) async fn finish_left(&self, reports: &Reports) {
        let active = |member: &Member| {
            let zone = reports.get(&member.drive).and_then(|zones| zones.get(member.zone.0 as usize));
            self.limits_active(member) && zone.is_some_and(is_active)
        };
        let ended = |set: &ZoneSet| !matches!(set.state(), SetState::Open | SetState::Available);
        let sets = self.sets.all().filter(|(_, set)| ended(set) && set.phase() == Phase::Still);
        let left: Vec<Member> = sets.flat_map(|(_, set)| set.members()).filter(active).collect();
        self.finish_active(&left).await;
    }

    /// Seals the sets that recovery closed. Not before a superblock says where they end: with some of the digests
    /// written, zones may end at one block by chance, and a set would count as whole. (AS-EXAM-3)
    pub(crate) async fn seal_torn(&self) {
        for (open, written) in self.unsealed.take() {
            self.seal(&open, &written).await;
        }
    }

    /// Writes the digest of a set that was open when the array stopped behind each member's items, so that it is found
    /// at once. Items whose digest cannot be written are found one by one again.
    async fn seal(&self, open: &OpenSet, written: &Written) {
        let sequence = self.stamps.next();
        let digest_blocks = open.digest_blocks(0);
        let writes = written.iter().filter_map(|&(member, start)| {
            let dev = self.drives.usable(member.drive)?;
            if start == 0 || start + digest_blocks + 1 > self.drives.zone_capacity(member.drive) {
                return None;
            }
            let frames = self.digest_frames(open.epoch, &open.digest, member, start, sequence);
            Some(async move { (member, dev.write(at(&dev, member.zone, start), frames).await) })
        });
        let mut done = Vec::new();
        for (member, result) in join_all(writes).await {
            match result {
                Ok(()) => done.push(member.drive),
                Err(error) => {
                    tracing::warn!(drive = self.drives.name(member.drive), %error, "a digest was not written")
                }
            }
        }
        self.drives.flush(done).await;
        let members: Vec<Member> = written.iter().map(|(member, _)| *member).collect();
        self.finish_longer(&members, open.next).await;
    }

    /// A digest at block `start` of a member's zone, and the trailer behind it.
    pub(crate) fn digest_frames(
        &self,
        epoch: u64,
        digest: &Digest,
        member: Member,
        start: u32,
        sequence: u64,
    ) -> Vec<Bytes> {
        let place = RecordPlace { store: self.array, epoch, zone: member.zone, block: start };
        let digest = frame(DIGEST, &place, sequence, [0; shingle_record::INFO_SIZE], &[digest.encoded()]);
        let trailer_at = start + (digest.len() / BLOCK_SIZE) as u32;
        vec![digest, frame_trailer(&RecordPlace { block: trailer_at, ..place }, sequence, start)]
    }

    /// Writes the digest behind what is on its way and leaves the set to end on its own.
    pub(crate) fn close_set(self: &Rc<Self>, mut open: OpenSet) {
        self.allocator.closed(open.id);
        if open.next == 0 {
            // Nothing was written: it is as it was.
            open.set.open_no_more();
            self.space.notify_waiters();
            return;
        }
        open.set.begin_to_end();
        let (engine, busy) = (self.clone(), self.lifecycle.busy.begin());
        if open.flights.failed.get() {
            self.rt.spawn_detached(async move {
                // Items that a member refused are not in the digest, and that is known only when all is settled
                // (AS-WRITE-3).
                open.flights.drained().await;
                if let Some(end) = open.flights.refused.get() {
                    let items = std::mem::take(&mut open.digest).items;
                    open.digest = Digest::of(items.into_iter().filter(|item| item.end() <= end).collect());
                }
                let start = open.next;
                let digest = engine.begin_digest(&open, start);
                engine.end_set(open, digest, busy).await;
            });
            return;
        }
        // Zones end with their digest, so that it is found without looking; not those of a snapshot, which nobody looks
        // for by its digest: filling them up would take longer than the snapshot. Nor those on a drive that is avoided:
        // it would take for ever.
        let index = open.set.state() == SetState::Index;
        let end = open.capacity.saturating_sub(open.digest_blocks(0) + 1).max(open.next);
        let short = index || open.set.drives().meets(&self.paces.avoided());
        let start = if short { open.next } else { end };
        let digest = self.begin_digest(&open, start);
        self.rt.spawn_detached(async move { engine.end_set(open, digest, busy).await });
    }

    /// Begins the digest of a set at block `start` of its zones: starts the writes, unless it is so large that drives have it in turns.
    fn begin_digest(&self, open: &OpenSet, start: u32) -> Ending {
        let sequence = self.stamps.next();
        open.set.closed_at(sequence);
        open.set.set_written(start + open.digest_blocks(0) + 1);
        let mut ending = Ending { start, sequence, at_once: at_once(open), started: None };
        if ending.at_once >= open.members.len() {
            ending.started = Some(self.write_digest(open, &ending, &open.members));
        }
        ending
    }

    /// Starts the writes of a set's digest to some of its members.
    fn write_digest(&self, open: &OpenSet, ending: &Ending, members: &[Member]) -> Writes {
        let gap = zeros(Blocks(u64::from(ending.start.saturating_sub(open.next))));
        let frames = members.iter().map(|&member| {
            let mut pieces = gap.clone();
            pieces.extend(self.digest_frames(open.epoch, &open.digest, member, ending.start, ending.sequence));
            pieces
        });
        self.write_members(members, open.next, frames.collect())
    }

    /// Waits for the writes of a set's digest; what failed of them.
    async fn end_digest(&self, open: &OpenSet, mut ending: Ending) -> Vec<(DriveId, DeviceError)> {
        let mut results = Vec::with_capacity(open.members.len());
        match ending.started.take() {
            Some(writes) => results = writes.await,
            None => {
                for some in open.members.chunks(ending.at_once) {
                    results.extend(self.write_digest(open, &ending, some).await);
                }
            }
        }
        results.into_iter().filter_map(|(member, result)| Some((member.drive, result.err()?))).collect()
    }

    /// Waits for a set's digest, and until everything in the set is in the index: then it is closed (AS-WRITE-2).
    async fn end_set(self: &Rc<Self>, open: OpenSet, digest: Ending, busy: BusyTask) {
        let errors = self.end_digest(&open, digest).await;
        if !open.flights.failed.get() {
            self.finish_longer(&open.members, open.set.written()).await;
        }
        for (drive, error) in errors {
            open.set.hurt();
            if let Err(error) = self.drive_error(drive, &error).await {
                tracing::error!(%error, "the failure of a drive could not be recorded");
            }
        }
        open.flights.drained().await;
        open.set.ends_before(open.next);
        if open.flights.failed.get() {
            self.finish_failed(&open.members).await;
        }
        // Items that are not in the index yet may wait for a caller (AS-CLOSE-1).
        drop(busy);
        open.flights.entered(&open.set).await;
        // Until something in it dies, cleaning what cleaning packed would win nothing, and never end. (AS-CLEAN-3)
        open.set.has_ended(open.next, open.packed);
        if let Err(error) = self.hold_for_tombstones(&open).await {
            tracing::warn!(set = open.id.0, %error, "a set may be cleaned later than it could be");
        }
        self.space.notify_waiters();
    }
}

/// The digest of a set that ends.
struct Ending {
    /// The block of its record.
    start: u32,
    sequence: u64,
    /// Members that it is framed for at once: each takes a copy in memory.
    at_once: usize,
    started: Option<Writes>,
}

/// Bytes of digests that are in memory at once for a set that ends.
const DIGESTS_MOST: u64 = if cfg!(test) { 64 << 10 } else { 64 << 20 };

/// Members that a set's digest is framed for at once.
fn at_once(open: &OpenSet) -> usize {
    let digest = Blocks(u64::from(open.digest_blocks(0))).bytes();
    usize::try_from(DIGESTS_MOST / digest).unwrap_or(usize::MAX).max(1)
}

/// So many zeros are in memory, for a gap of any length.
const ZEROS: Blocks = Blocks(256);

/// Blocks of zeros, in pieces that share their memory: a set that ends early lacks most of a zone.
fn zeros(blocks: Blocks) -> Vec<Bytes> {
    let piece = AlignedBuf::zeroed(blocks.min(ZEROS)).freeze();
    let whole = (blocks.0 / ZEROS.0) as usize;
    let rest = piece.slice(..Blocks(blocks.0 % ZEROS.0).bytes() as usize);
    let pieces = std::iter::repeat_n(piece, whole);
    pieces.chain((!rest.is_empty()).then_some(rest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_of_any_length_share_their_memory() {
        for count in [0, 1, 255, 256, 257, 700, 65_536] {
            let pieces = zeros(Blocks(count));
            assert_eq!(pieces.iter().map(|piece| piece.len() as u64).sum::<u64>(), Blocks(count).bytes());
            assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.as_ptr() == pieces[0].as_ptr()));
        }
    }
}
