//! Questions to a drive: repeated if a read or a report fails, and given up once it is lost.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_zoned::{DeviceError, DeviceErrorKind, DeviceResult, ZoneInfo, ZoneState, ZonedDevice};

use crate::types::DriveId;

/// Tries of a read.
const TRIES: usize = 3;

/// Asks a drive, with as many tries as a failed read gets. (AS-PROBE-1)
pub(crate) async fn patiently<T, F: Future<Output = DeviceResult<T>>>(ask: impl Fn() -> F) -> DeviceResult<T> {
    let mut tries = 0;
    loop {
        let error = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        tries += 1;
        if tries == TRIES || is_lost(&error) || matches!(error.kind, DeviceErrorKind::Rule(_)) {
            return Err(error);
        }
    }
}

/// Reads blocks in that way.
pub(crate) async fn read_patiently(dev: &Rc<dyn ZonedDevice>, at: Lba, blocks: Blocks) -> DeviceResult<Bytes> {
    patiently(|| dev.read(at, blocks)).await
}

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
        let found = patiently(|| dev.report(ZoneId(from), count - from)).await?;
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
