//! Commands of a lane: pieces become records on their way, and extents of files once they are written.
//!
//! # Invariants
//! - ZF-WRITE-1: pieces of a file are written in their order, whatever zones fail.
//! - ZF-WRITE-2: bytes stay in memory until a command that wrote them has succeeded; one that failed is repeated in its place or in
//!   another zone.

use std::rc::Rc;

use shingle_base::ZoneId;
use shingle_record::{sliced_capacity, sliced_record_blocks};
use shingle_zone_kit::{Command, Writer, ZoneCommands};
use shingle_zoned::DeviceError;

use super::lane::{LOGS, Lane, OWN, Own};
use super::piece::{Piece, Target};
use crate::engine::Engine;
use crate::error::{FilesError, FilesResult};
use crate::extent::Extent;
use crate::payload::Framed;
use crate::state::State;

/// Blocks of a command at most.
const COMMAND_BLOCKS: u32 = 512;

/// Pieces that are written by one command.
pub(crate) struct Draft {
    zone: ZoneId,
    end: u32,
    /// With the block at which each begins.
    pieces: Vec<(Piece, u32)>,
}

impl Writer for Engine {
    type Piece = Piece;
    type Own = Own;
    type Draft = Draft;
    type Failure = FilesError;

    fn commands(&self) -> &ZoneCommands {
        &self.drive.zones
    }

    fn lane<R>(&self, lane: usize, step: impl FnOnce(&mut Lane) -> R) -> R {
        step(&mut self.state.borrow_mut().lanes.all[lane])
    }

    fn tidy(&self, lane: usize) {
        let mut state = self.state.borrow_mut();
        state.drop_gone(lane);
        if let Some(failure) = state.stopped.clone() {
            for piece in std::mem::take(&mut state.lanes.all[lane].queue) {
                piece.fail(&failure);
            }
        }
    }

    async fn ready(self: &Rc<Self>, lane: usize) -> FilesResult<Option<ZoneId>> {
        self.ready_zone(lane).await
    }

    fn draft(&self, lane: usize, zone: ZoneId) -> Option<Command<Draft>> {
        self.draft_for(lane, zone)
    }

    async fn landed(self: &Rc<Self>, lane: usize, draft: Draft) -> FilesResult<()> {
        let (zone, full) = (draft.zone, draft.end >= self.drive.layout.zone_blocks);
        self.land(lane, draft);
        if full { self.end_zone(lane, zone).await } else { Ok(()) }
    }

    fn undo(&self, _: usize, draft: Draft) -> Vec<Piece> {
        draft.pieces.into_iter().map(|(piece, _)| piece).collect()
    }

    fn note_failure(&self, zone: ZoneId, broken: bool, counts: bool) -> u32 {
        let mut state = self.state.borrow_mut();
        let failures = state.zones.note_failure(zone, broken, counts);
        state.note_losses(zone);
        failures
    }

    async fn leave(self: &Rc<Self>, lane: usize, zone: ZoneId) -> FilesResult<()> {
        self.end_zone(lane, zone).await
    }

    fn stop(&self, gone: DeviceError) -> FilesError {
        let failure = FilesError::from(gone);
        Self::stop(self, &failure);
        failure
    }

    /// Files' bytes wait for room; copies are given up by the cleaner.
    fn gave_up(self: &Rc<Self>, lane: usize, failure: FilesError) -> bool {
        let mut state = self.state.borrow_mut();
        let queue = &mut state.lanes.all[lane].queue;
        let (copies, files): (Vec<Piece>, Vec<Piece>) =
            queue.drain(..).partition(|piece| matches!(piece.target, Target::Copy(_)));
        queue.extend(files);
        copies.iter().for_each(|piece| piece.fail(&failure));
        !self.keeper.has_ended() || state.stopped.is_some()
    }

    fn idle(self: &Rc<Self>, lane: usize) {
        let mut state = self.state.borrow_mut();
        if lane >= OWN
            && let Some(serial) = state.lanes.all[lane].own.file
            && !state.active.contains_key(&serial)
        {
            state.lanes.disown(serial);
        }
        if state.lanes.all.iter().any(|lane| lane.own.waits) {
            // The lane's zone may be one that can be emptied now. (ZF-ROOM-2)
            self.keeper.wake();
        }
        drop(state);
        self.wakes.landed.notify_waiters();
    }
}

impl Engine {
    /// Takes pieces out of the queue, as many as one command and the zone hold.
    fn draft_for(&self, lane: usize, zone: ZoneId) -> Option<Command<Draft>> {
        let mut state = self.state.borrow_mut();
        let State { lanes, zones, .. } = &mut *state;
        let entry = zones.get(zone)?;
        let (from, epoch, durable) = (entry.next, entry.epoch, entry.durable);
        let end = self.drive.layout.zone_blocks.min(from + COMMAND_BLOCKS);
        let (mut draft, mut data) = (Draft { zone, end: from, pieces: Vec::new() }, Vec::new());
        while let Some(mut piece) = lanes.all[lane].queue.pop_front() {
            let room = u64::from(end - draft.end);
            let fits = sliced_capacity(shingle_base::Blocks(room));
            if piece.length > fits {
                // Only the end of a zone cuts a piece: the rest of a command's blocks waits for the next.
                if end < self.drive.layout.zone_blocks || fits == 0 {
                    lanes.all[lane].queue.push_front(piece);
                    break;
                }
                let rest = piece.split_off(fits);
                lanes.all[lane].queue.push_front(rest);
            }
            let framed = Framed {
                serial: piece.serial,
                offset: piece.offset,
                length: piece.length as u32,
                data: &piece.data,
                durable,
            };
            let place = self.drive.place(zone, epoch, draft.end);
            data.extend(self.drive.payload.frame(&framed, &place, self.sequence.next()));
            let blocks = sliced_record_blocks(piece.length).0 as u32;
            draft.pieces.push((piece, draft.end));
            draft.end += blocks;
        }
        (!draft.pieces.is_empty()).then_some(Command { zone, from, data, draft })
    }

    /// A command has succeeded. (ZF-WRITE-2)
    fn land(&self, lane: usize, draft: Draft) {
        let durable = !self.drive.geometry.volatile_cache;
        let now = self.rt.unix_time();
        let mut state = self.state.borrow_mut();
        state.zones.advance(draft.zone, draft.end, durable);
        state.counters.writes += 1;
        for (piece, block) in draft.pieces {
            let extent = Extent::of_record(piece.offset, piece.length as u32, draft.zone, block);
            match piece.target {
                Target::File => {
                    state.counters.bytes_written += piece.length;
                    state.counters.blocks_written += extent.blocks();
                    state.add_record(piece.serial, extent);
                    if let Some(node) = state.tree.file_mut(piece.serial) {
                        node.modified = now;
                    }
                    state.note_landed(lane, piece.serial, piece.length);
                }
                Target::Copy(copying) if copying.abandoned.get() => {}
                Target::Copy(copying) => {
                    state.counters.bytes_copied += piece.length;
                    state.counters.blocks_copied += extent.blocks();
                    state.zones.add_live(extent.zone, extent.blocks());
                    copying.placed.borrow_mut().push(extent);
                    copying.landed.notify_one();
                }
            }
        }
        drop(state);
        self.wakes.landed.notify_waiters();
    }
}

impl State {
    /// Drops pieces that nobody needs: their file is gone, or the copy was given up.
    fn drop_gone(&mut self, lane: usize) {
        let Self { lanes, tree, .. } = self;
        let queue = &mut lanes.all[lane].queue;
        queue.retain(|piece| match &piece.target {
            Target::Copy(copying) => !copying.abandoned.get(),
            Target::File => tree.file(piece.serial).is_some(),
        });
    }

    /// Bytes of a file are written: it forgets them, and the lane once there are no others.
    fn note_landed(&mut self, lane: usize, serial: u64, length: u64) {
        debug_assert!(
            lane != LOGS || self.tree.file(serial).is_none_or(|node| node.kind == crate::config::FileKind::Wal)
        );
        let Some(active) = self.active.get_mut(&serial) else { return };
        active.landed += length;
        let mut left = length;
        while let Some(front) = active.pending.front_mut().filter(|_| left > 0) {
            let taken = left.min(front.length);
            left -= taken;
            if taken == front.length {
                active.pending.pop_front();
            } else {
                let mut rest = Piece {
                    serial,
                    offset: front.offset,
                    length: front.length,
                    data: std::mem::take(&mut front.data),
                    target: Target::File,
                };
                let rest = rest.split_off(taken);
                (front.offset, front.length, front.data) = (rest.offset, rest.length, rest.data);
            }
        }
        if active.pending.is_empty() {
            active.lane = None;
        }
    }
}
