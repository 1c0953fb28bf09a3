//! Questions to a drive that are asked again if they fail: reads, and reports of zones.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};

use crate::{DeviceError, DeviceErrorKind, DeviceResult, ZoneInfo, ZonedDevice};

/// Tries of a question before its answer counts as unknown.
const TRIES: u32 = 3;

/// True if another try may end better.
fn passing(error: &DeviceError) -> bool {
    !matches!(error.kind, DeviceErrorKind::Gone | DeviceErrorKind::ZoneOffline | DeviceErrorKind::Rule(_))
}

/// Asks up to three times, as long as another try may end better.
///
/// # Errors
/// That of the last try.
pub async fn patiently<T, F: Future<Output = DeviceResult<T>>>(ask: impl Fn() -> F) -> DeviceResult<T> {
    let mut tries = 1;
    loop {
        match ask().await {
            Err(error) if tries < TRIES && passing(&error) => tries += 1,
            answer => return answer,
        }
    }
}

/// Reads `length` blocks at `at`, with several tries.
///
/// # Errors
/// As [`ZonedDevice::read`].
pub async fn read_patiently(dev: &Rc<dyn ZonedDevice>, at: Lba, length: Blocks) -> DeviceResult<Bytes> {
    patiently(|| dev.read(at, length)).await
}

/// The states of up to `count` zones from `first` on, with several tries.
///
/// # Errors
/// As [`ZonedDevice::report`].
pub async fn report_patiently(dev: &Rc<dyn ZonedDevice>, first: ZoneId, count: u32) -> DeviceResult<Vec<ZoneInfo>> {
    patiently(|| dev.report(first, count)).await
}
