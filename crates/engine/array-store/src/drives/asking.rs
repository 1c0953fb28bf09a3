//! Questions to the drives of an array.

use std::collections::BTreeMap;
use std::rc::Rc;

use shingle_base::{Blocks, Lba, ZoneId};
use shingle_zoned::{DeviceError, DeviceErrorKind, ZoneInfo, ZoneState, ZonedDevice, report_patiently};

use crate::types::DriveId;

/// True if the whole drive is lost with that error, not one command or zone of it.
pub(crate) fn is_lost(error: &DeviceError) -> bool {
    matches!(error.kind, DeviceErrorKind::Gone)
}

/// All zones of a device; a report that fails is tried again like a read. (AS-PROBE-1)
pub(crate) async fn report_all(dev: &Rc<dyn ZonedDevice>) -> Result<Vec<ZoneInfo>, DeviceError> {
    let count = dev.geometry().zone_count;
    let mut zones = Vec::with_capacity(count as usize);
    while (zones.len() as u32) < count {
        let from = zones.len() as u32;
        let found = report_patiently(dev, ZoneId(from), count - from).await?;
        if found.is_empty() {
            break;
        }
        zones.extend(found);
    }
    Ok(zones)
}

/// The first block of a place in a zone.
pub(crate) fn at(dev: &Rc<dyn ZonedDevice>, zone: ZoneId, block: u32) -> Lba {
    dev.geometry().start_of(zone) + Blocks(u64::from(block))
}

/// Reports of the zones of all drives.
pub(crate) type Reports = BTreeMap<DriveId, Vec<ZoneInfo>>;

/// True if a zone has a write pointer; it has none once it can no longer be written to, and counts as gone then.
pub(crate) fn has_pointer(zone: &ZoneInfo) -> bool {
    !matches!(zone.state, ZoneState::ReadOnly | ZoneState::Offline)
}
