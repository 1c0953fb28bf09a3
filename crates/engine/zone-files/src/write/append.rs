//! Appends: bytes take their place in a file at once, and become pieces of whole records.

use std::rc::Rc;

use bytes::Bytes;
use shingle_zone_kit::write_lane;

use super::lane::{Lanes, class_of};
use super::piece::{Piece, Target};
use crate::engine::Engine;
use crate::error::{FilesError, FilesResult};
use crate::state::{Active, Pending, State};

impl State {
    /// A file in use.
    pub(crate) fn active_mut(&mut self, serial: u64) -> &mut Active {
        let journaled = self.tree.file(serial).map_or(0, |node| node.extents.size());
        self.active.entry(serial).or_insert_with(|| Active { journaled, ..Active::default() })
    }
}

impl Engine {
    /// Takes bytes in, in this step. `Ok` says that they wait behind those before them; `or_wait`, also if those wait for room.
    pub(crate) fn take_append(self: &Rc<Self>, serial: u64, data: Vec<Bytes>, or_wait: bool) -> FilesResult<()> {
        self.writable()?;
        let length: u64 = data.iter().map(|piece| piece.len() as u64).sum();
        {
            let mut state = self.state.borrow_mut();
            self.metadata_room(&state, 0, length / u64::from(self.drive.layout.record_bytes) + 2)?;
            let lane = state.active.get(&serial).and_then(|active| active.lane);
            if !or_wait && state.full && lane.is_some_and(|lane| state.lanes.all[lane].own.waits) {
                return Err(FilesError::no_space());
            }
            let active = state.active_mut(serial);
            active.buffer.extend(data.into_iter().filter(|piece| !piece.is_empty()));
            active.buffered += length;
            active.appended += length;
        }
        self.cut_pieces(serial, false);
        Ok(())
    }

    /// Waits while too many bytes of a file wait for the drive.
    pub(crate) async fn await_pace(&self, serial: u64) -> FilesResult<()> {
        loop {
            let landed = self.wakes.landed.notified();
            {
                let state = self.state.borrow();
                state.running()?;
                let Some(active) = state.active.get(&serial) else { return Ok(()) };
                // These bytes were taken; that there is no room for them is told by the sync.
                if active.waiting() - active.buffered <= self.options.waiting_bytes || state.full {
                    return Ok(());
                }
            }
            landed.await;
        }
    }

    /// Makes pieces of a file's buffer: whole records, or all of it.
    pub(crate) fn cut_pieces(self: &Rc<Self>, serial: u64, all: bool) {
        let most = u64::from(self.drive.layout.record_bytes);
        loop {
            let (lane, piece) = {
                let mut state = self.state.borrow_mut();
                let size = state.size(serial);
                let Some(active) = state.active.get_mut(&serial) else { return };
                if active.buffered == 0 || (active.buffered < most && !all) {
                    return;
                }
                let (offset, length) = (size - active.buffered, active.buffered);
                let data = std::mem::take(&mut active.buffer);
                let mut piece = Piece { serial, offset, length, data, target: Target::File };
                if length > most {
                    active.buffer = piece.split_off(most).data;
                }
                active.buffered -= piece.length;
                let (length, data) = (piece.length, piece.data.clone());
                active.pending.push_back(Pending { offset, length, data });
                (self.lane_of(&mut state, serial), piece)
            };
            self.enqueue(lane, piece);
        }
    }

    /// The lane of a file's next piece: that of the ones before it, as long as they are on their way.
    fn lane_of(&self, state: &mut State, serial: u64) -> usize {
        let Some(node) = state.tree.file(serial) else { return class_of(Default::default(), Default::default()) };
        let class = class_of(node.kind, node.lifetime);
        let written = node.extents.size();
        let State { active, lanes, zones, .. } = state;
        let Some(active) = active.get_mut(&serial) else { return class };
        if let Some(lane) = active.lane {
            return lane;
        }
        let zone_bytes = self.drive.layout.zone_bytes();
        // As long as about a zone of it is to come, or its own zone goes on.
        let large = active.expected.saturating_sub(written) >= zone_bytes / 8 * 7;
        let goes_on = lanes.all.iter().any(|lane| lane.own.file == Some(serial) && lane.zone.is_some());
        let alone = class > super::COPIES && (goes_on || (large && zones.free() > self.options.low_water));
        let own = if alone { Lanes::own(lanes, serial) } else { None };
        let lane = own.unwrap_or_else(|| lanes.choose(class));
        active.lane = Some(lane);
        lane
    }

    /// Puts a piece into a lane's queue, and sees to it that the queue is written.
    pub(crate) fn enqueue(self: &Rc<Self>, lane: usize, piece: Piece) {
        if self.state.borrow_mut().lanes.all[lane].push([piece]) {
            self.rt.spawn_detached(write_lane(self.clone(), lane));
        }
    }
}
