//! From a call to a zone: an append is checked, waits in its chunk's queue, and is given a zone with room for it.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{ChunkId, ZoneId};
use shingle_record::sliced_record_blocks;

use crate::append::pools::{Company, Offer, PoolId};
use crate::append::{Pending, Resumption, Waiter};
use crate::client::Reply;
use crate::config::Allocation;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::format::{GROUP_BYTES, RECORD_BYTES};
use crate::index::Handle;
use crate::state::StoreState;
use crate::types::Stream;
use crate::types::ZoneStatus;

/// Outcome for a chunk's waiting appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placed {
    /// They have a zone, or will once those before them are durable.
    Done,
    /// No zone has room.
    Starved,
}

impl Engine {
    /// Begins an append; its answer goes to `reply`. Takes its place among the chunk's appends at once.
    pub(crate) fn start_append(self: &Rc<Self>, id: ChunkId, offset: u64, data: Vec<Bytes>, reply: Reply<u64>) {
        let mut state = self.state.borrow_mut();
        match self.admit(&mut state, id, offset, data) {
            Ok((handle, mut pending)) => {
                pending.waiters.push(Waiter { end: pending.offset + pending.length, began: self.rt.now(), reply });
                if let Some(open) = state.open.get_mut(&handle) {
                    open.queue.push_back(pending);
                }
                self.place(&mut state, handle);
            }
            Err(error) => {
                // A caller that went away needs no answer; so at every reply below.
                let _ = reply.send(Err(error));
            }
        }
    }

    /// Checks an append and takes its bytes out of the chunk's room.
    fn admit(
        &self,
        state: &mut StoreState,
        id: ChunkId,
        offset: u64,
        data: Vec<Bytes>,
    ) -> crate::Result<(Handle, Pending)> {
        state.running()?;
        let (handle, chunk) = state.chunk(id)?;
        let (sealed, size, stream) = (chunk.sealed, chunk.size, chunk.stream);
        let error = |kind, text: String| Err(Error::new(kind, text).of(id));
        let Some(open) = state.open.get_mut(&handle).filter(|open| !sealed && !open.sealing.is_begun()) else {
            let size = u64::from(size);
            // A retry of the append that came before the seal learns that it succeeded.
            let length: u64 = data.iter().map(|piece| piece.len() as u64).sum();
            if length > 0 && offset.checked_add(length).is_some_and(|end| end <= size) {
                return error(
                    ErrorKind::WrongOffset { size },
                    format!("append at {offset}, but the chunk ends at {size}"),
                );
            }
            return error(ErrorKind::Sealed, "the chunk is sealed; append to another one".to_owned());
        };
        let tail = u64::from(open.end);
        if offset != tail {
            return error(
                ErrorKind::WrongOffset { size: tail },
                format!("append at {offset}, but the chunk ends at {tail}"),
            );
        }
        if open.resumption != Resumption::Done {
            // It would wait for an entry of the journal (CS-APP-5).
            self.has_host_room().map_err(|error| error.of(id))?;
        }
        let length: u64 = data.iter().map(|piece| piece.len() as u64).sum();
        if length == 0 || length > self.drive.append_max {
            let text = format!("an append takes 1 to {} bytes, not {length}", self.drive.append_max);
            return error(ErrorKind::Invalid, text);
        }
        let blocks = sliced_record_blocks(length).0 as u32;
        if open.footprint + blocks > self.chunk_limit(stream) || tail + length > u64::from(u32::MAX) {
            return error(ErrorKind::ChunkFull, "the chunk has reached its size limit; seal it".to_owned());
        }
        self.has_index_room(state, id, GROUP_BYTES + RECORD_BYTES)?;
        let Some(open) = state.open.get_mut(&handle) else {
            return error(ErrorKind::Sealed, "the chunk is sealed; append to another one".to_owned());
        };
        open.end += length as u32;
        open.footprint += blocks;
        state.tally.took();
        let pending = Pending {
            handle,
            offset: offset as u32,
            length: length as u32,
            blocks,
            data,
            waiters: Vec::new(),
            tries: 0,
            moved: false,
        };
        Ok((handle, pending))
    }

    /// Moves a chunk's waiting appends to a zone, as far as there is room (CS-APP-2), and has the keeper find one where
    /// there is none.
    pub(crate) fn place(self: &Rc<Self>, state: &mut StoreState, handle: Handle) {
        if self.try_place(state, handle) == Placed::Starved {
            self.wakes.keeper.notify_one();
        }
    }

    fn try_place(self: &Rc<Self>, state: &mut StoreState, handle: Handle) -> Placed {
        let Some(stream) = state.chunks.get(handle).map(|chunk| chunk.stream) else { return Placed::Done };
        if self.is_resuming(state, handle) {
            return Placed::Done;
        }
        let pool = state.pools.of(stream);
        let limit = self.chunk_limit(stream);
        loop {
            if self.try_land(state, handle) {
                continue;
            }
            let Some(open) = state.open.get(&handle) else { return Placed::Done };
            if open.queue.front().is_some_and(|front| !front.moved) {
                if open.landing > 0 {
                    // Behind what lands (CS-LAND-2).
                    return Placed::Done;
                }
                self.push_moves(state, handle);
            }
            let before = state.open.get(&handle).and_then(|open| state.open.get(&open.before?)?.zone);
            let StoreState { open, writers, pools, zones, starved, .. } = state;
            let Some(open) = open.get_mut(&handle) else { return Placed::Done };
            let Some(front) = open.queue.front() else { return Placed::Done };
            if let Some(zone) = open.zone {
                let writer = writers.get_mut(&zone);
                if let Some(writer) = writer.filter(|writer| writer.room() >= front.blocks) {
                    if let Some(pending) = open.queue.pop_front() {
                        open.inflight += 1;
                        open.sent_to = pending.offset + pending.length;
                        writer.enqueue(pending);
                    }
                    if !writer.writing {
                        writer.writing = true;
                        state.turns.wait(zone);
                        self.take_turns(state);
                    }
                    continue;
                }
                if open.inflight > 0 {
                    return Placed::Done;
                }
                (open.zone, open.left) = (None, Some(zone));
                if let Some(writer) = writers.get_mut(&zone) {
                    writer.chunks -= 1;
                }
                let need = front.blocks;
                self.retire_if_spent(state, zone, need);
                continue;
            }
            let need = front.blocks;
            let random = if self.options.placement.allocation == Allocation::Random { self.rt.random() } else { 0 };
            let offer = |zone| {
                let writer = writers.get(&zone).filter(|writer| writer.room() >= need)?;
                Some(Offer { chunks: writer.chunks, room: writer.room() })
            };
            let followed = open.left.and_then(|zone| pools.successor(pool, zone));
            let company = Company { expected: open.expected(limit, need), followed, before };
            let chosen = pools.choose(pool, random, company, offer);
            match chosen {
                Some(zone) => {
                    open.zone = Some(zone);
                    if let Some(left) = open.left.take() {
                        pools.note_moved(pool, left, zone);
                    }
                    if let Some(writer) = writers.get_mut(&zone) {
                        writer.chunks += 1;
                    }
                    debug_assert!(!zones.get(zone).status.is_ended(), "CS-ZONE-1");
                    zones.set_status(zone, ZoneStatus::Activated);
                }
                None => {
                    if !open.starved {
                        open.starved = true;
                        starved.push(pool, handle);
                    }
                    return Placed::Starved;
                }
            }
        }
    }

    /// Tries the starved chunks of all pools again, oldest first.
    pub(crate) fn place_starved(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        for pool in state.pools.ids() {
            for handle in state.starved.take(pool) {
                if let Some(open) = state.open.get_mut(&handle) {
                    open.starved = false;
                    self.try_place(&mut state, handle);
                }
            }
        }
    }

    /// Closes an idle zone that has no room for a record of `need` blocks and little room at all.
    fn retire_if_spent(&self, state: &mut StoreState, zone: ZoneId, need: u32) {
        let spent = state
            .writers
            .get(&zone)
            .is_some_and(|writer| writer.is_idle() && writer.room() < need.min(writer.capacity / 16));
        if spent {
            self.close_zone(state, zone);
        }
    }

    /// Closes a zone in which no chunk is being written and that has hardly room for another.
    pub(crate) fn retire_if_full(&self, state: &mut StoreState, zone: ZoneId) {
        let full = state
            .writers
            .get(&zone)
            .is_some_and(|writer| writer.chunks == 0 && writer.is_idle() && writer.room() < writer.capacity / 64);
        if full {
            self.close_zone(state, zone);
        }
    }

    /// Closes the fullest idle zone of a pool whose zones are all too full for what waits for them.
    pub(crate) fn close_fullest(&self, state: &mut StoreState, pool: PoolId) {
        let idle = state.pools.zones(pool).iter().filter_map(|&zone| {
            let writer = state.writers.get(&zone).filter(|writer| writer.is_idle())?;
            (state.zones.get(zone).status == ZoneStatus::Activated).then_some((writer.room(), zone))
        });
        if let Some((_, zone)) = idle.min() {
            self.close_zone(state, zone);
        }
    }

    /// Takes an idle zone out of service for good (CS-ZONE-1) and gives its open resource back to the drive.
    pub(crate) fn close_zone(&self, state: &mut StoreState, zone: ZoneId) {
        state.retire(zone, ZoneStatus::Closed);
        state.leases.end(zone);
        self.wakes.keeper.notify_one();
    }

    /// The blocks that a chunk of `stream` may take. (SMRstore, section 5.4, strategy 2.)
    pub(crate) fn chunk_limit(&self, stream: Stream) -> u32 {
        let zone = self.drive.zone_room;
        if self.options.placement.zone_sized_chunks && stream != Stream::Meta {
            zone
        } else {
            zone.min(self.options.small_chunk.0.min(u64::from(u32::MAX)) as u32)
        }
    }
}
