//! Landing: from a chunk's queue to a durable record in a landing zone.
//!
//! One write is under way at a time, so that what comes meanwhile joins the next (a group commit), and so that on a disk
//! the next write can be sent where the head is about to be.

use std::rc::Rc;
use std::sync::Arc;

use shingle_base::ZoneId;
use shingle_runtime::Instant;
use shingle_zoned::{DeviceError, DeviceErrorKind};

use crate::append::{Batch, Framed, Pending};
use crate::engine::Engine;
use crate::error::ErrorKind;
use crate::index::Handle;
use crate::landing::LandingLog;
use crate::landing::phases::{Choice, Origin};
use crate::landing::tail::Piece;
use crate::state::StoreState;
use crate::types::ZoneStatus;

/// Turns of other tasks before a write is put together.
const GATHER_STEPS: u32 = 8;

/// A chosen landing zone, and what goes there.
struct LandingBatch {
    zone: ZoneId,
    choice: Choice,
    batch: Batch,
}

impl Engine {
    /// Lets the first append in a chunk's queue land, if it may (CS-LAND-1). Returns whether it does.
    pub(crate) fn try_land(self: &Rc<Self>, state: &mut StoreState, handle: Handle) -> bool {
        let StoreState { open, chunks, deletions, landing: Some(landing), stopped: None, .. } = state else {
            return false;
        };
        let (Some(open), Some(chunk)) = (open.get_mut(&handle), chunks.get(handle)) else { return false };
        let ending = open.sealing.is_begun() || deletions.hides(chunk.id, handle) || landing.suspended;
        // Records sent to the chunk's own zone have to be durable first.
        let behind = open.sent_to > chunk.size;
        let Some(front) = open.queue.front() else { return false };
        if ending || behind || front.moved || front.length > landing.config.append_max {
            return false;
        }
        if !landing.zones.fits(front.blocks) {
            if !std::mem::replace(&mut landing.wanted, true) {
                self.wakes.keeper.notify_one();
            }
            return false;
        }
        landing.queue.extend(open.queue.pop_front());
        open.landing += 1;
        self.land(state);
        true
    }

    /// Begins to write what waits to land, unless a write is under way or must not begin.
    pub(crate) fn land(self: &Rc<Self>, state: &mut StoreState) {
        let Some(landing) = &mut state.landing else { return };
        if !landing.writing && landing.may_write() {
            landing.writing = true;
            self.rt.spawn_detached(self.clone().landing_writes());
        }
    }

    /// Writes until nothing waits.
    async fn landing_writes(self: Rc<Self>) {
        loop {
            // Appends that come in the same moment come along: those that the last write answered have followers, which
            // take a few steps to get here.
            for _ in 0..GATHER_STEPS {
                self.rt.yield_now().await;
            }
            let Some(LandingBatch { zone, choice, mut batch }) = self.landing_batch() else { return };
            match self.write_durably(&mut batch).await.map_err(Arc::new) {
                Ok(()) => self.landed(zone, choice, batch.records),
                Err(error) if self.left_untouched(zone, batch.start, &error).await => {
                    self.take_back_landing(zone, batch.start, batch.records);
                }
                Err(error) => self.landing_failed(zone, batch.records, &error).await,
            }
        }
    }

    /// Chooses a zone and frames the waiting appends for it. If there are none, the writing is over.
    fn landing_batch(self: &Rc<Self>) -> Option<LandingBatch> {
        let now = self.rt.now();
        let mut state = self.state.borrow_mut();
        loop {
            let landing = state.landing.as_mut()?;
            if !landing.may_write() {
                landing.writing = false;
                self.wakes.mover.notify_one();
                if state.starved.any() {
                    // Landing zones can be given up now.
                    self.wakes.keeper.notify_one();
                }
                return None;
            }
            let need = landing.queue.front().map_or(0, |front| front.blocks);
            if landing.zones.fits(need) {
                break;
            }
            let waiting = landing.queue.drain(..).collect();
            for handle in self.unland(&mut state, waiting) {
                self.place(&mut state, handle);
            }
        }
        let StoreState { landing: Some(landing), zones, chunks, open, counters, .. } = &mut *state else { return None };
        let need = landing.queue.front().map_or(0, |front| front.blocks);
        let fitting: Vec<_> = landing.zones.open.iter().filter(|zone| zone.room() >= need).copied().collect();
        let last: Vec<Option<Instant>> = fitting.iter().map(|zone| zone.last).collect();
        let choice = landing.phases.choose(now, landing.from, &last)?;
        let chosen = fitting.get(choice.at)?.zone;
        landing.from = Origin::Near;
        let target = landing.zones.open.iter_mut().find(|open| open.zone == chosen)?;
        let zone = target.zone;
        let mut batch = Batch::new(zone, target.next);
        while batch.bytes() < self.options.batch_max
            && let Some(mut pending) = landing.queue.pop_front_if(|front| front.blocks <= target.room())
        {
            let most = self.options.record_max;
            while let Some(next) = landing
                .queue
                .pop_front_if(|next| pending.joins(next, most) && pending.blocks_with(next) <= target.room())
            {
                let apart = pending.blocks + next.blocks;
                pending.join(next);
                if let Some(open) = open.get_mut(&pending.handle) {
                    open.landing -= 1;
                    open.footprint -= apart - pending.blocks;
                }
            }
            let Some(chunk) = chunks.get(pending.handle) else { continue };
            let before = batch.bytes();
            counters.appended_bytes += u64::from(pending.length);
            self.add_record(&mut batch, zones.get_mut(zone), counters, chunk.id, pending);
            counters.landed_bytes += (batch.bytes() - before) as u64;
            target.next = batch.next;
        }
        counters.writes += 1;
        zones.set_status(zone, ZoneStatus::Activated);
        Some(LandingBatch { zone, choice, batch })
    }

    /// Takes durable records into their chunks' tails and answers their callers.
    fn landed(self: &Rc<Self>, zone: ZoneId, choice: Choice, records: Vec<Framed>) {
        self.note_host_room();
        let now = self.rt.now();
        let mut state = self.state.borrow_mut();
        let mut touched = Vec::new();
        for Framed { located, pending } in records {
            let StoreState { landing: Some(landing), zones, chunks, open, .. } = &mut *state else { return };
            let Pending { handle, blocks, data, waiters, .. } = pending;
            // Neither can be gone: a delete waits for what is under way.
            let (Some(open), Some(chunk)) = (open.get_mut(&handle), chunks.get_mut(handle)) else { continue };
            open.landing -= 1;
            chunk.size = located.end();
            landing.zones.landed(zone, located.block, blocks);
            landing.bytes += u64::from(located.length);
            let slot = zones.get_mut(zone);
            (slot.landed, slot.live) = (slot.landed + 1, slot.live + blocks);
            open.tail.push(Piece { located, footprint: blocks, data: self.verifier.payload.keep(data) });
            self.answer_waiters(&mut state, waiters, located.length, now);
            if touched.last() != Some(&handle) {
                touched.push(handle);
            }
        }
        if let Some(landing) = &mut state.landing {
            landing.phases.learn(choice, now);
            landing.last = now;
            if let Some(open) = landing.zones.open.iter_mut().find(|open| open.zone == zone) {
                open.last = Some(now);
            }
            if landing.over_budget() {
                self.wakes.mover.notify_one();
            }
        }
        self.close_if_spent(&mut state, zone);
        for handle in touched {
            self.place(&mut state, handle);
            self.note_drained(&mut state, handle);
        }
    }

    /// Takes a landing zone out of service that has no room for the longest of what lands.
    fn close_if_spent(&self, state: &mut StoreState, zone: ZoneId) {
        let spent = state.landing.as_ref().is_some_and(|landing| {
            let longest = shingle_record::sliced_record_blocks(u64::from(landing.config.append_max)).0;
            let least = longest.min(u64::from(self.drive.zone_room / 16)) as u32;
            landing.zones.open.iter().any(|open| open.zone == zone && open.room() < least.max(2))
        });
        if spent {
            self.close_landing_zone(state, zone, ZoneStatus::Closed);
        }
    }

    /// Takes a landing zone out of service for good.
    pub(crate) fn close_landing_zone(&self, state: &mut StoreState, zone: ZoneId, status: ZoneStatus) {
        if let Some(landing) = &mut state.landing {
            landing.zones.close(zone);
        }
        state.zones.set_status(zone, status);
        state.zones.note_garbage(zone);
        state.leases.end(zone);
        self.wakes.keeper.notify_one();
    }

    /// Nothing of a write landed, for want of room on the host: the zone goes on at `block`, and who waits is refused
    /// (CS-HOST-1).
    fn take_back_landing(self: &Rc<Self>, zone: ZoneId, block: u32, records: Vec<Framed>) {
        let mut state = self.state.borrow_mut();
        state.zones.get_mut(zone).written = block;
        let mut waiting: Vec<Pending> = records.into_iter().map(|framed| framed.pending).collect();
        if let Some(landing) = &mut state.landing {
            landing.zones.open.iter_mut().filter(|open| open.zone == zone).for_each(|open| open.next = block);
            waiting.extend(landing.queue.drain(..));
        }
        let handles = self.unland(&mut state, waiting);
        self.refuse_appends(&mut state, &handles);
    }

    /// A write to a landing zone failed: the zone takes no more, and what was on its way is tried elsewhere (CS-APP-4).
    async fn landing_failed(self: &Rc<Self>, zone: ZoneId, records: Vec<Framed>, error: &Arc<DeviceError>) {
        tracing::warn!(zone = zone.0, %error, "a write failed; its landing zone is closed and the data goes elsewhere");
        let gone = matches!(error.kind, DeviceErrorKind::Gone);
        let status = self.status_after_error(zone, error).await;
        let mut state = self.state.borrow_mut();
        state.counters.write_errors += u64::from(!error.kind.is_host_full());
        self.close_landing_zone(&mut state, zone, status);
        if !gone {
            self.mark_ended(&mut state, [zone]);
        }
        let mut retries: Vec<Pending> = records.into_iter().map(|framed| framed.pending).collect();
        retries.iter_mut().for_each(|pending| pending.tries += 1);
        retries.extend(state.landing.iter_mut().flat_map(|landing| landing.queue.drain(..)));
        let handles = self.unland(&mut state, retries);
        if gone {
            state.stopped.get_or_insert_with(|| error.to_string());
        }
        // Once the store has stopped nobody finds zones any more.
        let stopped = state.stopped.is_some();
        for handle in handles {
            if stopped || state.open.get(&handle).is_some_and(crate::append::OpenChunk::is_hopeless) {
                self.fail_appends(&mut state, handle, ErrorKind::Device, &error.to_string());
            } else {
                self.place(&mut state, handle);
            }
        }
        drop(state);
        if gone {
            self.stop(&error.to_string());
        }
    }

    /// Puts appends that were to land back in their places in their chunks' queues. Returns the chunks.
    pub(crate) fn unland(&self, state: &mut StoreState, appends: Vec<Pending>) -> Vec<Handle> {
        let mut handles: Vec<Handle> = appends.iter().map(|pending| pending.handle).collect();
        handles.sort_unstable();
        handles.dedup();
        for pending in appends.into_iter().rev() {
            if let Some(open) = state.open.get_mut(&pending.handle) {
                open.landing -= 1;
                // Moves of what landed before it may be there.
                let at = open.queue.partition_point(|other| other.offset < pending.offset);
                open.queue.insert(at, pending);
            }
        }
        handles
    }

    /// Puts everything that waits to land back into its chunks' queues. Returns the chunks.
    pub(crate) fn unland_all(&self, state: &mut StoreState) -> Vec<Handle> {
        let waiting = state.landing.iter_mut().flat_map(|landing| landing.queue.drain(..)).collect();
        self.unland(state, waiting)
    }
}

impl LandingLog {
    /// True if a write could begin now.
    fn may_write(&self) -> bool {
        // Memory is bounded: the mover has to come along.
        !self.paused && !self.queue.is_empty() && self.bytes <= self.config.budget.saturating_mul(2)
    }

    /// True if the mover has work.
    pub(crate) fn over_budget(&self) -> bool {
        self.bytes > self.config.budget
    }
}
