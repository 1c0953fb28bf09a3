//! Commands on zones, which are repeated where that may help.
//!
//! **Owns** the number of tries and the pauses between them. **Knows nothing of** what is written.
//!
//! # Invariants
//! - ZK-CMD-1: a write that failed is repeated in its place only if the zone is as it was before and can be written; else the zone is
//!   left, and nothing that the write may have left there counts.
//! - ZK-CMD-2: a failure that is not the zone's fault, a full file system that holds the drive, costs it nothing: the command waits for
//!   room until the engine ends.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use shingle_base::ZoneId;
use shingle_runtime::Runtime;
use shingle_zoned::{
    DeviceError, DeviceErrorKind, DeviceResult, ZoneInfo, ZoneOp, ZoneState, ZonedDevice, report_patiently,
};

use crate::zones::Reset;

/// Tries of a command before its zone is left.
const TRIES: u32 = 4;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// The pause until the next look for room on a full file system that holds the drive.
const HOST_PAUSE: Duration = Duration::from_millis(500);

/// Times that a drive which tells nothing of a zone is asked again, and the pause before each.
const ASKED_AGAIN: u32 = 10;
const ASK_PAUSE: Duration = Duration::from_secs(1);

/// The next step after a write that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// It is to be written again in its place. The pause before that is over.
    Again,
    /// Its zone takes no more: it goes elsewhere.
    Leave,
}

/// Commands on the zones of a drive.
pub struct ZoneCommands {
    rt: Runtime,
    dev: Rc<dyn ZonedDevice>,
    /// The engine ends: nothing waits for room on the host.
    ending: Cell<bool>,
}

impl ZoneCommands {
    /// Commands of an engine on `dev`.
    pub fn new(rt: &Runtime, dev: Rc<dyn ZonedDevice>) -> Self {
        Self { rt: rt.clone(), dev, ending: Cell::new(false) }
    }

    pub(super) fn device(&self) -> &dyn ZonedDevice {
        self.dev.as_ref()
    }

    /// The engine ends: commands wait no more for room on a full file system. (ZK-CMD-2)
    pub fn end(&self) {
        self.ending.set(true);
    }

    /// Resets a zone, in a few tries.
    ///
    /// # Errors
    /// Only if the drive is gone.
    pub async fn reset(&self, zone: ZoneId) -> DeviceResult<Reset> {
        let mut tries = 1;
        while let Err(error) = self.dev.manage(zone, ZoneOp::Reset).await {
            if matches!(error.kind, DeviceErrorKind::Gone) {
                return Err(error);
            }
            if error.kind.is_host_full() && !self.ending.get() {
                self.rt.sleep(HOST_PAUSE).await;
                continue;
            }
            if self.state_of(zone).await.is_some_and(is_broken) {
                return Ok(Reset::Broken);
            }
            if tries == TRIES {
                return Ok(Reset::NotNow);
            }
            self.rt.sleep(PAUSE).await;
            tries += 1;
        }
        Ok(Reset::Done)
    }

    /// Gives back what the drive keeps for a zone that is left before its end, as far as its limits ask for it. `still` says whether the
    /// zone is in the same generation still. A zone that cannot be given back counts against the limits until it is reset.
    pub async fn release(&self, zone: ZoneId, still: impl Fn() -> bool) {
        let geometry = self.dev.geometry();
        let op = match (geometry.active_zones_max, geometry.open_zones_max) {
            (Some(_), _) => ZoneOp::Finish,
            (None, Some(_)) => ZoneOp::Close,
            (None, None) => return,
        };
        let mut tries = 1;
        while still() {
            let Err(error) = self.dev.manage(zone, op).await else { return };
            if tries == TRIES || matches!(error.kind, DeviceErrorKind::Gone) {
                tracing::warn!(%zone, %error, "a zone that was left cannot be closed");
                return;
            }
            self.rt.sleep(PAUSE).await;
            tries += 1;
        }
    }

    /// Judges a write that failed at block `from` of a zone (ZK-CMD-1). `note` is told whether the drive says that the zone can be written
    /// no more, and whether the failure counts, and returns those that counted: a table's
    /// [`note_failure`](crate::ZoneTable::note_failure).
    ///
    /// # Errors
    /// The failure itself, if the drive is gone.
    pub async fn after_failed_write(
        &self,
        zone: ZoneId,
        from: u32,
        error: DeviceError,
        note: impl FnOnce(bool, bool) -> u32,
    ) -> DeviceResult<AfterFailure> {
        if matches!(error.kind, DeviceErrorKind::Gone) {
            return Err(error);
        }
        // A drive that says so itself is believed at once: no flush that ends meanwhile covers what its zone may have lost.
        let told = matches!(error.kind, DeviceErrorKind::ZoneReadOnly | DeviceErrorKind::ZoneOffline);
        let info = if told { None } else { self.state_of(zone).await };
        let broken = told || info.is_some_and(is_broken);
        let untouched = info.is_some_and(|info| info.written.0 == u64::from(from)) && !broken;
        let host_full = error.kind.is_host_full();
        let failures = note(broken, !host_full);
        if untouched && failures < TRIES && !(host_full && self.ending.get()) {
            self.rt.sleep(if host_full { HOST_PAUSE } else { PAUSE }).await;
            return Ok(AfterFailure::Again);
        }
        tracing::warn!(%zone, %error, "a write failed; it goes on in another zone");
        Ok(AfterFailure::Leave)
    }

    /// Looks at a zone, again and again for some seconds while the drive tells nothing: `None` if it does not, else whether the zone can be
    /// written and reset. If it can, all that a flush covered before is durable.
    pub async fn is_intact(&self, zone: ZoneId) -> Option<bool> {
        let mut asked = 0;
        loop {
            match self.report_on(zone).await {
                Ok(info) => return info.map(|info| !is_broken(info)),
                Err(error) if matches!(error.kind, DeviceErrorKind::Gone) => return None,
                Err(_) if asked == ASKED_AGAIN || self.ending.get() => return None,
                Err(_) => asked += 1,
            }
            self.rt.sleep(ASK_PAUSE).await;
        }
    }

    async fn state_of(&self, zone: ZoneId) -> Option<ZoneInfo> {
        self.report_on(zone).await.ok().flatten()
    }

    async fn report_on(&self, zone: ZoneId) -> DeviceResult<Option<ZoneInfo>> {
        let report = report_patiently(&self.dev, zone, 1).await?;
        Ok(report.first().copied())
    }
}

/// Has the drive give up zones that whoever used it before left active: they count against its limits.
///
/// # Errors
/// The device's.
pub async fn give_up_active(dev: &Rc<dyn ZonedDevice>, zones: &Range<u32>) -> DeviceResult<()> {
    let op = if dev.geometry().active_zones_max.is_some() { ZoneOp::Finish } else { ZoneOp::Close };
    let infos = report_patiently(dev, ZoneId(zones.start), zones.end - zones.start).await?;
    for info in infos.into_iter().filter(|info| info.state.is_active()) {
        dev.manage(info.zone, op).await?;
    }
    Ok(())
}

/// The drive says that a zone can be written no more.
fn is_broken(info: ZoneInfo) -> bool {
    matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline)
}
