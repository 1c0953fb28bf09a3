//! Writing of data: lanes of pieces, each of which is written to one zone at a time. (Dissertation, section 5.7.1, ZonedAllocator.)
//!
//! A piece's place is given in the step in which its command is made up, and one command is under way in a zone. So space and data are in
//! one order without a lock, which the paper needed, and without the drive's zone append.
//!
//! # Invariants
//! - BLU-WRITE-1: a blob gets its places in the step in which its last block has been written; until then its bytes are in memory.
//! - BLU-ROOM-1: copies find a zone that new data may not take, so that a zone can be emptied whenever some of it is stale; and blocks that
//!   were promised to new data find theirs without the cleaner, which may wait for the transactions that they are for.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use shingle_base::{BLOCK_SIZE, ZoneId};
use shingle_runtime::Instant;
use shingle_zone_kit::{Command, Lane, Reset, Status, Writer, ZoneCommands, write_lane};
use shingle_zoned::DeviceError;

use crate::blob::{Blob, Place};
use crate::engine::Engine;
use crate::error::{BlueError, BlueErrorKind, BlueResult};
use crate::hints::Lifetime;
use crate::options::Placement;
use crate::piece::{Group, Piece, Writing};
use crate::state::{COPIES, LaneOwn, RESERVE, State};

/// Blocks of a command at most.
const COMMAND_BLOCKS: u32 = 1024;

/// Time for which new data wait for room that was promised, before it is asked whether there will be any.
const PATIENCE: Duration = Duration::from_secs(10);

const STUCK: &str =
    "so many zones of the drive have failed that data under way have no room; nothing that was completed is lost";

/// Pieces of one command, each with its block in the zone.
pub(crate) struct Draft {
    zone: ZoneId,
    end: u32,
    pieces: Vec<(Piece, u32)>,
}

/// A step toward a zone.
enum Step {
    Zone(ZoneId),
    Leave(ZoneId),
    Take(ZoneId),
    Shared(usize),
    Wait,
}

impl Engine {
    /// The lane for new data of a lifetime.
    pub(crate) fn lane_for(&self, lifetime: Lifetime) -> usize {
        let lanes = self.drive.layout.lanes as usize;
        match self.options.placement {
            Placement::LowestZoneFirst => COPIES + 1,
            Placement::ByLifetime => COPIES + 1 + (lifetime as usize).min(lanes - 1),
        }
    }

    /// Has blocks of a blob written, from block `at` on. New data have room; copies may fail for want of it.
    pub(crate) fn write_out(
        self: &Rc<Self>,
        lane: usize,
        blob: &Rc<Blob>,
        at: u32,
        data: Bytes,
        group: &Rc<Group>,
    ) -> Rc<Writing> {
        let blocks = (data.len() / BLOCK_SIZE) as u32;
        group.left.set(group.left.get() + u64::from(blocks));
        let (left, places) = (Cell::new(blocks), RefCell::default());
        let writing = Rc::new(Writing { blob: blob.clone(), copy: lane == COPIES, left, places, group: group.clone() });
        let piece = Piece { writing: writing.clone(), at, data };
        if self.lane(lane, |lane| lane.push([piece])) {
            self.rt.spawn_detached(write_lane(self.clone(), lane));
        }
        writing
    }

    fn step(&self, lane: usize) -> BlueResult<Step> {
        let mut state = self.state.borrow_mut();
        state.running()?;
        let zone_blocks = self.drive.layout.zone_blocks;
        if let Some(zone) = state.lanes[lane].zone {
            let full = state.zones.get(zone).is_none_or(|entry| entry.next >= zone_blocks);
            return Ok(if full { Step::Leave(zone) } else { Step::Zone(zone) });
        }
        let reserve = if lane == COPIES { 0 } else { state.reserve() };
        if state.zones.free() > reserve
            && let Some(zone) = self.take_zone(&mut state)
        {
            return Ok(Step::Take(zone));
        }
        if lane != COPIES {
            let others = COPIES + 1..state.lanes.len();
            if let Some(other) = state.share_zone(lane, others, zone_blocks) {
                return Ok(Step::Shared(other));
            }
            // New data have been promised their room: zones have failed since, or a zone's rest was lost. The cleaner may wait for these
            // very blocks, and is left one zone; and if it has only that, they share it.
            if state.zones.free() + RESERVE > reserve + 1
                && let Some(zone) = self.take_zone(&mut state)
            {
                return Ok(Step::Take(zone));
            }
            if let Some(copies) = state.share_zone(lane, COPIES..COPIES + 1, zone_blocks) {
                return Ok(Step::Shared(copies));
            }
        }
        if self.keeper.has_ended() { Err(BlueError::closed()) } else { Ok(Step::Wait) }
    }

    fn take_zone(&self, state: &mut State) -> Option<ZoneId> {
        if self.options.placement == Placement::LowestZoneFirst {
            state.feed_lowest();
        }
        self.keeper.wake();
        state.zones.take_free()
    }

    /// Begins a generation of a zone for a lane. A zone that cannot be reset for long is given up. (ZK-ZONE-4)
    async fn open_zone(&self, lane: usize, zone: ZoneId) -> BlueResult<()> {
        let dirty = self.state.borrow().zones.get(zone).is_some_and(|entry| entry.dirty);
        let reset = if dirty { self.drive.commands.reset(zone).await } else { Ok(Reset::Done) };
        let reset = reset.map_err(|gone| Writer::stop(self, gone))?;
        if reset != Reset::Done {
            let rest = self.state.borrow_mut().zones.not_reset(zone, reset);
            self.rt.sleep(rest).await;
            return Ok(());
        }
        let mut state = self.state.borrow_mut();
        let epoch = &mut state.epochs[zone.0 as usize];
        *epoch += 1;
        let epoch = *epoch;
        state.zones.open(zone, lane as u8, epoch);
        state.lanes[lane].zone = Some(zone);
        Ok(())
    }

    /// A blob is written as a whole. (BLU-WRITE-1)
    fn note_written(&self, state: &mut State, writing: &Writing) {
        let mut places = writing.places.borrow_mut();
        places.sort_unstable();
        if writing.copy {
            return;
        }
        let mut blob = writing.blob.state.borrow_mut();
        blob.places.clone_from(&places);
        if let Some(data) = blob.data.take() {
            drop(blob);
            state.keep_data(writing.blob.unit_shift, &places, 0, &data);
        }
    }
}

impl State {
    /// Has the lowest free zone taken next.
    fn feed_lowest(&mut self) {
        let free = self.zones.iter().filter(|(_, entry)| entry.status == Status::Free).map(|(zone, _)| zone);
        // A zone that is about to be reset has this status, too, and is not fed.
        let free: Vec<ZoneId> = free.collect();
        free.into_iter().find(|zone| self.zones.feed(*zone));
    }

    /// Gives a lane's pieces to another one of those whose zone has room. `None` if there is none.
    fn share_zone(&mut self, lane: usize, others: Range<usize>, zone_blocks: u32) -> Option<usize> {
        let has_room = |other: &usize| {
            let zone = self.lanes[*other].zone.and_then(|zone| self.zones.get(zone));
            *other != lane && zone.is_some_and(|zone| zone.next < zone_blocks)
        };
        let other = others.filter(has_room).min_by_key(|other| other.abs_diff(lane))?;
        let moved = std::mem::take(&mut self.lanes[lane].queue);
        self.lanes[other].queue.extend(moved);
        Some(other)
    }

    /// New data wait for room. If nobody has waited before, each zone is tried once more for them. (BLU-CLEAN-4)
    fn lane_waits(&mut self, lane: usize, now: Instant) {
        if !self.has_waiters() {
            self.waits_since = now;
        }
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.own.waits = true;
        }
    }

    /// Nothing has happened since `progress`, and nothing that is under way can bring new data the room that they were promised: the cleaner
    /// waits for their transactions.
    fn is_stuck(&self, progress: u64) -> bool {
        let waits = self.lanes.iter().all(|lane| lane.own.waits || !lane.is_busy());
        waits && !self.unsettled() && self.progress() == progress
    }

    /// Keeps bytes of a blob in the cache: `data` begins with block `from` of it, which begins a unit. They are at `places`, whose zones
    /// have not been reset since. (BLU-READ-2)
    pub(crate) fn keep_data(&mut self, unit_shift: u8, places: &[Place], from: u32, data: &Bytes) {
        let unit = 1u32 << unit_shift;
        let blocks = (data.len() / BLOCK_SIZE) as u32;
        let mut at = 0;
        while at < blocks {
            let count = unit.min(blocks - at);
            let first = from + at..from + at + 1;
            let place = places.iter().find_map(|place| place.part(&first));
            let epoch = place.and_then(|place| Some(self.zones.get(ZoneId(place.zone))?.epoch));
            if let (Some(place), Some(epoch)) = (place, epoch) {
                let (start, end) = (at as usize * BLOCK_SIZE, (at + count) as usize * BLOCK_SIZE);
                let bytes = data.slice(start..end);
                self.data.insert((place.zone, epoch, place.block), bytes, (end - start) as u64 + 100);
            }
            at += count;
        }
    }
}

impl Writer for Engine {
    type Piece = Piece;
    type Own = LaneOwn;
    type Draft = Draft;
    type Failure = BlueError;

    fn commands(&self) -> &ZoneCommands {
        &self.drive.commands
    }

    fn lane<R>(&self, lane: usize, step: impl FnOnce(&mut Lane<Piece, LaneOwn>) -> R) -> R {
        step(&mut self.state.borrow_mut().lanes[lane])
    }

    fn tidy(&self, lane: usize) {
        let mut state = self.state.borrow_mut();
        if state.stopped.is_some() {
            for piece in std::mem::take(&mut state.lanes[lane].queue) {
                piece.writing.group.landed.notify_waiters();
            }
        }
    }

    async fn ready(self: &Rc<Self>, lane: usize) -> BlueResult<Option<ZoneId>> {
        let woken = self.wakes.room.notified();
        match self.step(lane)? {
            Step::Zone(zone) => return Ok(Some(zone)),
            Step::Leave(zone) => self.leave(lane, zone).await?,
            Step::Take(zone) => self.open_zone(lane, zone).await?,
            Step::Shared(other) => {
                if self.lane(other, |lane| lane.push([])) {
                    self.rt.spawn_detached(write_lane(self.clone(), other));
                }
            }
            Step::Wait if lane == COPIES => return Err(BlueError::no_space()),
            Step::Wait => {
                self.state.borrow_mut().lane_waits(lane, self.rt.now());
                self.wakes.pressure.notify_one();
                self.keeper.wake();
                let progress = self.state.borrow().progress();
                let (woken, patience) = (pin!(woken), pin!(self.rt.sleep(PATIENCE)));
                let waited_long = matches!(select(woken, patience).await, Either::Right(_));
                let stuck = waited_long && self.state.borrow().is_stuck(progress);
                self.lane(lane, |lane| lane.own.waits = false);
                if stuck {
                    let failure = BlueError::new(BlueErrorKind::Unavailable, STUCK);
                    Engine::stop(self, &failure);
                    return Err(failure);
                }
            }
        }
        Ok(None)
    }

    fn draft(&self, lane: usize, zone: ZoneId) -> Option<Command<Draft>> {
        let mut state = self.state.borrow_mut();
        let from = state.zones.get(zone)?.next;
        let most = from.saturating_add(COMMAND_BLOCKS).min(self.drive.layout.zone_blocks);
        let mut draft = Draft { zone, end: from, pieces: Vec::new() };
        let mut data = Vec::new();
        let queue = &mut state.lanes[lane].queue;
        while draft.end < most {
            let Some(mut piece) = queue.pop_front() else { break };
            let room = most - draft.end;
            if piece.blocks() > room {
                queue.push_front(piece.split_off(room));
            }
            data.push(piece.data.clone());
            let blocks = piece.blocks();
            draft.pieces.push((piece, draft.end));
            draft.end += blocks;
        }
        (!draft.pieces.is_empty()).then_some(Command { zone, from, data, draft })
    }

    async fn landed(self: &Rc<Self>, lane: usize, draft: Draft) -> BlueResult<()> {
        let zone = draft.zone;
        {
            let mut state = self.state.borrow_mut();
            state.zones.advance(zone, draft.end, !self.drive.geometry.volatile_cache);
            state.counters.writes += 1;
            if let Some(own) = state.zones.own_mut(zone) {
                own.suspect = false;
            }
            for (piece, block) in draft.pieces {
                let (writing, count) = (&piece.writing, piece.blocks());
                if writing.group.failed.get() {
                    // The others had no place to go: nobody will ask for this one, and it is garbage.
                    state.counters.blocks_written += u64::from(count);
                    state.counters.blocks_copied += u64::from(count);
                    continue;
                }
                writing.places.borrow_mut().push(Place { at: piece.at, zone: zone.0, block, count });
                state.zones.add_live(zone, u64::from(count));
                if let Some(own) = state.zones.own_mut(zone) {
                    own.pending += count;
                }
                state.counters.blocks_written += u64::from(count);
                match writing.copy {
                    true => state.counters.blocks_copied += u64::from(count),
                    false => state.promised = state.promised.saturating_sub(u64::from(count)),
                }
                writing.left.set(writing.left.get() - count);
                if writing.left.get() == 0 {
                    self.note_written(&mut state, writing);
                }
                let group = &writing.group;
                group.left.set(group.left.get() - u64::from(count));
                if group.left.get() == 0 {
                    group.landed.notify_waiters();
                    self.wakes.landed.notify_one();
                }
            }
        }
        if draft.end >= self.drive.layout.zone_blocks { self.leave(lane, zone).await } else { Ok(()) }
    }

    fn undo(&self, _lane: usize, draft: Draft) -> Vec<Piece> {
        if let Some(own) = self.state.borrow_mut().zones.own_mut(draft.zone) {
            own.suspect = true;
        }
        draft.pieces.into_iter().map(|(piece, _)| piece).collect()
    }

    fn note_failure(&self, zone: ZoneId, broken: bool, counts: bool) -> u32 {
        self.state.borrow_mut().zones.note_failure(zone, broken, counts)
    }

    async fn leave(self: &Rc<Self>, lane: usize, zone: ZoneId) -> BlueResult<()> {
        let entry = {
            let mut state = self.state.borrow_mut();
            if state.lanes[lane].zone != Some(zone) {
                return Ok(());
            }
            state.lanes[lane].zone = None;
            state.zones.close(zone);
            state.looked.note(zone.0);
            state.zones.get(zone).copied()
        };
        self.keeper.wake();
        self.release(zone, entry.map(|entry| (entry.epoch, entry.next, entry.broken))).await;
        Ok(())
    }

    fn stop(&self, gone: DeviceError) -> BlueError {
        let failure = BlueError::from(gone);
        Engine::stop(self, &failure);
        failure
    }

    fn gave_up(self: &Rc<Self>, lane: usize, _failure: BlueError) -> bool {
        // Copies are made again some other time; new data wait for room, or for the end.
        if lane == COPIES {
            let pieces = self.lane(lane, |lane| std::mem::take(&mut lane.queue));
            let (copies, new): (Vec<Piece>, Vec<Piece>) = pieces.into_iter().partition(|piece| piece.writing.copy);
            for piece in copies {
                piece.writing.group.failed.set(true);
                piece.writing.group.landed.notify_waiters();
                self.wakes.landed.notify_one();
            }
            if self.lane(COPIES + 1, |lane| lane.push(new)) {
                self.rt.spawn_detached(write_lane(self.clone(), COPIES + 1));
            }
        }
        !self.keeper.has_ended()
    }

    fn idle(self: &Rc<Self>, _lane: usize) {
        self.keeper.wake();
        self.wakes.landed.notify_one();
    }
}

impl Engine {
    /// Gives back what the drive keeps for a zone that is left before its end.
    pub(crate) async fn release(&self, zone: ZoneId, entry: Option<(u64, u32, bool)>) {
        let Some((epoch, next, broken)) = entry else { return };
        if broken || next >= self.drive.layout.zone_blocks {
            return;
        }
        let still = || self.state.borrow().zones.get(zone).is_some_and(|entry| entry.epoch == epoch);
        self.drive.commands.release(zone, still).await;
    }
}
