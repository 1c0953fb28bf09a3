//! The keeper: one task that sees to free zones and deferred writes; and the end of the store's life.
//!
//! # Invariants
//! - BLU-RESET-1: a zone is reset only if nothing lives in it, nobody reads it, and the metadata say durably that it is free, which they do
//!   behind all that took its blocks from their holders.

use std::collections::BTreeSet;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use shingle_base::ZoneId;
use shingle_zone_kit::{Reset, Vacated, Writer};

use crate::engine::Engine;
use crate::error::{BlueError, BlueErrorKind, BlueResult};
use crate::format::key;
use crate::format::zone::ZoneValue;
use crate::ids::ObjectId;
use crate::kv::Batch;
use crate::state::COPIES;

/// Time after which deferred writes are gathered again, where that failed.
const DEFERRED_REST: Duration = Duration::from_secs(1);

/// The store ends. All who wait are told when this is dropped.
pub(crate) struct Ending(pub(crate) Rc<Engine>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end.borrow_mut().get_or_insert_with(|| Err(BlueError::closed()));
        self.0.wakes.ended.notify_waiters();
    }
}

impl Engine {
    /// Works until the store is closed or stops.
    pub(crate) async fn keep(self: Rc<Self>) {
        let runs = || self.state.borrow().stopped.is_none();
        let step = async || self.keep_once().await.inspect_err(|error| Engine::stop(&self, error));
        let told = || self.wakes.room.notify_waiters();
        self.keeper.keep(runs, step, async |woken| woken.await, told).await;
    }

    /// One thing that is to be done. False if there is none.
    async fn keep_once(self: &Rc<Self>) -> BlueResult<bool> {
        if self.state.borrow().zones.take_emptied() && self.free_empty_zones().await? {
            return Ok(true);
        }
        let deferred = self.deferred_to_gather();
        if !deferred.is_empty() {
            self.flushing.set(true);
            self.rt.spawn_detached(self.clone().flush_and_rest(deferred));
        }
        if let Some((victim, urgent)) = self.victim() {
            let begun = self.rt.now();
            self.clean(victim).await?;
            if !urgent {
                // Half of the time is left to those who are not waiting for room yet.
                let rest = self.rt.sleep(self.rt.now().since(begun));
                let (rest, pressure) = (pin!(rest), pin!(self.wakes.pressure.notified()));
                select(rest, pressure).await;
            }
            return Ok(true);
        }
        let pending = {
            let state = self.state.borrow();
            if !state.has_waiters() {
                return Ok(false);
            }
            state.under_way > 0 || state.unsettled()
        };
        if let Some((lane, zone)) = self.idle_zone_with_garbage() {
            self.leave(lane, zone).await?;
            return Ok(true);
        }
        if !pending && self.state.borrow().full.is_none() {
            self.state.borrow_mut().full = Some(self.rt.now());
            // Those that have room have only not looked yet, and the others fail.
            self.wakes.room.notify_waiters();
        }
        Ok(false)
    }

    /// Shards whose deferred writes are gathered next: all, once they are many bytes, and else those that have many of them (BLU-DEFER-2), and
    /// those with thin blobs (BLU-THIN-1).
    fn deferred_to_gather(&self) -> BTreeSet<(ObjectId, u32)> {
        let mut state = self.state.borrow_mut();
        if self.flushing.get() || state.deferred_rest || state.is_full(self.rt.now()) {
            return BTreeSet::new();
        }
        let mut crowded = std::mem::take(&mut state.crowded);
        if state.deferred_bytes >= self.options.deferred_bytes {
            crowded.append(&mut state.deferred);
            return crowded;
        }
        for shard in &crowded {
            state.deferred.remove(shard);
        }
        crowded
    }

    /// Has deferred writes gathered. A failure is followed by a rest.
    async fn flush_and_rest(self: Rc<Self>, shards: BTreeSet<(ObjectId, u32)>) {
        let flushed = self.flush_shards(shards).await;
        self.flushing.set(false);
        self.wakes.settled.notify_waiters();
        if let Err(error) = flushed {
            tracing::warn!(%error, "deferred writes stay in the metadata");
            self.state.borrow_mut().deferred_rest = true;
            // A rest keeps no store alive.
            let (rt, engine) = (self.rt.clone(), Rc::downgrade(&self));
            drop(self);
            rt.sleep(DEFERRED_REST).await;
            let Some(engine) = engine.upgrade() else { return };
            engine.state.borrow_mut().deferred_rest = false;
            engine.keeper.wake();
        } else {
            self.keeper.wake();
        }
    }

    /// Frees the zones in which nothing lives (BLU-RESET-1). False if there is none.
    pub(crate) async fn free_empty_zones(&self) -> BlueResult<bool> {
        let vacant = self.state.borrow().zones.vacant(|_| true);
        if vacant.is_empty() {
            return Ok(false);
        }
        let mut batch = Batch::default();
        let mut reset = Vec::new();
        {
            let mut state = self.state.borrow_mut();
            for (zone, epoch) in vacant {
                let Some(vacated) = state.zones.vacate(zone, epoch) else { continue };
                let value = ZoneValue { used: false, epoch, end: 0, live: 0 };
                batch.put(key::zone(zone.0), value.encode());
                if vacated == Vacated::Reset {
                    reset.push(zone);
                }
            }
        }
        self.kv.write(batch).await?;
        for zone in reset {
            let reset = self.drive.commands.reset(zone).await.map_err(|gone| Writer::stop(self, gone))?;
            let mut state = self.state.borrow_mut();
            state.zones.add_free(zone, reset != Reset::Done);
            state.zones.all_own_mut().for_each(|own| own.passed = false);
            state.looked.note_all();
            state.counters.freed += 1;
            state.full = None;
            drop(state);
            self.wakes.room.notify_waiters();
        }
        Ok(true)
    }

    /// An open zone that nobody writes, some of which is stale: the last that can be emptied.
    fn idle_zone_with_garbage(&self) -> Option<(usize, ZoneId)> {
        let state = self.state.borrow();
        let garbage = |zone: ZoneId| {
            let entry = state.zones.get(zone);
            entry.map_or(0, |entry| u64::from(entry.next).saturating_sub(entry.live))
        };
        let lanes = state.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_busy());
        let idle = lanes.filter_map(|(number, lane)| Some((number, lane.zone?)));
        // A zone is better left open than without room for its copies. (BLU-VICTIM-3)
        let zone_blocks = self.drive.layout.zone_blocks;
        let fits = |lane: usize, zone: ZoneId| {
            let room =
                state.room_for_copies(zone_blocks) - if lane == COPIES { state.rest(lane, zone_blocks) } else { 0 };
            state.zones.get(zone).is_some_and(|entry| entry.live <= room)
        };
        // New data that have room may need the rest of it. (BLU-ROOM-1)
        let promised = |lane: usize| lane != COPIES && state.room(zone_blocks) < state.rest(lane, zone_blocks);
        let idle = idle.filter(|(lane, zone)| garbage(*zone) > 0 && fits(*lane, *zone) && !promised(*lane));
        idle.max_by_key(|(_, zone)| garbage(*zone))
    }

    /// Takes no more transactions, and makes all durable, deferred writes in zones included. Each caller waits for the same end. (BLU-DROP-1)
    pub(crate) async fn close(self: &Rc<Self>) -> BlueResult<()> {
        if !self.closing.replace(true) {
            let ending = Ending(self.clone());
            self.rt.spawn_detached(async move {
                let engine = &ending.0;
                let flushed = if engine.read_only { Ok(()) } else { engine.end_work().await };
                engine.end_keeper().await;
                let closed = engine.end_metadata().await;
                let ended = if engine.read_only { Ok(()) } else { flushed.and(closed) };
                *engine.end.borrow_mut() = Some(ended);
            });
        }
        loop {
            let ended = self.wakes.ended.notified();
            if let Some(ended) = &*self.end.borrow() {
                return ended.clone();
            }
            ended.await;
        }
    }

    pub(crate) async fn end_keeper(&self) {
        self.drive.commands.end();
        self.wakes.pressure.notify_one();
        self.keeper.end().await;
    }

    /// Closes the metadata: the store's end.
    pub(crate) async fn end_metadata(&self) -> BlueResult<()> {
        let kv = self.kv.close().await;
        let files = self.files.clone().close().await;
        self.state.borrow_mut().stopped.get_or_insert(BlueError::closed());
        kv?;
        Ok(files?)
    }

    /// Waits for all transactions, and writes what is deferred.
    async fn end_work(self: &Rc<Self>) -> BlueResult<()> {
        self.drained().await?;
        match self.flush_deferred().await {
            // They stay in the metadata, which is no loss.
            Err(error) if error.kind == BlueErrorKind::NoSpace => Ok(()),
            other => other,
        }
    }

    /// Waits for all transactions. None comes any more.
    pub(crate) async fn drained(&self) -> BlueResult<()> {
        loop {
            let settled = self.wakes.settled.notified();
            let collections: Vec<_> = self.state.borrow().collections.values().cloned().collect();
            let busy =
                collections.iter().any(|one| one.applying.get() || one.under_way.get() > 0) || self.commits.get();
            if self.state.borrow().stopped.is_some() {
                return self.state.borrow().running();
            }
            if !busy && !self.flushing.get() {
                return Ok(());
            }
            settled.await;
        }
    }
}
