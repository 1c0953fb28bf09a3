//! Failed commands: the zone is reported, and the error gets the kind that tells its caller what to do.

use std::io;
use std::rc::Rc;

use shingle_base::{Blocks, Lba, ZoneId};
use shingle_zoned::lanes::Settled;
use shingle_zoned::{DeviceError, DeviceErrorKind, DeviceResult, Violation, ZoneOp, ZoneState};

use crate::device::open;
use crate::device::shared::Shared;
use crate::zones::Found;

/// True if the kernel has no such drive (any more).
fn says_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO | libc::ESHUTDOWN))
}

/// True if the drive itself failed: medium, target, protection, transport or time.
fn of_the_drive(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EIO | libc::EREMOTEIO | libc::ENODATA | libc::EILSEQ | libc::ETIMEDOUT | libc::ENOLINK | libc::ENOSPC
        )
    )
}

impl Shared {
    /// Notes it if the drive is gone.
    fn lost(&self, error: &io::Error) -> bool {
        let absent = self.node().is_none_or(|node| !node.present());
        if (says_gone(error) || absent) && !self.gone.replace(true) {
            tracing::error!(%error, "the drive is gone");
        }
        self.gone.get()
    }

    /// The drive's present report of `zone`.
    async fn look(self: &Rc<Self>, zone: ZoneId, settle: bool) -> io::Result<Found> {
        let held = self.node().map(|node| node.hold()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
        let geometry = self.geometry.clone();
        let looked = self.runtime.blocking(move || match settle {
            true => open::look_and_settle(&held, &geometry, zone),
            false => open::look_at(&held, &geometry, zone),
        });
        looked.await.unwrap_or_else(|lost| Err(io::Error::other(lost)))
    }

    /// Kind of a command's failure, from its error and the zone's present state.
    fn kind(&self, error: io::Error, found: Option<&Found>, writing: bool) -> DeviceErrorKind {
        match (found.map(|found| found.state), error.raw_os_error()) {
            (Some(ZoneState::Offline), _) => DeviceErrorKind::ZoneOffline,
            (Some(ZoneState::ReadOnly), _) if writing => DeviceErrorKind::ZoneReadOnly,
            // Another program has opened zones, or the drive counts otherwise than it says.
            (_, Some(libc::ETOOMANYREFS)) if writing => {
                let limit = self.geometry.open_zones_max.unwrap_or(0);
                DeviceErrorKind::Rule(Violation::TooManyOpen { limit })
            }
            (_, Some(libc::EOVERFLOW)) if writing => {
                let limit = self.geometry.active_zones_max.unwrap_or(0);
                DeviceErrorKind::Rule(Violation::TooManyActive { limit })
            }
            _ if !of_the_drive(&error) => DeviceErrorKind::System(error),
            _ if writing => DeviceErrorKind::WriteFailed,
            _ => DeviceErrorKind::ReadFailed,
        }
    }

    /// A read failed. The zone is looked at, but not settled: a write may be under way beside it.
    pub(super) async fn read_failed(self: &Rc<Self>, zone: ZoneId, at: Lba, error: io::Error) -> DeviceError {
        let found = self.look(zone, false).await;
        let gone = self.lost(&error) || found.as_ref().err().is_some_and(|error| self.lost(error));
        if gone {
            return self.error(DeviceErrorKind::Gone, at);
        }
        let found = found.ok();
        if let Some(offline) = found.filter(|found| found.state == ZoneState::Offline) {
            self.take_over(zone, offline);
        }
        self.error(self.kind(error, found.as_ref(), false), at)
    }

    /// A write or zone command failed: commands queued behind it fail too, and the state machine takes over the drive's
    /// report of the zone (ZL-KD-2).
    pub(super) async fn change_failed(
        self: &Rc<Self>,
        zone: ZoneId,
        epoch: u32,
        at: Lba,
        error: io::Error,
        op: Option<ZoneOp>,
    ) -> DeviceError {
        let found = self.look(zone, true).await;
        let gone = self.lost(&error) || found.as_ref().err().is_some_and(|error| self.lost(error));
        // A zone that cannot be closed is taken for closed, as when the drive is opened: a command that was promised
        // its place must hear from the drive that there is none, and not wait for ever.
        let closing = op == Some(ZoneOp::Close);
        let found = found.ok().map(|found| if closing { found.closed() } else { found });
        let conventional = self.geometry.is_conventional(zone);
        let current = !conventional && self.state.borrow_mut().lanes.fail(zone, epoch);
        match &found {
            Some(found) => {
                // A reset behind this command has the last word on the zone, unless the zone is dead.
                let dead = matches!(found.state, ZoneState::ReadOnly | ZoneState::Offline);
                if current || dead {
                    self.take_over(zone, *found);
                }
                let settled = Settled { state: found.state, written: found.written.0 as u32 };
                if !conventional {
                    self.state.borrow_mut().settle(zone, settled);
                }
            }
            None => {
                let state = &mut *self.state.borrow_mut();
                if current && let Some(settled) = state.lanes.settled(zone) {
                    // It was so before the command: a state that the zone can have.
                    let _ = state.machine.set(zone, settled.state, Blocks(u64::from(settled.written)));
                    state.stale.insert(zone);
                    state.release(zone, settled.state);
                    state.refuse_excess();
                }
            }
        }
        if gone {
            return self.error(DeviceErrorKind::Gone, at);
        }
        self.error(self.kind(error, found.as_ref(), true), at)
    }

    /// Puts the state machine's zone where the drive's is. If that leaves more open than may be, because the zone's place
    /// was promised to others before its command failed, it is closed, at the drive too: else they would wait for ever.
    fn take_over(self: &Rc<Self>, zone: ZoneId, found: Found) {
        let mut closed = Vec::new();
        {
            let now = &mut *self.state.borrow_mut();
            // A state from a report is one that the zone can have.
            let _ = now.machine.set(zone, found.state, found.written);
            now.stale.remove(&zone);
            now.release(zone, found.state);
            let full = self.geometry.open_zones_max.is_some_and(|limit| now.machine.open_zones() > limit);
            if full && found.state.is_open() && now.machine.manage(zone, ZoneOp::Close).is_ok() {
                closed.push(zone);
            }
            closed.extend(now.machine.close_excess());
            now.refuse_excess();
        }
        for zone in closed {
            self.close(Some(zone));
        }
    }

    /// A flush failed: unflushed data may be lost, and a second flush would not say so. So none is tried, nor anything
    /// else (ZL-KD-5).
    pub(super) fn flush_failed(&self, error: io::Error) -> DeviceError {
        if !self.gone.replace(true) {
            tracing::error!(%error, "a flush failed: the drive is given up until it is opened again");
        }
        self.error(DeviceErrorKind::Gone, Lba(0))
    }

    /// Asks the drive for zones of a range that a failed command left in doubt.
    pub(super) async fn refresh(self: &Rc<Self>, first: ZoneId, count: u32) -> DeviceResult<()> {
        let end = first.0.saturating_add(count);
        let stale: Vec<ZoneId> = self.state.borrow().stale.iter().copied().collect();
        for zone in stale.into_iter().filter(|zone| (first.0..end).contains(&zone.0)) {
            if !self.state.borrow().lanes.idle(zone) {
                continue;
            }
            let at = self.geometry.start_of(zone);
            match self.look(zone, true).await {
                Ok(found) => {
                    // Another look may have come before, and commands behind it: this one is old then.
                    let now = self.state.borrow();
                    let counts = now.lanes.idle(zone) && now.stale.contains(&zone);
                    drop(now);
                    if counts {
                        self.take_over(zone, found);
                    }
                }
                Err(error) => {
                    let kind = if self.lost(&error) { DeviceErrorKind::Gone } else { DeviceErrorKind::System(error) };
                    return Err(self.error(kind, at));
                }
            }
        }
        Ok(())
    }
}
