//! Zones of lanes: taken, left, and reset on the drive.
//!
//! # Invariants
//! - ZF-LOG-1: a zone of logs is written once the journal says durably that it is one; and the next one once the blocks of the last are
//!   durable, and the journal says where it ends. So all but the newest were whole, and what is missing in them was lost.
//! - ZF-LOG-2: no opening depends on blocks of a zone of logs that failed: a checkpoint has its records before the next one is written.
//!   (`a_zone_of_logs_that_fails_with_its_cache_refuses_no_opening`)
//! - ZF-ZONE-2: a zone is out of use only if the drive says that it can be written no more, or does not reset it for long, and not because the
//!   drive said nothing when it was left. (`a_drive_that_tells_nothing_for_a_while_keeps_its_zones`)
//! - ZF-ROOM-1: copies find a free zone that files may not take, so that a zone can be emptied whenever some of it is dead.

use std::rc::Rc;

use shingle_base::ZoneId;
use shingle_zone_kit::{Reset, Writer, write_lane};

use super::lane::{COPIES, LOGS, Lane, reserve, stream_of};
use super::spare::Rest;
use crate::engine::{After, Engine};
use crate::error::{FilesError, FilesResult};
use crate::format::Op;
use crate::zones::Zone;

/// A step toward a zone.
enum Step {
    /// It has room.
    Ready(ZoneId),
    Leave(ZoneId),
    Take(ZoneId),
    /// The lane has another zone, or its pieces another lane.
    Changed,
    /// A spare zone, of which little is left, is given up for one that is free.
    Drop(ZoneId),
    /// A zone has to become free first.
    Wait,
    /// A zone is being taken or left by another, or will be left once it is full.
    Later,
}

impl Engine {
    /// The zone of a lane, if it has room; else a step toward another one.
    pub(super) async fn ready_zone(self: &Rc<Self>, lane: usize) -> FilesResult<Option<ZoneId>> {
        let woken = self.wakes.room.notified();
        match self.step(lane)? {
            Step::Ready(zone) => return Ok(Some(zone)),
            Step::Leave(zone) => self.end_zone(lane, zone).await?,
            Step::Take(zone) => self.open_zone(lane, zone).await?,
            Step::Drop(zone) => self.end_spare(zone).await?,
            Step::Changed => {}
            Step::Later => woken.await,
            Step::Wait => {
                if lane == COPIES {
                    return Err(FilesError::no_space());
                }
                self.state.borrow_mut().lanes.all[lane].own.waits = true;
                self.keeper.wake();
                self.wakes.landed.notify_waiters();
                woken.await;
                self.state.borrow_mut().lanes.all[lane].own.waits = false;
            }
        }
        Ok(None)
    }

    fn step(self: &Rc<Self>, lane: usize) -> FilesResult<Step> {
        let mut state = self.state.borrow_mut();
        state.running()?;
        let full = |zone: &Zone| zone.next >= self.drive.layout.zone_blocks;
        if state.lanes.all[lane].own.changes {
            return Ok(Step::Later);
        }
        if let Some(zone) = state.lanes.all[lane].zone {
            let left = state.zones.get(zone).is_none_or(full);
            return Ok(if left { Step::Leave(zone) } else { Step::Ready(zone) });
        }
        match state.rest_for(lane, &self.drive.layout) {
            Some(Rest::GoOn(zone)) => {
                state.lanes.spare.retain(|spare| *spare != zone);
                state.lanes.all[lane].zone = Some(zone);
                return Ok(Step::Changed);
            }
            Some(Rest::Drop(zone)) => return Ok(Step::Drop(zone)),
            None => {}
        }
        if state.zones.free() > reserve(lane)
            && state.lanes.may_take(lane)
            && let Some(zone) = state.zones.take_free()
        {
            state.lanes.all[lane].own.changes = true;
            if state.zones.free() < self.options.low_water {
                self.keeper.wake();
            }
            return Ok(Step::Take(zone));
        }
        // Rather than to wait for a zone, files share one that is open.
        let has_room = |entry: &Lane| {
            let zone = entry.zone.filter(|_| !entry.own.changes).and_then(|zone| state.zones.get(zone));
            zone.is_some_and(|zone| !full(zone))
        };
        let shared = if lane > COPIES { state.lanes.neighbour(lane, has_room) } else { None };
        if let Some(other) = shared {
            let moved = std::mem::take(&mut state.lanes.all[lane].queue);
            for piece in &moved {
                if let Some(active) = state.active.get_mut(&piece.serial) {
                    active.lane = Some(other);
                }
            }
            let begins = state.lanes.all[other].push(moved);
            drop(state);
            if begins {
                self.rt.spawn_detached(write_lane(self.clone(), other));
            }
            return Ok(Step::Changed);
        }
        if self.keeper.has_ended() {
            return Err(FilesError::closed());
        }
        Ok(if state.lanes.may_take(lane) { Step::Wait } else { Step::Later })
    }

    /// The change of a lane's zone has ended, well or not: those who wait for it go on.
    fn changed(&self, lane: usize) {
        self.state.borrow_mut().lanes.all[lane].own.changes = false;
        self.wakes.room.notify_waiters();
    }

    /// Begins a generation of a zone for a lane. A zone that cannot be reset for long is given up. (ZK-ZONE-4)
    async fn open_zone(self: &Rc<Self>, lane: usize, zone: ZoneId) -> FilesResult<()> {
        let opened = self.begin_zone(lane, zone).await;
        self.changed(lane);
        opened
    }

    async fn begin_zone(self: &Rc<Self>, lane: usize, zone: ZoneId) -> FilesResult<()> {
        let dirty = self.state.borrow().zones.get(zone).is_some_and(|entry| entry.dirty);
        let reset = if dirty { self.reset(zone).await? } else { Reset::Done };
        if reset != Reset::Done {
            let rest = self.state.borrow_mut().zones.not_reset(zone, reset);
            self.rt.sleep(rest).await;
            return Ok(());
        }
        if let Err(failure) = self.journal_room().await {
            self.state.borrow_mut().zones.give_back(zone);
            return Err(failure);
        }
        let (epoch, stream) = (self.sequence.next(), stream_of(lane));
        {
            let mut state = self.state.borrow_mut();
            state.zones.open(zone, stream, epoch);
            state.lanes.all[lane].zone = Some(zone);
        }
        let entry = self.journal(&[Op::Open { zone, epoch, stream }], After::default());
        // Extents in other zones come behind this entry in the journal.
        if lane == LOGS { self.journaled(entry).await } else { Ok(()) }
    }

    /// Resets a zone on the drive.
    pub(crate) async fn reset(&self, zone: ZoneId) -> FilesResult<Reset> {
        self.drive.zones.reset(zone).await.map_err(|gone| {
            let failure = FilesError::from(gone);
            self.stop(&failure);
            failure
        })
    }

    /// Writes no more to a lane's zone: called by the lane's task, or while it has none. (ZF-LANE-2)
    pub(crate) async fn end_zone(self: &Rc<Self>, lane: usize, zone: ZoneId) -> FilesResult<()> {
        {
            let own = &mut self.state.borrow_mut().lanes.all[lane];
            if own.zone != Some(zone) || std::mem::replace(&mut own.own.changes, true) {
                return Ok(());
            }
        }
        let left = self.leave_zone(lane, zone).await;
        self.changed(lane);
        self.keeper.wake();
        left
    }

    async fn leave_zone(self: &Rc<Self>, lane: usize, zone: ZoneId) -> FilesResult<()> {
        let ended = self.state.borrow().zones.get(zone).copied();
        let Some(Zone { epoch, next, broken, .. }) = ended else { return Ok(()) };
        let (full, mut entry) = (next >= self.drive.layout.zone_blocks, 0);
        let flushes = lane == LOGS || !(broken || full);
        if flushes {
            // Also for the drive's sake: a zone that fails when it is given back takes along what no flush has covered.
            self.flush_cache().await?;
        }
        if !broken {
            self.look_at_end(zone, epoch).await;
        }
        if flushes {
            self.state.borrow_mut().zones.mark_durable_before(zone, epoch, next);
        }
        let looked = self.state.borrow().zones.get(zone).copied();
        let Some(Zone { durable, broken, untold, .. }) = looked else { return Ok(()) };
        let lossy = broken || untold;
        if lane == LOGS {
            self.journal_room().await?;
            // Nobody may take for durable what the zone may have lost: the records behind count once a checkpoint has them. (ZF-LOG-2)
            let end = if lossy { durable } else { next };
            entry = self.journal(&[Op::Closed { zone, epoch, block: end }], After::default());
        }
        {
            let mut state = self.state.borrow_mut();
            state.zones.close(zone);
            state.lanes.all[lane].zone = None;
        }
        self.journaled(entry).await?;
        if lane == LOGS && lossy {
            self.checkpoint().await?;
        }
        if !(broken || full) {
            self.release(zone, epoch).await;
        }
        Ok(())
    }

    /// Looks at a zone that is left: no write need have failed for it to have lost some of what the drive's cache held. One of which the
    /// drive tells nothing may have lost some, and is used like any other. (ZF-SYNC-3, ZF-ZONE-2)
    pub(crate) async fn look_at_end(&self, zone: ZoneId, epoch: u64) {
        if !self.drive.geometry.volatile_cache {
            return;
        }
        match self.drive.zones.is_intact(zone).await {
            Some(true) => {}
            Some(false) => drop(self.note_failure(zone, true, false)),
            None => {
                let mut state = self.state.borrow_mut();
                state.zones.note_untold(zone, epoch);
                state.note_losses(zone);
            }
        }
    }

    /// Gives back what the drive keeps for a zone that is left before its end.
    pub(crate) async fn release(&self, zone: ZoneId, epoch: u64) {
        let still = || self.state.borrow().zones.get(zone).is_some_and(|entry| entry.epoch == epoch);
        self.drive.zones.release(zone, still).await;
    }
}
