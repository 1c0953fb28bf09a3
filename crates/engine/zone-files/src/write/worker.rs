//! The task that writes a lane's queue: one command is under way in a zone, and all that comes meanwhile joins the next.
//!
//! # Invariants
//! - ZF-WRITE-1: pieces of a file are written in their order, whatever zones fail.
//! - ZF-WRITE-2: bytes stay in memory until a command that wrote them has succeeded; one that failed is repeated in its place or in
//!   another zone.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::ZoneId;
use shingle_record::{sliced_capacity, sliced_record_blocks};

use super::lane::{LOGS, OWN};
use super::piece::{Piece, Target};
use super::zone::Ready;
use crate::engine::{Engine, Keeping};
use crate::extent::Extent;
use crate::payload::Framed;
use crate::state::State;

/// Blocks of a command at most.
const COMMAND_BLOCKS: u32 = 512;

/// Pieces that are written by one command.
struct Draft {
    zone: ZoneId,
    from: u32,
    end: u32,
    /// With the block at which each begins.
    pieces: Vec<(Piece, u32)>,
    data: Vec<Bytes>,
}

impl Engine {
    /// Writes a lane's queue until it is empty.
    pub(crate) async fn write_lane(self: Rc<Self>, lane: usize) {
        loop {
            {
                let mut state = self.state.borrow_mut();
                state.drop_gone(lane);
                if state.lanes.all[lane].queue.is_empty() || state.stopped.is_some() {
                    self.end_lane(&mut state, lane);
                    break;
                }
            }
            match self.ready_zone(lane).await {
                Ok(Ready::Zone) => {}
                Ok(Ready::Again) => continue,
                Err(failure) => {
                    // Files' bytes wait for room; copies are given up by the cleaner.
                    self.fail_copies(lane, &failure);
                    if self.keeping.get() == Keeping::Ended {
                        self.state.borrow_mut().lanes.all[lane].writing = false;
                        break;
                    }
                    continue;
                }
            }
            let Some(draft) = self.draft(lane) else { continue };
            let at = self.drive.block(draft.zone, draft.from);
            match self.drive.dev.write(at, draft.data.clone()).await {
                Ok(()) => {
                    let (zone, full) = (draft.zone, draft.end >= self.drive.layout.zone_blocks);
                    self.land(lane, draft);
                    if full && self.end_zone(lane, zone).await.is_err() {
                        // The files have stopped, and the loop ends.
                        continue;
                    }
                }
                Err(error) => {
                    let (zone, from) = (draft.zone, draft.from);
                    {
                        let mut state = self.state.borrow_mut();
                        for (piece, _) in draft.pieces.into_iter().rev() {
                            state.lanes.all[lane].queue.push_front(piece);
                        }
                    }
                    // Its failure stops the files, and the loop ends.
                    let _ = self.after_failed_write(lane, zone, from, error).await;
                }
            }
        }
        self.wakes.landed.notify_waiters();
    }

    fn end_lane(&self, state: &mut State, lane: usize) {
        state.lanes.all[lane].writing = false;
        if lane >= OWN
            && let Some(serial) = state.lanes.all[lane].own
            && !state.active.contains_key(&serial)
        {
            state.lanes.disown(serial);
        }
        if state.stopped.is_some() {
            let failure = state.stopped.clone();
            for piece in std::mem::take(&mut state.lanes.all[lane].queue) {
                if let Target::Copy(copying) = piece.target {
                    *copying.failed.borrow_mut() = failure.clone();
                    copying.ended.notify_one();
                }
            }
        }
    }

    /// Takes pieces out of the queue, as many as one command and the zone hold.
    fn draft(&self, lane: usize) -> Option<Draft> {
        let mut state = self.state.borrow_mut();
        let State { lanes, zones, .. } = &mut *state;
        let zone = lanes.all[lane].zone?;
        let entry = zones.get(zone)?;
        let (from, epoch, durable) = (entry.next, entry.epoch, entry.durable);
        let end = self.drive.layout.zone_blocks.min(from + COMMAND_BLOCKS);
        let mut draft = Draft { zone, from, end: from, pieces: Vec::new(), data: Vec::new() };
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
            draft.data.extend(self.drive.payload.frame(&framed, &place, self.sequence.next()));
            let blocks = sliced_record_blocks(piece.length).0 as u32;
            draft.pieces.push((piece, draft.end));
            draft.end += blocks;
        }
        (!draft.pieces.is_empty()).then_some(draft)
    }

    /// A command has succeeded. (ZF-WRITE-2)
    fn land(&self, lane: usize, draft: Draft) {
        let durable = !self.drive.geometry.volatile_cache;
        let now = self.rt.unix_time();
        let mut state = self.state.borrow_mut();
        if let Some(entry) = state.zones.get_mut(draft.zone) {
            entry.next = draft.end;
            entry.failures = 0;
            if durable {
                entry.durable = draft.end;
            }
        }
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
                    copying.left.set(copying.left.get() - piece.length);
                    if copying.left.get() == 0 {
                        copying.ended.notify_one();
                    }
                }
            }
        }
        drop(state);
        self.wakes.landed.notify_waiters();
    }

    /// Gives up the copies in a lane.
    fn fail_copies(&self, lane: usize, failure: &crate::error::FilesError) {
        let mut state = self.state.borrow_mut();
        let queue = &mut state.lanes.all[lane].queue;
        let (copies, files): (Vec<Piece>, Vec<Piece>) =
            queue.drain(..).partition(|piece| matches!(piece.target, Target::Copy(_)));
        queue.extend(files);
        for piece in copies {
            if let Target::Copy(copying) = piece.target {
                *copying.failed.borrow_mut() = Some(failure.clone());
                copying.ended.notify_one();
            }
        }
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
