//! A device under test, and the means of cases: places on it, blocks that tell their number, and checks of answers.

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, Lba, ZoneId};

use crate::device::ZonedDevice;
use crate::error::{DeviceErrorKind, DeviceResult, Violation};
use crate::geometry::Geometry;
use crate::zone::{ZoneInfo, ZoneState};

/// A kind of device under test.
pub trait Backend {
    /// The device.
    type Device: ZonedDevice;

    /// The one shape that this backend's device has, if it cannot choose: a real drive. It wants at least two
    /// sequential zones more than may be open and active together, and 16 blocks a zone.
    fn shape(&self) -> Option<Geometry> {
        None
    }

    /// A fresh device of this shape (but for `volatile_cache`); `None` if this backend cannot make it.
    fn make<'a>(&'a self, geometry: &'a Geometry) -> LocalBoxFuture<'a, Option<Self::Device>>;

    /// Closes the device and opens it again. `None`: this backend cannot.
    fn reopen(&self, _device: Self::Device) -> LocalBoxFuture<'_, Option<Self::Device>> {
        Box::pin(async { None })
    }

    /// True if `reopen` can work, and leaves open zones open.
    fn reopens_exactly(&self) -> bool {
        false
    }

    /// Puts a zone into the read-only or offline state; returns whether this backend can.
    fn degrade(&self, _device: &Self::Device, _zone: ZoneId, _state: ZoneState) -> bool {
        false
    }
}

/// Places on the device under test that cases use.
#[derive(Clone, Copy)]
pub(super) struct Places {
    /// The first sequential zone, and its first block.
    pub(super) zone: ZoneId,
    pub(super) start: Lba,
    /// Blocks from one zone to the next.
    pub(super) size: u64,
    /// Blocks that can be written in a sequential zone.
    pub(super) capacity: u64,
    /// There are blocks behind a zone's capacity.
    pub(super) gap: bool,
}

impl Places {
    pub(super) fn of(device: &impl ZonedDevice) -> Self {
        let geometry = device.geometry();
        let zone = ZoneId(geometry.conventional_zones);
        let (size, capacity) = (geometry.zone_size.0, geometry.zone_capacity.0);
        Self { zone, start: geometry.start_of(zone), size, capacity, gap: capacity < size }
    }

    /// A sequential zone, counted from the first.
    pub(super) fn nth(self, number: u32) -> ZoneId {
        ZoneId(self.zone.0 + number)
    }

    /// Its first block.
    pub(super) fn start_of(self, number: u32) -> Lba {
        self.start + Blocks(self.size * u64::from(number))
    }

    /// The last conventional zone and its first block, if there is one.
    pub(super) fn conventional(self) -> Option<(ZoneId, Lba)> {
        let zone = self.zone.0.checked_sub(1)?;
        Some((ZoneId(zone), Lba(self.size * u64::from(zone))))
    }
}

/// A block that carries its number and the round it was written in.
pub(super) fn fill(block: &mut [u8], tag: u64) {
    for (at, word) in block.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(tag ^ (at as u64) << 48).to_le_bytes());
    }
}

/// Blocks with the tags from `tag` on.
pub(super) fn blocks(tag: u64, count: u64) -> Bytes {
    let mut buffer = AlignedBuf::zeroed(Blocks(count));
    for (tag, block) in (tag..).zip(buffer.chunks_exact_mut(BLOCK_SIZE)) {
        fill(block, tag);
    }
    buffer.freeze()
}

/// Reads, and checks the length and alignment of the answer.
pub(super) async fn read(device: &impl ZonedDevice, at: Lba, length: u64) -> DeviceResult<Bytes> {
    let bytes = device.read(at, Blocks(length)).await?;
    assert_eq!(bytes.len() as u64, Blocks(length).bytes(), "length of a read at {at}");
    assert_eq!(bytes.as_ptr().align_offset(BLOCK_SIZE), 0, "alignment of a read at {at}");
    Ok(bytes)
}

pub(super) async fn zone(device: &impl ZonedDevice, zone: ZoneId) -> ZoneInfo {
    let zones = device.report(zone, 1).await.expect("a report");
    assert_eq!(zones.len(), 1, "a report of one zone");
    zones[0]
}

pub(super) async fn state(device: &impl ZonedDevice, id: ZoneId) -> (ZoneState, u64) {
    let info = zone(device, id).await;
    (info.state, info.written.0)
}

/// Checks that a command broke this rule.
#[track_caller]
pub(super) fn broke<T>(result: DeviceResult<T>, expected: Violation) {
    match result {
        Ok(_) => panic!("accepted what should fail with {expected:?}"),
        Err(error) => assert_eq!(error.violation(), Some(expected), "{error}"),
    }
}

/// Checks that a command failed because its zone has.
#[track_caller]
pub(super) fn zone_failed<T>(result: DeviceResult<T>, state: ZoneState) {
    let Err(error) = result else { panic!("accepted by a zone that is {state:?}") };
    let right = match error.kind {
        DeviceErrorKind::ZoneReadOnly => state == ZoneState::ReadOnly,
        DeviceErrorKind::ZoneOffline => state == ZoneState::Offline,
        _ => false,
    };
    assert!(right, "a zone that is {state:?} answered {error:?}");
}
