//! The metazone that is written: begun, linked to the next, and left when a write to it fails.
//!
//! A zone is never left silently (RC-LOG-6). Its last write names the next zone and its generation, before that zone is
//! written. If no such write succeeds the zone is finished first: a full zone without a link tells that another may
//! have been begun.

use std::time::Duration;

use shingle_base::Blocks;
use shingle_zoned::{DeviceError, DeviceErrorKind, Violation, ZoneInfo, ZoneOp, ZoneState, report_patiently};

use crate::meta_log::error::MetaLogError;
use crate::meta_log::format::{LINK_BLOCKS, Link};
use crate::meta_log::log::{Active, LogInner, MetaStatus};

/// Tries of a command, and zones in a row in which a write is tried that are neither read-only nor offline.
const TRIES: u32 = 4;

/// The pause after the first try; the next is twice as long.
const PAUSE: Duration = Duration::from_millis(5);

/// Pause of the log until its next look for room on a full file system.
const HOST_PAUSE: Duration = Duration::from_millis(500);

/// Errors that a write met before it succeeded.
#[derive(Default)]
pub(super) struct Trouble {
    /// Tries at one place.
    tries: u32,
    /// Zones that were left.
    zones: u32,
}

fn is_gone(error: &DeviceError) -> bool {
    matches!(error.kind, DeviceErrorKind::Gone)
}

fn is_dead(state: ZoneState) -> bool {
    matches!(state, ZoneState::ReadOnly | ZoneState::Offline)
}

/// True if a command's error says that its zone is read-only or offline.
fn tells_death(error: &DeviceError) -> bool {
    match error.kind {
        DeviceErrorKind::ZoneReadOnly | DeviceErrorKind::ZoneOffline => true,
        DeviceErrorKind::Rule(Violation::WrongState { state, .. }) => is_dead(state),
        _ => false,
    }
}

impl LogInner {
    /// The zone that is written, with room for records of `need` blocks: another one where the present one has too little.
    pub(super) async fn active_with_room(&self, need: u32) -> Result<Active, MetaLogError> {
        let fits = |active: &Active| active.next + active.overhead() + need <= self.capacity;
        if !fits(&Active { slot: 0, epoch: 0, next: 0 }) {
            return Err(MetaLogError::Full);
        }
        loop {
            let (active, unlinked) = {
                let state = self.state.borrow();
                (state.active, state.unlinked)
            };
            if let Some(active) = active.filter(fits) {
                return Ok(active);
            }
            let (slot, epoch) = self.prepare_zone().await?;
            if let Some(active) = active {
                self.leave_linked(&active, Link { zone: self.zone(slot), epoch }).await?;
            } else if let Some(slot) = unlinked {
                self.leave_unlinked(slot).await?;
            }
            self.state.borrow_mut().active = Some(Active { slot, epoch, next: 0 });
        }
    }

    /// Resets the next zone of the log, durably, and gives it a generation. A link's zone comes first: one that lies
    /// elsewhere could be lost unnoticed. Its generation is not the link's: under that an earlier process may have begun it.
    async fn prepare_zone(&self) -> Result<(usize, u64), MetaLogError> {
        self.reset_unneeded().await?;
        let linked = self.state.borrow_mut().linked.take();
        if let Some(slot) = linked {
            let epoch = self.sequence.next();
            match self.reset(slot, epoch).await {
                Ok(()) => return Ok((slot, epoch)),
                Err(error) if is_gone(&error) => return Err(error.into()),
                Err(_) => self.leave_unlinked(slot).await?,
            }
        }
        let mut failure = None;
        for slot in self.free_by_age() {
            let epoch = self.sequence.next();
            match self.reset(slot, epoch).await {
                Ok(()) => return Ok((slot, epoch)),
                Err(error) if is_gone(&error) => return Err(error.into()),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.map_or(MetaLogError::Full, MetaLogError::from))
    }

    /// Resets the zones that an opening found unneeded (RC-LOG-9), each durably before the one that leads to it. The log goes on behind
    /// one that the drive does not reset.
    async fn reset_unneeded(&self) -> Result<(), MetaLogError> {
        loop {
            let Some(slot) = self.state.borrow_mut().unneeded.pop() else { return Ok(()) };
            match self.reset(slot, 0).await {
                Ok(()) => self.state.borrow_mut().zones[slot] = MetaStatus::Free { epoch: 0 },
                Err(error) if is_gone(&error) => return Err(error.into()),
                Err(_) => {
                    // No zone that leads to it is to outlive it (RC-LOG-6).
                    self.state.borrow_mut().zones[slot] = MetaStatus::Live { epoch: self.sequence.next() };
                    self.leave_unlinked(slot).await?;
                }
            }
        }
    }

    /// Free zones, the oldest first. So no zone outlives one that it leads to, whose reset would make it pass for the
    /// newest (RC-LOG-6).
    fn free_by_age(&self) -> Vec<usize> {
        let state = self.state.borrow();
        let free = |(slot, zone): (usize, &MetaStatus)| match *zone {
            MetaStatus::Free { epoch } => Some((epoch, slot)),
            _ => None,
        };
        let mut slots: Vec<(u64, usize)> = state.zones.iter().enumerate().filter_map(free).collect();
        slots.sort_unstable();
        slots.into_iter().map(|(_, slot)| slot).collect()
    }

    /// Resets a zone and waits until that is durable: nothing of an earlier generation can come back behind a link. A
    /// zone is out of use only if the drive says so; any other failure may be a passing one.
    async fn reset(&self, slot: usize, epoch: u64) -> Result<(), DeviceError> {
        let mut tries = 1;
        while let Err(error) = self.dev.manage(self.zone(slot), ZoneOp::Reset).await {
            if is_gone(&error) {
                return Err(error);
            }
            if self.note_if_dead(slot, Some(&error)).await {
                return Err(error);
            }
            if error.kind.is_host_full() && self.wait_for_host().await.is_ok() {
                continue;
            }
            if tries == TRIES {
                return Err(error);
            }
            self.pause(tries).await;
            tries += 1;
        }
        self.flush().await?;
        self.state.borrow_mut().zones[slot] = MetaStatus::Live { epoch };
        Ok(())
    }

    /// Writes the link that leads on from a zone, and gives the zone's open (and active) resource back.
    async fn leave_linked(&self, active: &Active, link: Link) -> Result<(), MetaLogError> {
        let mut tries = 1;
        loop {
            if active.next + LINK_BLOCKS > self.capacity {
                break;
            }
            let error = match self.write_durably(active, self.frame_link(active, link)).await {
                Ok(()) => {
                    {
                        let mut state = self.state.borrow_mut();
                        (state.active, state.stalled) = (None, false);
                    }
                    self.release(active.slot).await;
                    return Ok(());
                }
                Err(error) => error,
            };
            if is_gone(&error) {
                return Err(error.into());
            }
            let host_full = error.kind.is_host_full();
            if host_full {
                self.wait_for_host().await?;
            }
            if (!host_full && tries == TRIES) || !self.is_untouched(active).await {
                break;
            }
            if !host_full {
                self.pause(tries).await;
                tries += 1;
            }
        }
        self.leave_unlinked(active.slot).await
    }

    /// Leaves a zone that no link can be written to: finishes it, unless it is read-only or offline, which tells as
    /// much.
    async fn leave_unlinked(&self, slot: usize) -> Result<(), MetaLogError> {
        {
            let mut state = self.state.borrow_mut();
            (state.active, state.unlinked) = (None, Some(slot));
        }
        let (mut tries, mut failure) = (1, None);
        while !self.note_if_dead(slot, failure.as_ref()).await {
            let Err(error) = self.dev.manage(self.zone(slot), ZoneOp::Finish).await else { break };
            if error.kind.is_host_full() {
                self.wait_for_host().await?;
                continue;
            }
            if is_gone(&error) || (tries == TRIES && !tells_death(&error)) {
                return Err(error.into());
            }
            self.pause(tries).await;
            (tries, failure) = (tries + 1, Some(error));
        }
        self.flush().await?;
        self.state.borrow_mut().unlinked = None;
        Ok(())
    }

    /// Decides about a zone in which a write failed: another try, if the zone can be as before it, or another zone. The
    /// zone's records stay needed until it is recycled.
    ///
    /// # Errors
    /// The error of the write, after enough tries: a fault that meets every zone alike is not the zones'.
    pub(super) async fn after_failed_write(
        &self,
        active: &Active,
        error: DeviceError,
        trouble: &mut Trouble,
    ) -> Result<(), MetaLogError> {
        if is_gone(&error) {
            return Err(error.into());
        }
        if self.note_if_dead(active.slot, Some(&error)).await {
            self.state.borrow_mut().active = None;
            return Ok(());
        }
        if error.kind.is_host_full() {
            return self.after_full_host(active).await;
        }
        trouble.tries += 1;
        if trouble.tries < TRIES && self.is_made_good(active).await? {
            self.pause(trouble.tries).await;
            return Ok(());
        }
        trouble.tries = 0;
        trouble.zones += 1;
        if trouble.zones == TRIES {
            return Err(error.into());
        }
        self.leave_unlinked(active.slot).await
    }

    /// Waits, and sees to it that the write can be tried again: where it was, or in another zone.
    async fn after_full_host(&self, active: &Active) -> Result<(), MetaLogError> {
        self.wait_for_host().await?;
        if self.is_made_good(active).await? { Ok(()) } else { self.leave_unlinked(active.slot).await }
    }

    /// True if a failed write can be tried again at its place: nothing of it landed, or a part of it did that the zone
    /// can be reset for, since it holds nothing else (RC-LOG-5). So writes that fail in new zones use none of them up.
    async fn is_made_good(&self, active: &Active) -> Result<bool, MetaLogError> {
        if self.is_untouched(active).await {
            return Ok(true);
        }
        if active.next > 0 {
            return Ok(false);
        }
        match self.reset(active.slot, active.epoch).await {
            Err(error) if is_gone(&error) => Err(error.into()),
            reset => Ok(reset.is_ok()),
        }
    }

    /// The file system that holds the drive is full: the same command is tried again in a while (RC-LOG-8).
    ///
    /// # Errors
    /// `Stopped` if the wait was given up.
    async fn wait_for_host(&self) -> Result<(), MetaLogError> {
        if !std::mem::replace(&mut self.state.borrow_mut().stalled, true) {
            self.stall.notify_waiters();
        }
        self.rt.sleep(HOST_PAUSE).await;
        if self.state.borrow().stopped { Err(MetaLogError::Stopped) } else { Ok(()) }
    }

    /// The error of a log that cannot wait for room.
    pub(super) fn host_full(&self) -> DeviceError {
        let full = DeviceErrorKind::System(std::io::ErrorKind::StorageFull.into());
        let zone = self.zone(0);
        DeviceError::new(full, self.dev.geometry().start_of(zone), Some(zone))
    }

    /// True if nothing was written to a zone behind the log's own end of it.
    async fn is_untouched(&self, active: &Active) -> bool {
        let info = self.info(active.slot).await;
        info.is_some_and(|info| info.state != ZoneState::Full && info.written == Blocks(u64::from(active.next)))
    }

    /// Takes a zone out of use if the drive says that it is read-only or offline: with the error of a command, or when it is asked.
    async fn note_if_dead(&self, slot: usize, error: Option<&DeviceError>) -> bool {
        let dead = error.is_some_and(tells_death) || self.info(slot).await.is_some_and(|info| is_dead(info.state));
        if dead {
            let mut state = self.state.borrow_mut();
            if matches!(state.zones[slot], MetaStatus::Live { .. }) {
                // The checkpoint in this zone may be lost with it.
                state.wanted_after = Some(state.position + 1);
            }
            state.zones[slot] = MetaStatus::Bad;
        }
        dead
    }

    /// Gives a zone's open (and active) resource back to the drive. Failure costs only that resource.
    async fn release(&self, slot: usize) {
        let active = self.dev.geometry().active_zones_max.is_some();
        // Asked patiently: engines count on the drive's limits.
        let report = report_patiently(&self.dev, self.zone(slot), 1).await.ok();
        let Some(info) = report.and_then(|report| report.first().copied()) else { return };
        if active && info.state.is_active() {
            let _ = self.dev.manage(info.zone, ZoneOp::Finish).await;
        } else if info.state.is_open() {
            let _ = self.dev.manage(info.zone, ZoneOp::Close).await;
        }
    }

    async fn info(&self, slot: usize) -> Option<ZoneInfo> {
        report_patiently(&self.dev, self.zone(slot), 1).await.ok()?.into_iter().next()
    }

    async fn pause(&self, tries: u32) {
        self.rt.sleep(PAUSE * (1 << tries.min(8))).await;
    }
}
