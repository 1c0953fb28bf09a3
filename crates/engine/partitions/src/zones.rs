//! Zones that a drive empties, and those that it does not.
//!
//! **Owns** nothing. **Knows nothing of** partitions and their table.
//!
//! # Invariants
//! - PT-ZONE-1: a zone that the drive does not reset keeps no other from its reset.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use shingle_base::{Blocks, ZoneId};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use shingle_zoned::{DeviceError, DeviceErrorKind, ZoneInfo, ZoneOp, ZoneState, ZonedDevice, report_patiently};

/// A drive that refuses to reset more zones than these is ill, and not its zones.
const STUCK_MAX: usize = 16;

/// Times that a reset is tried: a drive may refuse one for a moment.
const TRIES: u32 = 2;

/// Zones that can be written, and that the drive does not reset, with its reasons.
#[derive(Debug, Default)]
pub(crate) struct Stuck(BTreeMap<u32, DeviceError>);

impl Stuck {
    pub(crate) fn zones(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.keys().copied()
    }

    pub(crate) fn has(&self, zone: u32) -> bool {
        self.0.contains_key(&zone)
    }

    /// For zones that have to be empty.
    ///
    /// # Errors
    /// The reason of one of them.
    pub(crate) fn none(mut self) -> StoreResult<()> {
        self.0.pop_first().map_or(Ok(()), |(_, error)| Err(device_error(error)))
    }

    fn add(&mut self, zone: ZoneId, error: DeviceError) -> StoreResult<()> {
        let passes = matches!(error.kind, DeviceErrorKind::Gone) || error.kind.is_host_full();
        if passes || self.0.len() >= STUCK_MAX {
            return Err(device_error(error));
        }
        self.0.insert(zone.0, error);
        Ok(())
    }
}

/// Resets the zones that hold anything; those that can be written no more are left alone. Zones that the drive does not reset join `stuck`,
/// and are finished if it does that: a zone that nobody has is not to be active. Durable when it returns.
///
/// # Errors
/// The device's, if it fails as a whole.
pub(crate) async fn empty(dev: &Rc<dyn ZonedDevice>, zones: Range<u32>, stuck: &mut Stuck) -> StoreResult<()> {
    for info in report(dev, zones).await?.into_iter().filter(|info| holds(info) && !is_dead(info.state)) {
        if let Err(error) = reset(dev, info.zone).await {
            let now = report(dev, info.zone.0..info.zone.0 + 1).await?;
            // One that failed for good with its reset is as one that had failed before.
            if now.iter().any(|info| is_dead(info.state)) {
                continue;
            }
            tracing::warn!("zone {} is not reset by the drive, and left unused: {error}", info.zone.0);
            stuck.add(info.zone, error)?;
            if now.iter().any(|info| info.state.is_active()) {
                // It is only about the drive's limits.
                let _ = dev.manage(info.zone, ZoneOp::Finish).await;
            }
        }
    }
    dev.flush().await.map_err(device_error)
}

async fn reset(dev: &Rc<dyn ZonedDevice>, zone: ZoneId) -> Result<(), DeviceError> {
    let mut result = dev.manage(zone, ZoneOp::Reset).await;
    for _ in 1..TRIES {
        if result.is_err() {
            result = dev.manage(zone, ZoneOp::Reset).await;
        }
    }
    result
}

/// Zones that can be written no more.
///
/// # Errors
/// The device's.
pub(crate) async fn dead(dev: &Rc<dyn ZonedDevice>, zones: Range<u32>) -> StoreResult<BTreeSet<u32>> {
    let infos = report(dev, zones).await?.into_iter();
    Ok(infos.filter(|info| is_dead(info.state)).map(|info| info.zone.0).collect())
}

/// Zones with bytes that can be read.
///
/// # Errors
/// The device's.
pub(crate) async fn readable(dev: &Rc<dyn ZonedDevice>, zones: Range<u32>) -> StoreResult<Vec<u32>> {
    let infos = report(dev, zones).await?.into_iter();
    let readable = |info: &ZoneInfo| info.state != ZoneState::Offline && info.written > Blocks::ZERO;
    Ok(infos.filter(readable).map(|info| info.zone.0).collect())
}

pub(crate) async fn report(dev: &Rc<dyn ZonedDevice>, zones: Range<u32>) -> StoreResult<Vec<ZoneInfo>> {
    report_patiently(dev, ZoneId(zones.start), zones.end - zones.start).await.map_err(device_error)
}

fn holds(info: &ZoneInfo) -> bool {
    info.state != ZoneState::Empty
}

fn is_dead(state: ZoneState) -> bool {
    matches!(state, ZoneState::ReadOnly | ZoneState::Offline)
}

pub(crate) fn device_error(error: DeviceError) -> StoreError {
    let kind = match error.kind {
        DeviceErrorKind::Gone => StoreErrorKind::Unavailable,
        _ => StoreErrorKind::Device,
    };
    StoreError::caused(kind, error.to_string(), error)
}
