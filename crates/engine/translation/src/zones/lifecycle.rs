//! A zone's way: taken for a frontier, opened, advanced, ended, and left.

use std::rc::Rc;
use std::time::Duration;

use shingle_base::ZoneId;
use shingle_store_api::StoreErrorKind;
use shingle_zoned::{DeviceError, DeviceErrorKind, ZoneOp, ZoneState, report_patiently};

use super::Status;
use crate::engine::{Engine, Keeping};
use crate::failure::Failure;
use crate::format::Entry;
use crate::state::State;
use crate::write::{Draft, is_copy, reserve};

/// Tries of a command on a zone.
const TRIES: u32 = 4;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// The pause until the next look for room on a full file system that holds the drive.
const HOST_PAUSE: Duration = Duration::from_millis(500);

/// The fewest blocks that a frontier can use: those of the shortest pair.
const PAIR_BLOCKS_MIN: u32 = 2;

impl Engine {
    /// The zone that a stream writes to: with room for a pair.
    pub(crate) async fn frontier_zone(self: &Rc<Self>, stream: u8) -> Result<ZoneId, Failure> {
        loop {
            let current = {
                let state = self.state.borrow();
                state.running()?;
                let zone = state.frontiers[usize::from(stream)].zone;
                zone.and_then(|zone| state.zones.get(zone).map(|entry| (zone, entry.next.max(1))))
            };
            match current {
                Some((zone, next)) if self.drive.layout.shape.zone_blocks - next >= PAIR_BLOCKS_MIN => return Ok(zone),
                Some((zone, next)) if next < self.drive.layout.shape.zone_blocks => {
                    // The drive keeps it active until it is finished.
                    self.end_zone(stream, zone).await?;
                }
                Some((zone, _)) => {
                    let ended = self.end_zone(stream, zone);
                    self.rt.spawn_detached(async move {
                        // Without it a pair at the zone's end that rots may pass for torn; nothing else hangs on it.
                        let _ = ended.await;
                    });
                }
                None => {
                    let zone = self.free_zone(stream).await?;
                    self.open_zone(stream, zone).await?;
                }
            }
        }
    }

    /// Takes a free zone, as soon as there is one that the stream may have.
    async fn free_zone(&self, stream: u8) -> Result<ZoneId, Failure> {
        loop {
            let freed = {
                let mut state = self.state.borrow_mut();
                state.running()?;
                if state.zones.free() > reserve(stream)
                    && let Some(zone) = state.zones.take_free()
                {
                    if self.wants_room(&state) {
                        self.wakes.keeper.notify_one();
                        self.wakes.control.notify_waiters();
                    }
                    if !is_copy(stream) {
                        state.waiting_since = None;
                    }
                    return Ok(zone);
                }
                if is_copy(stream) {
                    // The keeper waits for its own copies: nobody else makes room.
                    return Err(no_space());
                }
                if self.keeping.get() == Keeping::Ended {
                    return Err(Failure::gone());
                }
                state.hopeless = false;
                let now = self.rt.now();
                state.waiting_since.get_or_insert(now);
                self.wakes.room.notified()
            };
            self.wakes.keeper.notify_one();
            self.wakes.control.notify_waiters();
            freed.await;
            if self.state.borrow().hopeless {
                return Err(no_space());
            }
        }
    }

    /// Begins a generation of a free zone. A zone that cannot be reset is given up.
    async fn open_zone(self: &Rc<Self>, stream: u8, zone: ZoneId) -> Result<(), Failure> {
        let dirty = self.state.borrow().zones.get(zone).is_some_and(|entry| entry.dirty);
        if dirty && !self.reset_device(zone).await? {
            self.state.borrow_mut().zones.bury(zone);
            return Ok(());
        }
        self.journal_room().await?;
        let opened = {
            let mut state = self.state.borrow_mut();
            if state.frontiers[usize::from(stream)].zone.is_some() {
                // Another caller was faster.
                state.zones.add_free(zone, false);
                return Ok(());
            }
            let epoch = self.sequence.next();
            state.opened += 1;
            let order = state.opened;
            if let Some(entry) = state.zones.get_mut(zone) {
                *entry = super::Zone { status: Status::Open, stream, epoch, order, ..super::Zone::default() };
            }
            state.frontiers[usize::from(stream)].zone = Some(zone);
            self.journal(&Entry::Open { zone, epoch, stream }, epoch)
        };
        opened.await
    }

    /// Resets a zone on the drive. False if that does not succeed.
    pub(crate) async fn reset_device(&self, zone: ZoneId) -> Result<bool, Failure> {
        let mut tries = 1;
        while let Err(error) = self.drive.dev.manage(zone, ZoneOp::Reset).await {
            if matches!(error.kind, DeviceErrorKind::Gone) {
                let failure = Failure::from(error);
                self.stop(failure.clone());
                return Err(failure);
            }
            if error.kind.is_host_full() && !self.closing.get() {
                self.rt.sleep(HOST_PAUSE).await;
                continue;
            }
            if tries == TRIES || self.is_broken(zone).await {
                return Ok(false);
            }
            self.rt.sleep(PAUSE).await;
            tries += 1;
        }
        Ok(true)
    }

    /// The drive says that a zone can be written no more.
    async fn is_broken(&self, zone: ZoneId) -> bool {
        let report = report_patiently(&self.drive.dev, zone, 1).await.ok();
        let info = report.and_then(|report| report.first().copied());
        info.is_some_and(|info| matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline))
    }

    /// A command was written.
    pub(crate) fn advance(&self, state: &mut State, draft: &Draft) {
        let durable = !self.drive.geometry.volatile_cache;
        if let Some(entry) = state.zones.get_mut(draft.zone) {
            entry.next = draft.end;
            if durable {
                entry.durable = draft.end;
            }
        }
    }

    /// After a failed write: nothing of it was written, and it is tried again in its place; else its zone ends (TL-WRITE-2).
    pub(crate) async fn after_failed_write(
        self: &Rc<Self>,
        stream: u8,
        zone: ZoneId,
        from: u32,
        error: DeviceError,
    ) -> Result<(), Failure> {
        if matches!(error.kind, DeviceErrorKind::Gone) {
            let failure = Failure::from(error);
            self.stop(failure.clone());
            return Err(failure);
        }
        let report = report_patiently(&self.drive.dev, zone, 1).await.ok();
        let info = report.and_then(|report| report.first().copied());
        let broken = info.is_some_and(|info| matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline));
        let untouched = info.is_some_and(|info| info.written.0 == u64::from(from)) && !broken;
        let host_full = error.kind.is_host_full();
        let again = {
            let mut state = self.state.borrow_mut();
            let Some(entry) = state.zones.get_mut(zone) else { return Ok(()) };
            entry.broken |= broken;
            entry.failures += u32::from(!host_full);
            untouched && entry.failures < TRIES && !(host_full && self.closing.get())
        };
        if again {
            self.rt.sleep(if host_full { HOST_PAUSE } else { PAUSE }).await;
            return Ok(());
        }
        tracing::warn!(%zone, %error, "a write failed; the volume goes on in another zone");
        self.end_zone(stream, zone).await
    }

    /// Writes no more to a frontier's zone: takes note at once, and completes once that is durable. Its blocks are, by then.
    pub(crate) fn end_zone(
        self: &Rc<Self>,
        stream: u8,
        zone: ZoneId,
    ) -> impl Future<Output = Result<(), Failure>> + use<> {
        let ended = {
            let mut state = self.state.borrow_mut();
            let frontier = &mut state.frontiers[usize::from(stream)];
            // Another caller may have ended it, and it may be another stream's by now.
            let own = frontier.zone.take_if(|open| *open == zone).is_some();
            let ended = state.zones.get_mut(zone).filter(|_| own).map(|entry| {
                entry.status = Status::Closed;
                (entry.epoch, entry.next, entry.broken, entry.live == 0)
            });
            state.emptied |= ended.is_some_and(|(.., empty)| empty);
            ended
        };
        let engine = self.clone();
        async move {
            let Some((epoch, end, broken, _)) = ended else { return Ok(()) };
            engine.flush_blocks_of(zone, epoch, end).await?;
            engine.journal_room().await?;
            engine.journal(&Entry::Closed { zone, epoch, end }, engine.sequence.next()).await?;
            if !broken && end < engine.drive.layout.shape.zone_blocks {
                engine.release(zone, epoch).await;
            }
            Ok(())
        }
    }

    async fn flush_blocks_of(&self, zone: ZoneId, epoch: u64, end: u32) -> Result<(), Failure> {
        self.flush().await?;
        if let Some(entry) = self.state.borrow_mut().zones.get_mut(zone).filter(|entry| entry.epoch == epoch) {
            entry.durable = end;
        }
        Ok(())
    }

    /// Gives back what the drive keeps for a zone that is left before its end.
    pub(crate) async fn release(&self, zone: ZoneId, epoch: u64) {
        let op = match (self.drive.geometry.active_zones_max, self.drive.geometry.open_zones_max) {
            (Some(_), _) => ZoneOp::Finish,
            (None, Some(_)) => ZoneOp::Close,
            (None, None) => return,
        };
        let kept = self.state.borrow().zones.get(zone).is_some_and(|entry| entry.epoch == epoch);
        if kept && let Err(error) = self.drive.dev.manage(zone, op).await {
            // It counts against the drive's limits until it is reset.
            tracing::warn!(%zone, %error, "a zone that was left cannot be closed");
        }
    }
}

/// No zone is free, and none will be.
pub(crate) fn no_space() -> Failure {
    Failure::new(StoreErrorKind::NoSpace, "no zone of the drive is free, and none can be won by copying")
}
