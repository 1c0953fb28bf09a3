//! The task that keeps open zones ready: opens, closes and resets. (SMRstore, section 5.4.)
//!
//! It is the only one to reset a zone, and the one to say that there is no space: an append that finds no zone waits
//! while any zone is free or garbage, or while GC can still win one.
//!
//! # Invariants
//! - CS-ZONE-7: nobody waits for a zone of a drive that fails to open any, and such a drive is tried once in a while only.
//!   `a_drive_that_fails_all_writes_of_data_holds_up_nobody`.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, ready, select};
use shingle_base::ZoneId;
use shingle_record::frame_zone_head;
use shingle_zoned::{DeviceError, DeviceErrorKind, ZoneOp, ZoneState, report_patiently};

use crate::append::ZoneWriter;
use crate::append::pools::PoolId;
use crate::drive::HOST_PAUSE;
use crate::engine::Engine;
use crate::error::ErrorKind;
use crate::format::{JournalEntry, LANDING_KIND, LANDING_STREAM, zone_kind};
use crate::index::Handle;
use crate::landing::LandingLog;
use crate::state::StoreState;
use crate::types::Stream;
use crate::types::ZoneStatus;
use crate::zones::leases::{Holder, Lease};
use crate::zones::{GC_RESERVE, Zone};

/// Pause until the drive is asked again to close a zone.
const RELEASE_AGAIN: Duration = Duration::from_millis(100);

/// Tries of an opening to make the drive close a zone of superblock or log before it fails: the error may be a passing
/// one.
const GIVE_UP_TRIES: u32 = 4;

/// Openings that fail one after the other before it is taken for the drive's fault, and not the zones'.
const FAILED_OPENINGS_MAX: u32 = 8;

/// Pause between further ones.
pub(crate) const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// Rest of the keeper after a zone could not be reset: the journal may take no entry.
const RESET_AGAIN: Duration = Duration::from_millis(10);

/// Next step of the keeper.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Release(ZoneId),
    /// The log takes no entry: no zone can be opened or reset.
    LogFull,
    Open(Lease, PoolId),
    OpenLanding(Lease),
    /// Space was made in memory alone.
    Again,
    Reset(ZoneId),
    CloseFullest(PoolId),
    Close(ZoneId),
    /// GC rests, and so does the zone that it moved a stream's records to.
    EndDestination(Stream),
    /// GC has to win a zone; its end wakes the keeper.
    Gc,
    Refuse(PoolId),
    Wait,
}

impl Engine {
    /// Runs until the store stops.
    pub(crate) async fn keep_zones(self: Rc<Self>) {
        while self.state.borrow().stopped.is_none() {
            self.place_starved();
            self.note_trend();
            match self.next_step() {
                Step::Release(zone) => self.release(zone).await,
                Step::LogFull => {
                    self.refuse_for_full_log();
                    select(Box::pin(self.log_changes()), Box::pin(self.wakes.keeper.notified())).await;
                }
                Step::Open(lease, pool) => self.open_for_pool(lease, pool).await,
                Step::OpenLanding(lease) => self.open_for_landing(lease).await,
                Step::Again => {}
                Step::Reset(zone) => {
                    if let Err(error) = self.reset_zone(zone).await {
                        tracing::warn!(zone = zone.0, %error, "a garbage zone could not be reset");
                        // It may have been a pool's, and its reset not even begun.
                        self.state.borrow_mut().leases.end(zone);
                        let full = error.kind == ErrorKind::HostFull;
                        self.rt.sleep(if full { HOST_PAUSE } else { RESET_AGAIN }).await;
                    }
                }
                Step::CloseFullest(pool) => self.close_fullest(&mut self.state.borrow_mut(), pool),
                Step::Close(zone) => self.close_zone(&mut self.state.borrow_mut(), zone),
                Step::EndDestination(stream) => self.end_destination(stream, ZoneStatus::Closed),
                Step::Gc => {
                    self.wakes.gc.notify_one();
                    self.wakes.keeper.notified().await;
                }
                Step::Refuse(pool) => self.refuse(pool),
                Step::Wait => {
                    if self.gc_wanted() || self.retreat().is_some() {
                        self.wakes.gc.notify_one();
                    }
                    self.wakes.keeper.notified().await;
                }
            }
        }
    }

    fn next_step(self: &Rc<Self>) -> Step {
        let mut state = self.state.borrow_mut();
        if let Some(zone) = state.leases.next_ending() {
            return Step::Release(zone);
        }
        // Before anything that would wait for a zone (CS-ROOM-3).
        if self.is_log_full() {
            return Step::LogFull;
        }
        let free = state.zones.count(ZoneStatus::Free);
        let starving = state.starved.first();
        let lacking = |pool: &PoolId| state.pools.missing(*pool) > 0;
        let needy = starving.filter(lacking).or_else(|| state.pools.ids().find(lacking));
        if let Some(pool) = needy
            && free > GC_RESERVE
            && let Some(zone) = state.zones.next_free()
        {
            if let Some(lease) = state.leases.take(zone, Holder::Caller) {
                return Step::Open(lease, pool);
            }
            if starving.is_some() {
                // The drive has not given up a zone that is done with; its end, or the next try, wakes the keeper.
                return Step::Wait;
            }
        }
        let low = GC_RESERVE + 1 + state.pools.target() / 8;
        if free < low
            && let Some(zone) = state.zones.of(ZoneStatus::Garbage).find(|zone| state.zones.get(*zone).pins == 0)
        {
            return Step::Reset(zone);
        }
        if let Some(lease) = self.zone_for_landing(&mut state, free, low) {
            return Step::OpenLanding(lease);
        }
        let Some(pool) = starving else { return Step::Wait };
        if state.pools.missing(pool) == 0 {
            // Its zones are all too full for what waits. One that is idle makes place; if none is, one soon will be.
            let idle = state.pools.zones(pool).iter().any(|zone| {
                let idle = state.writers.get(zone).is_some_and(ZoneWriter::is_idle);
                idle && state.zones.get(*zone).status == ZoneStatus::Activated
            });
            return if idle { Step::CloseFullest(pool) } else { Step::Wait };
        }
        if let Some(zone) = self.spare_zone(&mut state, pool) {
            return Step::Reset(zone);
        }
        if self.give_up_landing(&mut state) {
            return Step::Again;
        }
        let busy = state.landing.as_ref().is_some_and(LandingLog::is_writing)
            || self.collector.victim().is_some()
            || state.zones.count(ZoneStatus::Garbage) > 0
            || state.writers.values().any(|writer| !writer.is_idle());
        let garbage = idle_garbage(&state, pool);
        drop(state);
        // Else only callers run GC, and nobody knows when.
        let collects = self.options.background;
        if collects && self.victim(true).is_some() {
            Step::Gc
        } else if let Some(zone) = garbage.filter(|_| collects) {
            Step::Close(zone)
        } else if busy {
            Step::Wait
        } else if let Some(stream) = self.spare_destination() {
            Step::EndDestination(stream)
        } else {
            Step::Refuse(pool)
        }
    }

    /// A zone that another pool can do without: opened and unused, or used and dead. It becomes garbage.
    fn spare_zone(&self, state: &mut StoreState, starving: PoolId) -> Option<ZoneId> {
        let others = state.pools.ids().filter(|&pool| pool != starving || state.pools.missing(pool) > 0);
        let zones: Vec<ZoneId> = others.flat_map(|pool| state.pools.zones(pool).to_vec()).collect();
        let spare = zones.into_iter().find(|zone| {
            let slot = state.zones.get(*zone);
            let idle = state.writers.get(zone).is_some_and(ZoneWriter::is_idle);
            idle && slot.groups.is_empty()
        })?;
        state.retire(spare, ZoneStatus::Closed);
        let resets = state.zones.get(spare).pins == 0;
        if !resets {
            state.leases.end(spare);
        }
        resets.then_some(spare)
    }

    /// A stream whose moved records go to a zone that wins something if it is emptied: it holds more garbage than may stay free where its
    /// records go. GC is at rest.
    fn spare_destination(&self) -> Option<Stream> {
        let state = self.state.borrow();
        let spare = |stream: &Stream| {
            let zone = self.collector.destination(*stream).map(|destination| state.zones.get(destination.zone));
            let wins = |zone: &Zone| zone.garbage() > if zone.groups.is_empty() { 0 } else { zone.longest };
            zone.is_some_and(|zone| wins(zone) && (self.options.background || zone.groups.is_empty()))
        };
        self.collector.streams().into_iter().find(spare)
    }

    /// Answers all who wait for a zone of the pool that there is no space.
    fn refuse(self: &Rc<Self>, pool: PoolId) {
        let mut state = self.state.borrow_mut();
        for handle in state.starved.take(pool) {
            if let Some(open) = state.open.get_mut(&handle) {
                open.starved = false;
            }
            let why = "no zone is free and none can be reclaimed; delete chunks first";
            self.fail_appends(&mut state, handle, ErrorKind::NoSpace, why);
        }
    }

    /// Gives a closed zone's open (and active) resource back to the drive, and ends its lease (CS-LEASE-2). If that fails
    /// it is tried again in a while.
    async fn release(self: &Rc<Self>, zone: ZoneId) {
        if !self.state.borrow().leases.is_ending(zone) {
            // It was reset meanwhile.
            return;
        }
        if let Err(error) = self.give_up(zone).await {
            if matches!(error.kind, DeviceErrorKind::Gone) {
                return self.stop(&error.to_string());
            }
            tracing::warn!(zone = zone.0, %error, "a closed zone stays open on the drive; it is tried again");
            let engine = self.clone();
            self.rt.spawn_detached(async move {
                engine.rt.sleep(RELEASE_AGAIN).await;
                {
                    let state = &mut *engine.state.borrow_mut();
                    // Unless it was reset meanwhile, and may be open for somebody else.
                    if state.leases.is_ending(zone) {
                        state.leases.end(zone);
                    }
                }
                engine.wakes.keeper.notify_one();
            });
            return;
        }
        self.state.borrow_mut().leases.ended(zone);
    }

    /// Sees to it that the drive does not hold `zone`: not open, and not active where it limits those.
    async fn give_up(&self, zone: ZoneId) -> std::result::Result<(), DeviceError> {
        let limited = self.drive.geometry.open_zones_max.is_some() || self.drive.geometry.active_zones_max.is_some();
        if !limited && !self.options.close_always {
            return Ok(());
        }
        let op = if self.drive.geometry.active_zones_max.is_some() { ZoneOp::Finish } else { ZoneOp::Close };
        let held = |state: ZoneState| match op {
            ZoneOp::Finish => state.is_active(),
            _ => state.is_open(),
        };
        let report = report_patiently(&self.drive.dev, zone, 1).await?;
        if report.first().is_some_and(|info| held(info.state)) {
            self.drive.dev.manage(zone, op).await?;
        }
        Ok(())
    }

    /// Has the drive give up what an earlier opening of the store left open and nobody goes on with, before anything is
    /// written: of superzone and metazones all but the one that the log writes, and data zones beyond what leases allow.
    pub(crate) async fn release_left_open(self: &Rc<Self>) -> std::result::Result<(), DeviceError> {
        if self.drive.geometry.active_zones_max.is_some() {
            let written = self.log.writes_to();
            let count = 1 + self.layout.metazones.len() as u32;
            let active = report_patiently(&self.drive.dev, self.layout.superzone, count).await?;
            let active = active.iter().filter(|info| info.state.is_active() && Some(info.zone) != written);
            for info in active {
                let mut tries = 1;
                while let Err(error) = self.give_up(info.zone).await {
                    if tries == GIVE_UP_TRIES || matches!(error.kind, DeviceErrorKind::Gone) {
                        return Err(error);
                    }
                    tries += 1;
                    self.rt.sleep(RESET_AGAIN).await;
                }
            }
        }
        // The keeper sees to the rest.
        loop {
            let Some(zone) = self.state.borrow_mut().leases.next_excess() else { return Ok(()) };
            self.release(zone).await;
        }
    }

    async fn open_for_pool(self: &Rc<Self>, lease: Lease, pool: PoolId) {
        let zone = lease.zone();
        let stream = self.state.borrow().pools.stream(pool);
        if let Err(error) = self.open_zone(lease, stream).await {
            return self.note_not_opened(&error).await;
        }
        let mut state = self.state.borrow_mut();
        state.writers.insert(zone, ZoneWriter::new(1, self.drive.zone_room + 1));
        state.pools.add(pool, zone);
    }

    /// Refuses who waits for a zone if there is little hope of one, and rests then (CS-ZONE-7).
    async fn note_not_opened(self: &Rc<Self>, error: &DeviceError) {
        if error.kind.is_host_full() {
            self.refuse_waiting();
        }
        if self.opens_no_zone() {
            {
                let state = &mut *self.state.borrow_mut();
                let why = format!("no zone can be opened: {error}");
                let starved: Vec<Handle> = state.starved.iter().collect();
                starved.into_iter().for_each(|handle| self.fail_appends(state, handle, ErrorKind::Device, &why));
            }
            self.rt.sleep(OPEN_AGAIN).await;
        }
    }

    /// True if the drive has failed the last openings of zones, one after the other.
    pub(crate) fn opens_no_zone(&self) -> bool {
        self.state.borrow().failed_openings >= FAILED_OPENINGS_MAX
    }

    /// A free zone for small appends to land in, if one is wanted and free zones are many enough.
    fn zone_for_landing(&self, state: &mut StoreState, free: u32, low: u32) -> Option<Lease> {
        let landing = state.landing.as_mut()?;
        if free > low + landing.zones.most() {
            landing.resume();
        }
        let wanted = landing.zones_missing() > 0 && free > low + 1;
        let zone = wanted.then(|| state.zones.next_free()).flatten()?;
        state.leases.take(zone, Holder::Caller)
    }

    async fn open_for_landing(self: &Rc<Self>, lease: Lease) {
        let zone = lease.zone();
        if let Err(error) = self.open_zone_as(lease, LANDING_STREAM, LANDING_KIND).await {
            return self.note_not_opened(&error).await;
        }
        if let Some(landing) = &mut self.state.borrow_mut().landing {
            landing.add_zone(zone, self.rt.now(), self.drive.zone_room + 1);
        }
    }

    /// Opens a free zone for a stream and writes its head. If that fails the zone is out of use.
    pub(crate) async fn open_zone(
        self: &Rc<Self>,
        lease: Lease,
        stream: Stream,
    ) -> std::result::Result<(), DeviceError> {
        self.open_zone_as(lease, stream, zone_kind(stream)).await
    }

    async fn open_zone_as(
        self: &Rc<Self>,
        lease: Lease,
        stream: Stream,
        kind: u16,
    ) -> std::result::Result<(), DeviceError> {
        let zone = lease.zone();
        let epoch = self.sequence.next();
        {
            let mut state = self.state.borrow_mut();
            state.zones.note_opened(zone);
            let slot = state.zones.get_mut(zone);
            (slot.epoch, slot.stream, slot.written, slot.live) = (epoch, stream, 1, 0);
            (slot.indexed_to, slot.marked_to) = (1, 1);
            (slot.landing, slot.landed) = (kind == LANDING_KIND, 0);
            slot.last_write = epoch;
        }
        // So that recovery knows whose the zone is, and in which generation, even if its head is lost. Durable when this
        // returns, and so before anything in the zone is.
        let stopped = |_| DeviceError::new(DeviceErrorKind::Gone, self.drive.geometry.start_of(zone), Some(zone));
        if let Err(error) = self.has_host_room().and(self.journal_room().await) {
            self.leave_free(zone);
            if error.kind == ErrorKind::HostFull {
                return self.no_host_room(zone).await;
            }
            tracing::warn!(zone = zone.0, %error, "no zone can be opened while the journal takes no entry");
            self.rt.sleep(Duration::from_millis(10)).await;
            return Err(stopped(error));
        }
        let entry = JournalEntry::Open { zone, epoch, stream, landing: kind == LANDING_KIND };
        let journaled = self.journal(entry, epoch);
        let head = frame_zone_head(self.store, epoch, zone, kind, self.rt.unix_time());
        let opened = async {
            self.drive.dev.manage(zone, ZoneOp::Open).await?;
            self.drive.dev.write(self.drive.geometry.start_of(zone), vec![head]).await
        };
        // Side by side.
        let (opened, journaled) = match select(Box::pin(opened), Box::pin(journaled)).await {
            Either::Left((opened, journaled)) => (opened, Either::Left(journaled)),
            Either::Right((journaled, opened)) => (opened.await, Either::Right(ready(journaled))),
        };
        if let Err(error) = &opened
            && self.left_untouched(zone, 0, error).await
            && self.drive.dev.manage(zone, ZoneOp::Close).await.is_ok()
        {
            // It is as free as it was. The entry of a generation that has not begun says nothing, and may wait for room
            // itself.
            self.rt.spawn_detached(async move { drop(journaled.await) });
            self.leave_free(zone);
            return self.no_host_room(zone).await;
        }
        journaled.await.map_err(stopped)?;
        let Err(error) = opened else {
            self.state.borrow_mut().failed_openings = 0;
            return Ok(());
        };
        tracing::warn!(zone = zone.0, %error, "a free zone could not be opened");
        let status = self.status_after_error(zone, &error).await;
        {
            let mut state = self.state.borrow_mut();
            state.failed_openings = state.failed_openings.saturating_add(1);
            state.zones.set_status(zone, status);
            if status == ZoneStatus::Closed {
                // Reset and tried again, once nothing else is left: the error may have been a passing one.
                state.zones.note_garbage(zone);
            } else {
                self.mark_ended(&mut state, [zone]);
            }
            state.leases.end(zone);
        }
        self.wakes.keeper.notify_one();
        self.rt.sleep(Duration::from_millis(10)).await;
        Err(error)
    }

    /// A zone that was to be opened stays as it was.
    fn leave_free(&self, zone: ZoneId) {
        let mut state = self.state.borrow_mut();
        state.zones.set_status(zone, ZoneStatus::Free);
        state.leases.ended(zone);
        let slot = state.zones.get_mut(zone);
        (slot.written, slot.indexed_to, slot.marked_to) = (0, 0, 0);
    }

    /// No zone can be opened before there is room on the host: refuses who waits for one, and rests.
    async fn no_host_room(self: &Rc<Self>, zone: ZoneId) -> std::result::Result<(), DeviceError> {
        self.refuse_waiting();
        self.rt.sleep(HOST_PAUSE).await;
        Err(self.host_full_at(zone))
    }

    /// Status of a zone after a command in it failed with this error, which may tell; else the drive is asked.
    pub(crate) async fn status_after_error(&self, zone: ZoneId, error: &DeviceError) -> ZoneStatus {
        match error.kind {
            DeviceErrorKind::ZoneReadOnly => return ZoneStatus::ReadOnly,
            DeviceErrorKind::ZoneOffline => return ZoneStatus::Offline,
            DeviceErrorKind::Gone => return ZoneStatus::Closed,
            _ => {}
        }
        let report = self.drive.dev.report(zone, 1).await.ok();
        match report.as_deref().and_then(|zones| zones.first()).map(|info| info.state) {
            Some(ZoneState::ReadOnly) => ZoneStatus::ReadOnly,
            Some(ZoneState::Offline) => ZoneStatus::Offline,
            _ => ZoneStatus::Closed,
        }
    }

    /// Takes in how many zones can be written, for the forecast.
    fn note_trend(&self) {
        let state = self.state.borrow();
        let whole = state.zones.count(ZoneStatus::Free) + state.zones.count(ZoneStatus::Garbage);
        let room = f64::from(self.drive.zone_room);
        let partly: f64 =
            state.writers.keys().map(|zone| 1.0 - f64::from(state.zones.get(*zone).written) / (room + 1.0)).sum();
        self.collector.trend.borrow_mut().observe(self.rt.now(), f64::from(whole) + partly);
    }
}

/// A zone that is open, idle and holds garbage, which GC can win once it is closed; of the starving pool if there is
/// one.
fn idle_garbage(state: &StoreState, starving: PoolId) -> Option<ZoneId> {
    let pools = std::iter::once(starving).chain(state.pools.ids());
    let mut zones = pools.flat_map(|pool| state.pools.zones(pool)).copied();
    zones.find(|&zone| {
        let idle = state.writers.get(&zone).is_some_and(ZoneWriter::is_idle);
        idle && state.zones.get(zone).garbage() > 0
    })
}
