//! The append path: from a call to a durable record. (SMRstore, sections 5.1 and 5.3.)
//!
//! An append waits in its chunk's queue until a zone is found, then in the zone's queue until the write before it is
//! done. All that waits for a zone leaves in one device write, neighbours of one chunk joined in one record.
//!
//! # Invariants
//! - CS-APP-1: at most one write is in flight in a zone, so a zone's records become durable in the order of their blocks.
//! - CS-APP-2: a chunk moves to another zone only once all its records in the old one are durable, so a power cut leaves
//!   it a prefix of what was appended.
//! - CS-APP-3: an append is one record or part of one: a power cut leaves all of it or nothing.
//! - CS-APP-4: an append that is tried again after a write error covers the same range, so that two copies of it which
//!   both survive are interchangeable.
//! - CS-APP-7: on a drive with a volatile cache a write counts once the drive says, after its flush, that its zone can be written still: a zone that
//!   failed in between may have lost it. `an_append_goes_elsewhere_if_its_zone_loses_the_cache`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use shingle_base::ZoneId;
use shingle_record::sliced_record_blocks;
use shingle_runtime::Instant;
use shingle_zoned::{DeviceError, DeviceErrorKind, DeviceResult, ZoneInfo, ZoneState, report_patiently};
use tokio::sync::oneshot;

use crate::append::{Batch, Framed, OpenChunk, Pending, Waiter};
use crate::engine::Engine;
use crate::error::ErrorKind;
use crate::index::Handle;
use crate::state::StoreState;
use crate::types::ZoneStatus;

/// Times that a drive which says nothing of a zone is asked again, and the pause before each.
const ASKED_AGAIN: u32 = 10;
const ASK_PAUSE: Duration = Duration::from_secs(1);

impl Engine {
    /// Lets as many zones be written as may be at once.
    pub(super) fn take_turns(self: &Rc<Self>, state: &mut StoreState) {
        let StoreState { turns, writers, .. } = state;
        while let Some(zone) = turns.take(|zone| writers.get(&zone).map_or(0, |writer| writer.reserved)) {
            self.rt.spawn_detached(self.clone().turn(zone));
        }
    }

    /// Writes what waits for `zone` (CS-APP-1), and lets the next have its turn.
    async fn turn(self: Rc<Self>, zone: ZoneId) {
        // Appends that come in the same moment come along.
        self.rt.yield_now().await;
        if let Some(landing) = &mut self.state.borrow_mut().landing {
            landing.note_other_command();
        }
        if let Some(mut batch) = self.next_batch(zone) {
            match self.write_durably(&mut batch).await.map_err(Arc::new) {
                Ok(()) => self.commit(zone, batch.records),
                Err(error) if self.left_untouched(zone, batch.start, &error).await => {
                    self.take_back(zone, batch.start, batch.records);
                }
                Err(error) => self.write_failed(zone, batch.records, &error).await,
            }
        }
        let mut state = self.state.borrow_mut();
        state.turns.end();
        self.after_turn(&mut state, zone);
        self.take_turns(&mut state);
    }

    /// Has a zone wait for another turn if it needs one.
    fn after_turn(&self, state: &mut StoreState, zone: ZoneId) {
        let Some(writer) = state.writers.get_mut(&zone) else { return };
        if !writer.queue.is_empty() {
            state.turns.wait(zone);
            return;
        }
        writer.writing = false;
        if writer.room() == 0 {
            self.close_zone(state, zone);
        }
        if state.starved.any() {
            // An idle zone can be closed to make place for another.
            self.wakes.keeper.notify_one();
        }
    }

    /// Frames what waits for `zone`.
    fn next_batch(self: &Rc<Self>, zone: ZoneId) -> Option<Batch> {
        let mut state = self.state.borrow_mut();
        let StoreState { writers, zones, pools, chunks, open, counters, .. } = &mut *state;
        let writer = writers.get_mut(&zone)?;
        let mut batch = Batch::new(zone, writer.next);
        while let Some(mut pending) = writer.queue.pop_front() {
            writer.reserved -= pending.blocks;
            while let Some(next) = writer.queue.pop_front_if(|next| pending.joins(next, self.options.record_max)) {
                writer.reserved -= next.blocks;
                let apart = pending.blocks + next.blocks;
                pending.join(next);
                if let Some(open) = open.get_mut(&pending.handle) {
                    open.inflight -= 1;
                    open.footprint -= apart - pending.blocks;
                }
            }
            let Some(chunk) = chunks.get(pending.handle) else { continue };
            if pending.moved {
                counters.moved_bytes += sliced_record_blocks(u64::from(pending.length)).bytes();
            } else {
                counters.appended_bytes += u64::from(pending.length);
            }
            self.add_record(&mut batch, zones.get_mut(zone), counters, chunk.id, pending);
            if batch.bytes() >= self.options.batch_max {
                break;
            }
        }
        writer.next = batch.next;
        if writer.capacity - writer.next < writer.capacity / 16 && pools.note_ending(zone) {
            self.wakes.keeper.notify_one();
        }
        counters.writes += 1;
        Some(batch)
    }

    /// Writes a batch, so that it is durable. Fails also if the zone may have lost what the drive's cache held of it before the flush (CS-APP-7): it
    /// may have failed at a command of somebody else, or at none.
    pub(crate) async fn write_durably(&self, batch: &mut Batch) -> DeviceResult<()> {
        self.drive.flush.write(self.start_of(batch), std::mem::take(&mut batch.pieces)).await?;
        self.has_kept(batch.zone).await
    }

    async fn has_kept(&self, zone: ZoneId) -> DeviceResult<()> {
        if !self.drive.geometry.volatile_cache {
            return Ok(());
        }
        let report = self.told_of(zone).await?;
        let kind = match report.first().map(|info| info.state) {
            Some(ZoneState::ReadOnly) => DeviceErrorKind::ZoneReadOnly,
            Some(ZoneState::Offline) => DeviceErrorKind::ZoneOffline,
            Some(_) => return Ok(()),
            None => DeviceErrorKind::WriteFailed,
        };
        Err(DeviceError::new(kind, self.drive.geometry.start_of(zone), Some(zone)))
    }

    /// A report of a zone. A drive that says nothing is asked again for some seconds: a failed write would cost the rest of the zone.
    async fn told_of(&self, zone: ZoneId) -> DeviceResult<Vec<ZoneInfo>> {
        let mut asked = 0;
        loop {
            let told = report_patiently(&self.drive.dev, zone, 1).await;
            let gone = told.as_ref().is_err_and(|error| matches!(error.kind, DeviceErrorKind::Gone));
            if told.is_ok() || gone || asked == ASKED_AGAIN || self.state.borrow().stopped.is_some() {
                return told;
            }
            asked += 1;
            self.rt.sleep(ASK_PAUSE).await;
        }
    }

    /// Enters durable records into the index and answers their callers.
    fn commit(self: &Rc<Self>, zone: ZoneId, records: Vec<Framed>) {
        self.note_host_room();
        let now = self.rt.now();
        let mut state = self.state.borrow_mut();
        let mut touched = Vec::new();
        for Framed { located, pending } in records {
            let handle = pending.handle;
            state.index(handle, located);
            state.zones.get_mut(zone).indexed_to = located.block + located.blocks().0 as u32;
            self.note_unmarked(&mut state, zone, located.blocks().0);
            if let Some(open) = state.open.get_mut(&handle) {
                open.inflight -= 1;
            }
            if pending.moved {
                state.unmarked.note_moved(zone);
                self.note_moved(&mut state);
            }
            self.note_indexed(&mut state, handle);
            self.answer_waiters(&mut state, pending.waiters, located.length, now);
            if touched.last() != Some(&handle) {
                touched.push(handle);
            }
        }
        for handle in touched {
            self.place(&mut state, handle);
            self.note_drained(&mut state, handle);
        }
    }

    /// Tells callers that their appends are durable, in a record of `length` bytes.
    pub(crate) fn answer_waiters(&self, state: &mut StoreState, waiters: Vec<Waiter>, length: u32, now: Instant) {
        for waiter in waiters {
            state.counters.appends += 1;
            self.collector.throttle.observe(now.since(waiter.began), length);
            let _ = waiter.reply.send(Ok(u64::from(waiter.end)));
        }
    }

    /// Tells those who wait for a chunk's last append.
    pub(crate) fn note_drained(&self, state: &mut StoreState, handle: Handle) {
        if let Some(open) = state.open.get_mut(&handle)
            && open.is_drained()
        {
            for waiter in open.drained.drain(..) {
                let _ = waiter.send(());
            }
        }
    }

    /// Nothing of a write landed, for want of room on the host: the zone goes on at `block`, and who waits is refused
    /// (CS-HOST-1).
    fn take_back(self: &Rc<Self>, zone: ZoneId, block: u32, records: Vec<Framed>) {
        let mut state = self.state.borrow_mut();
        let waiting = state.writers.get_mut(&zone).map(|writer| {
            (writer.next, writer.reserved) = (block, 0);
            std::mem::take(&mut writer.queue)
        });
        state.zones.get_mut(zone).written = block;
        let records = records.into_iter().map(|framed| framed.pending).chain(waiting.unwrap_or_default());
        let handles = requeue(&mut state, records.collect());
        self.refuse_appends(&mut state, &handles);
    }

    /// A write to `zone` failed: the zone takes no more, and what was on its way goes elsewhere (CS-APP-4).
    async fn write_failed(self: &Rc<Self>, zone: ZoneId, records: Vec<Framed>, error: &Arc<DeviceError>) {
        tracing::warn!(zone = zone.0, %error, "a write failed; its zone is closed and the data goes elsewhere");
        let gone = matches!(error.kind, DeviceErrorKind::Gone);
        let status = self.status_after_error(zone, error).await;
        let mut state = self.state.borrow_mut();
        state.counters.write_errors += u64::from(!error.kind.is_host_full());
        let waiting = state.writers.get_mut(&zone).map(|writer| std::mem::take(&mut writer.queue)).unwrap_or_default();
        let slot = state.zones.get_mut(zone);
        // Blocks that the failed write left behind are dead: recovery looks at them again and finds the same ranges
        // elsewhere.
        slot.written = slot.written.max(slot.indexed_to);
        if status == ZoneStatus::Closed && !gone {
            self.close_zone(&mut state, zone);
        } else {
            state.retire(zone, status);
            state.leases.end(zone);
            self.wakes.keeper.notify_one();
        }
        if !gone {
            self.mark_ended(&mut state, [zone]);
        }
        let mut retries: Vec<Pending> = records.into_iter().map(|framed| framed.pending).collect();
        retries.iter_mut().for_each(|pending| pending.tries += 1);
        retries.extend(waiting);
        let handles = requeue(&mut state, retries);
        if gone {
            state.stopped.get_or_insert_with(|| error.to_string());
        }
        // Once the store has stopped nobody finds zones any more.
        let stopped = state.stopped.is_some();
        for handle in handles {
            if stopped || state.open.get(&handle).is_some_and(OpenChunk::is_hopeless) {
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

    /// Waits until no append of the chunk is outstanding.
    pub(crate) async fn drained(&self, handle: Handle) {
        loop {
            let waiting = {
                let mut state = self.state.borrow_mut();
                let Some(open) = state.open.get_mut(&handle).filter(|open| !open.is_drained()) else { return };
                let (sender, receiver) = oneshot::channel();
                open.drained.push(sender);
                receiver
            };
            let _ = waiting.await;
        }
    }
}

/// Puts appends that were sent to a zone back in front of their chunks' queues. Returns the chunks.
fn requeue(state: &mut StoreState, appends: Vec<Pending>) -> Vec<Handle> {
    let mut handles: Vec<Handle> = appends.iter().map(|pending| pending.handle).collect();
    handles.sort_unstable();
    handles.dedup();
    for pending in appends.into_iter().rev() {
        if let Some(open) = state.open.get_mut(&pending.handle) {
            open.inflight -= 1;
            open.sent_to = 0;
            open.queue.push_front(pending);
        }
    }
    handles
}
