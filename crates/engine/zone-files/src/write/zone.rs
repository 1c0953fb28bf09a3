//! Zones of lanes: taken, left, and reset on the drive.
//!
//! # Invariants
//! - ZF-LOG-1: a zone of logs is written once the journal says durably that it is one; and the next one once the blocks of the last are
//!   durable, and the journal says where it ends. So all but the newest were whole, and what is missing in them was lost.
//! - ZF-ROOM-1: copies find a free zone that files may not take, so that a zone can be emptied whenever some of it is dead.

use std::rc::Rc;
use std::time::Duration;

use shingle_base::ZoneId;
use shingle_zoned::{DeviceError, DeviceErrorKind, ZoneOp, ZoneState, report_patiently};

use super::lane::{COPIES, LOGS, stream_of};
use crate::engine::{After, Engine, Keeping};
use crate::error::{FilesError, FilesResult};
use crate::format::Op;
use crate::state::State;
use crate::zones::{Status, Zone};

/// Tries of a command before its zone is left.
const TRIES: u32 = 4;

/// The pause before a command is tried again.
const PAUSE: Duration = Duration::from_millis(5);

/// Pause until the next look for room on a full file system.
const HOST_PAUSE: Duration = Duration::from_millis(500);

/// Free zones that files leave to copies. (ZF-ROOM-1)
const COPY_RESERVE: u32 = 2;

/// Free zones that the streams of a lane leave to others.
pub(crate) fn reserve(lane: usize) -> u32 {
    match lane {
        COPIES => 0,
        LOGS => COPY_RESERVE - 1,
        _ => COPY_RESERVE,
    }
}

/// A lane can be looked at again.
pub(crate) enum Ready {
    /// Its zone has room.
    Zone,
    /// Something has changed.
    Again,
}

/// A step toward a zone.
enum Step {
    Leave(ZoneId),
    Take(ZoneId),
    Adopted,
    Shared,
    Wait,
}

impl Engine {
    /// Sees that a lane has a zone with room.
    pub(crate) async fn ready_zone(self: &Rc<Self>, lane: usize) -> FilesResult<Ready> {
        let woken = self.wakes.room.notified();
        match self.step(lane)? {
            None => return Ok(Ready::Zone),
            Some(Step::Leave(zone)) => self.end_zone(lane, zone).await?,
            Some(Step::Take(zone)) => {
                self.open_zone(lane, zone).await?;
            }
            Some(Step::Adopted | Step::Shared) => {}
            Some(Step::Wait) => {
                if lane == COPIES {
                    return Err(FilesError::no_space());
                }
                self.state.borrow_mut().lanes.all[lane].waits = true;
                self.wakes.keeper.notify_one();
                self.wakes.landed.notify_waiters();
                woken.await;
                self.state.borrow_mut().lanes.all[lane].waits = false;
            }
        }
        Ok(Ready::Again)
    }

    fn step(self: &Rc<Self>, lane: usize) -> FilesResult<Option<Step>> {
        let mut state = self.state.borrow_mut();
        state.running()?;
        let full = |zone: &Zone| zone.next >= self.drive.layout.zone_blocks;
        if let Some(zone) = state.lanes.all[lane].zone {
            let left = state.zones.get(zone).is_none_or(full);
            return Ok(left.then_some(Step::Leave(zone)));
        }
        if lane > COPIES
            && let Some(zone) = state.lanes.spare.pop()
        {
            state.lanes.all[lane].zone = Some(zone);
            return Ok(Some(Step::Adopted));
        }
        if state.zones.free() > reserve(lane)
            && let Some(zone) = state.zones.take_free()
        {
            if state.zones.free() < self.options.low_water {
                self.wakes.keeper.notify_one();
            }
            return Ok(Some(Step::Take(zone)));
        }
        // Rather than to wait for a zone, files share one that is open.
        let shared = if lane > COPIES { state.lanes.neighbour(lane, |lane| lane.zone.is_some()) } else { None };
        let has_room = |state: &State, lane: usize| {
            let zone = state.lanes.all[lane].zone;
            zone.and_then(|zone| state.zones.get(zone)).is_some_and(|zone| !full(zone))
        };
        if let Some(other) = shared.filter(|other| has_room(&state, *other)) {
            let moved = std::mem::take(&mut state.lanes.all[lane].queue);
            for piece in &moved {
                if let Some(active) = state.active.get_mut(&piece.serial) {
                    active.lane = Some(other);
                }
            }
            state.lanes.all[other].queue.extend(moved);
            let begins = !std::mem::replace(&mut state.lanes.all[other].writing, true);
            drop(state);
            if begins {
                self.rt.spawn_detached(self.clone().write_lane(other));
            }
            return Ok(Some(Step::Shared));
        }
        if self.keeping.get() == Keeping::Ended {
            return Err(FilesError::closed());
        }
        Ok(Some(Step::Wait))
    }

    /// Begins a generation of a zone for a lane. A zone that cannot be reset is given up.
    async fn open_zone(self: &Rc<Self>, lane: usize, zone: ZoneId) -> FilesResult<()> {
        let dirty = self.state.borrow().zones.get(zone).is_some_and(|entry| entry.dirty);
        if dirty && !self.reset_device(zone).await? {
            self.state.borrow_mut().zones.bury(zone);
            return Ok(());
        }
        self.journal_room().await?;
        let (epoch, stream) = (self.sequence.next(), stream_of(lane));
        {
            let mut state = self.state.borrow_mut();
            state.opened += 1;
            let order = state.opened;
            if let Some(entry) = state.zones.get_mut(zone) {
                *entry = Zone { status: Status::Open, stream, epoch, order, ..Zone::default() };
            }
            state.lanes.all[lane].zone = Some(zone);
        }
        let entry = self.journal(&[Op::Open { zone, epoch, stream }], After::default());
        // Extents in other zones come behind this entry in the journal.
        if lane == LOGS { self.journaled(entry).await } else { Ok(()) }
    }

    /// Resets a zone on the drive. False if that does not succeed.
    pub(crate) async fn reset_device(&self, zone: ZoneId) -> FilesResult<bool> {
        let mut tries = 1;
        while let Err(error) = self.drive.dev.manage(zone, ZoneOp::Reset).await {
            if matches!(error.kind, DeviceErrorKind::Gone) {
                let failure = FilesError::from(error);
                self.stop(&failure);
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

    /// After a failed write: nothing of it was written, and it is tried again in its place; else its zone ends.
    pub(crate) async fn after_failed_write(
        self: &Rc<Self>,
        lane: usize,
        zone: ZoneId,
        from: u32,
        error: DeviceError,
    ) -> FilesResult<()> {
        if matches!(error.kind, DeviceErrorKind::Gone) {
            let failure = FilesError::from(error);
            self.stop(&failure);
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
        tracing::warn!(%zone, %error, "a write failed; the files go on in another zone");
        self.end_zone(lane, zone).await
    }

    /// Writes no more to a lane's zone.
    pub(crate) async fn end_zone(self: &Rc<Self>, lane: usize, zone: ZoneId) -> FilesResult<()> {
        let (epoch, end, broken) = {
            let mut state = self.state.borrow_mut();
            if state.lanes.all[lane].zone != Some(zone) {
                return Ok(());
            }
            let Some(entry) = state.zones.get_mut(zone) else { return Ok(()) };
            let ended = (entry.epoch, entry.next, entry.broken);
            if lane != LOGS {
                entry.status = Status::Closed;
                let empty = entry.is_empty();
                state.emptied |= empty;
                state.lanes.all[lane].zone = None;
                state.lanes.leaving += usize::from(lane > COPIES);
            }
            ended
        };
        if lane == LOGS {
            self.flush().await?;
            self.journal_room().await?;
            let entry = self.journal(&[Op::Closed { zone, epoch, block: end }], After::default());
            {
                let mut state = self.state.borrow_mut();
                if let Some(entry) = state.zones.get_mut(zone) {
                    entry.status = Status::Closed;
                    entry.durable = end;
                    let empty = entry.is_empty();
                    state.emptied |= empty;
                }
                state.lanes.all[lane].zone = None;
            }
            self.journaled(entry).await?;
        }
        if !broken && end < self.drive.layout.zone_blocks {
            self.release(zone, epoch).await;
        }
        self.state.borrow_mut().lanes.leaving -= usize::from(lane > COPIES);
        self.wakes.keeper.notify_one();
        Ok(())
    }

    /// Gives back what the drive keeps for a zone that is left before its end.
    pub(crate) async fn release(&self, zone: ZoneId, epoch: u64) {
        let op = match (self.drive.geometry.active_zones_max, self.drive.geometry.open_zones_max) {
            (Some(_), _) => ZoneOp::Finish,
            (None, Some(_)) => ZoneOp::Close,
            (None, None) => return,
        };
        let mut tries = 1;
        while self.state.borrow().zones.get(zone).is_some_and(|entry| entry.epoch == epoch) {
            let Err(error) = self.drive.dev.manage(zone, op).await else { return };
            if tries == TRIES || matches!(error.kind, DeviceErrorKind::Gone) {
                // It counts against the drive's limits until it is reset.
                tracing::warn!(%zone, %error, "a zone that was left cannot be closed");
                return;
            }
            self.rt.sleep(PAUSE).await;
            tries += 1;
        }
    }
}
