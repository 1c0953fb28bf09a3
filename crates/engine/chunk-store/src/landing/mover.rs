//! Moving: landed tails go to their chunks' own zones, those of one zone together, and the index takes them.
//!
//! The more landed bytes memory holds, the more of them are bound for the same zone and the fewer ways the head goes for
//! them: the zone with most is visited whenever the budget is used up. On a disk nothing lands meanwhile, for there is
//! one head, and what would land waits for it in any case.

use std::collections::BTreeMap;
use std::rc::Rc;

use shingle_base::ZoneId;

use crate::append::{OpenChunk, Pending};
use crate::engine::Engine;
use crate::index::Handle;
use crate::index::Located;
use crate::landing::tail::{Move, Piece};
use crate::state::StoreState;
use crate::types::ZoneStatus;

/// Zones visited together: the drive takes the nearest first.
const VISITS: usize = 4;

impl Engine {
    /// Runs until the store stops.
    pub(crate) async fn move_tails(self: Rc<Self>) {
        loop {
            let picked = {
                let state = self.state.borrow();
                if state.stopped.is_some() {
                    return;
                }
                self.pick_moves(&state)
            };
            if picked.is_empty() {
                self.mover_wakes().await;
                continue;
            }
            self.pause_landing().await;
            {
                let mut state = self.state.borrow_mut();
                for handle in picked {
                    let ready = state.open.get(&handle).is_some_and(OpenChunk::can_move);
                    if ready && self.push_moves(&mut state, handle) {
                        self.place(&mut state, handle);
                    }
                }
            }
            while self.moves_go_on() {
                self.wakes.mover.notified().await;
            }
            let mut state = self.state.borrow_mut();
            if let Some(landing) = &mut state.landing {
                landing.paused = false;
            }
            self.land(&mut state);
        }
    }

    /// Waits until there may be something to move: when the budget is used up, or nothing lands any more.
    async fn mover_wakes(&self) {
        let idle = self.state.borrow().landing.as_ref().map(|landing| (landing.bytes > 0, landing.config.idle));
        let asked = Box::pin(self.wakes.mover.notified());
        match idle {
            Some((true, idle)) if self.options.background => {
                futures_util::future::select(asked, Box::pin(self.rt.sleep(idle))).await;
            }
            _ => asked.await,
        }
    }

    /// Keeps the head of a disk for moves, once the write under way is done.
    async fn pause_landing(&self) {
        if self.drive.geometry.revolution.is_none() {
            return;
        }
        loop {
            {
                let mut state = self.state.borrow_mut();
                let Some(landing) = &mut state.landing else { return };
                landing.paused = true;
                if !landing.writing || state.stopped.is_some() {
                    return;
                }
            }
            self.wakes.mover.notified().await;
        }
    }

    /// True if moves are under way that do not wait for space.
    fn moves_go_on(&self) -> bool {
        let state = self.state.borrow();
        let starved = state.starved.any();
        state.stopped.is_none() && !starved && state.landing.as_ref().is_some_and(|landing| landing.moves > 0)
    }

    /// The chunks whose tails are to move now.
    fn pick_moves(&self, state: &StoreState) -> Vec<Handle> {
        let Some(landing) = &state.landing else { return Vec::new() };
        // Records that keep many landing zones from becoming garbage go first, the oldest of them.
        let lingering = landing.zones.lingering();
        let stubborn = lingering
            .iter()
            .min_by_key(|zone| state.zones.get(**zone).epoch)
            .filter(|_| lingering.len() > landing.zones.most() as usize);
        let idle = self.options.background && self.rt.now().since(landing.last) >= landing.config.idle;
        if stubborn.is_none() && !landing.over_budget() && !(idle && landing.bytes > 0) {
            return Vec::new();
        }
        let mut tails: BTreeMap<Option<ZoneId>, (u64, Vec<Handle>)> = BTreeMap::new();
        // As many as are moved at once where they have no zone yet.
        let visit = (landing.config.budget / 16).max(self.options.record_max as u64);
        for (&handle, open) in &state.open {
            let bytes = open.tail.waiting();
            if bytes == 0 || !open.can_move() {
                continue;
            }
            if stubborn.is_some_and(|zone| !open.tail.waits_in(*zone)) {
                continue;
            }
            let (sum, handles) = tails.entry(open.zone).or_default();
            if open.zone.is_some() || *sum < visit {
                *sum += bytes;
                handles.push(handle);
            }
        }
        let mut tails: Vec<(u64, Vec<Handle>)> = tails.into_values().collect();
        tails.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        tails.truncate(VISITS);
        tails.into_iter().flat_map(|(_, handles)| handles).collect()
    }

    /// Puts what waits in a chunk's tail at the front of its queue, to be written to its own zone (CS-LAND-2). Returns
    /// whether there was anything.
    pub(crate) fn push_moves(&self, state: &mut StoreState, handle: Handle) -> bool {
        let StoreState { open, landing: Some(landing), .. } = state else { return false };
        let Some(open) = open.get_mut(&handle) else { return false };
        let moves = open.tail.take_moves(self.options.record_max);
        let any = !moves.is_empty();
        for Move { offset, length, data, footprint_before, blocks } in moves.into_iter().rev() {
            landing.moves += 1;
            open.footprint = open.footprint.saturating_sub(footprint_before) + blocks;
            open.queue.push_front(Pending {
                handle,
                offset,
                length,
                blocks,
                data,
                waiters: Vec::new(),
                tries: 0,
                moved: true,
            });
        }
        any
    }

    /// Begins to move a chunk's tail. Returns whether there is one.
    pub(crate) fn move_tail(self: &Rc<Self>, handle: Handle) -> bool {
        let mut state = self.state.borrow_mut();
        let moves = state.open.get(&handle).is_some_and(OpenChunk::can_move) && self.push_moves(&mut state, handle);
        if moves {
            self.place(&mut state, handle);
        }
        moves
    }

    /// A move is over, well or not.
    pub(crate) fn note_moved(&self, state: &mut StoreState) {
        if let Some(landing) = &mut state.landing {
            landing.moves -= 1;
            self.wakes.mover.notify_one();
        }
    }

    /// The index has taken a record of the chunk: what landed of it is dead.
    pub(crate) fn note_indexed(self: &Rc<Self>, state: &mut StoreState, handle: Handle) {
        let Some(end) = state.chunks.get(handle).map(|chunk| chunk.groups.end()) else { return };
        let pieces = state.open.get_mut(&handle).map(|open| open.tail.indexed(end)).unwrap_or_default();
        self.landed_gone(state, &pieces);
    }

    /// Landed records are dead, or in the index (CS-LAND-3). That makes room in memory for what waits to land: nobody else
    /// may come.
    pub(crate) fn landed_gone(self: &Rc<Self>, state: &mut StoreState, pieces: &[Piece]) {
        let StoreState { landing: Some(landing), zones, .. } = state else { return };
        // Zones that failed, of which nothing is needed now.
        let mut spent = Vec::new();
        for Piece { located, .. } in pieces {
            landing.bytes -= u64::from(located.length);
            let slot = zones.get_mut(located.zone);
            slot.landed -= 1;
            slot.live -= located.blocks().0 as u32;
            if let Some(indexed_to) = landing.zones.gone(located.zone, located.block) {
                slot.indexed_to = indexed_to;
            }
            zones.note_garbage(located.zone);
            let slot = zones.get(located.zone);
            match slot.status {
                ZoneStatus::Garbage => self.wakes.keeper.notify_one(),
                ZoneStatus::ReadOnly | ZoneStatus::Offline if slot.landed == 0 => spent.push(located.zone),
                _ => {}
            }
        }
        self.mark_ended(state, spent);
        if !pieces.is_empty() {
            self.land(state);
        }
    }

    /// Lets the index point at a chunk's landed records where they lie, instead of moving them. Not while moves of it
    /// are being written.
    pub(crate) fn adopt(self: &Rc<Self>, state: &mut StoreState, handle: Handle) {
        self.cancel_moves(state, handle);
        let Some(open) = state.open.get_mut(&handle).filter(|open| open.inflight == 0) else { return };
        let pieces = open.tail.indexed(u32::MAX);
        for piece in &pieces {
            let blocks = piece.located.blocks().0 as u32;
            open.footprint = open.footprint.saturating_sub(piece.footprint) + blocks;
        }
        let located: Vec<Located> = pieces.iter().map(|piece| piece.located).collect();
        located.into_iter().for_each(|record| state.index(handle, record));
        self.landed_gone(state, &pieces);
    }

    /// Takes moves that have no zone yet out of a chunk's queue.
    pub(crate) fn cancel_moves(&self, state: &mut StoreState, handle: Handle) {
        let Some(open) = state.open.get_mut(&handle) else { return };
        let first = open.queue.iter().find(|pending| pending.moved).map(|pending| pending.offset);
        let Some(first) = first else { return };
        let before = open.queue.len();
        open.queue.retain(|pending| !pending.moved);
        open.tail.cancel_moves(first);
        for _ in open.queue.len()..before {
            self.note_moved(state);
        }
    }

    /// Space is short: landing zones are closed, and what lives in them goes into the index, so that GC can win them.
    /// Returns whether that changed anything.
    pub(crate) fn give_up_landing(self: &Rc<Self>, state: &mut StoreState) -> bool {
        let Some(landing) = &mut state.landing else { return false };
        landing.suspended = true;
        let mut changed = false;
        for handle in self.unland_all(state) {
            changed = true;
            self.place(state, handle);
        }
        let tails: Vec<Handle> =
            state.open.iter().filter(|(_, open)| !open.tail.is_empty()).map(|(&handle, _)| handle).collect();
        for handle in tails {
            self.adopt(state, handle);
            changed |= state.open.get(&handle).is_some_and(|open| open.tail.is_empty());
            self.place(state, handle);
            self.note_drained(state, handle);
        }
        let idle = state.landing.as_ref().is_some_and(|landing| !landing.writing);
        let zones: Vec<ZoneId> =
            state.landing.iter().flat_map(|landing| landing.zones.open.iter().map(|open| open.zone)).collect();
        if idle {
            for zone in zones {
                changed = true;
                self.close_landing_zone(state, zone, ZoneStatus::Closed);
            }
        }
        changed
    }
}
