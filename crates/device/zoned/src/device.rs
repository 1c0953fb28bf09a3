//! The contract of a zoned device.

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_runtime::LocalBoxFuture;

use crate::error::DeviceResult;
use crate::geometry::Geometry;
use crate::zone::{ZoneInfo, ZoneOp};

/// The result of a command, some time later, on the same thread.
pub type DeviceFuture<'a, T> = LocalBoxFuture<'a, DeviceResult<T>>;

/// A zoned device with one owner.
///
/// A command starts when its future is first polled; commands may complete in any order. A command that breaks a rule
/// fails with [`Violation`](crate::Violation), exactly as the drive would fail it, and changes nothing.
///
/// A command that has started belongs to the device: dropping the future neither stops nor undoes it.
///
/// # Invariants
/// - ZD-DEV-1: a write whose future completed is read back by every later read.
/// - ZD-DEV-2: writes before a completed [`flush`](Self::flush) survive a power cut; without a [volatile
///   cache](Geometry::volatile_cache), so does every completed command.
/// - ZD-DEV-3: after a power cut each sequential zone holds a prefix of its writes: its write pointer never lies past a
///   block that was not written (the block's bytes may yet be torn or rotten).
/// - ZD-DEV-4: a flush that fails takes the device with it: it fails with [`Gone`](crate::DeviceErrorKind::Gone), and so does every
///   later command.
pub trait ZonedDevice {
    /// The shape and limits.
    fn geometry(&self) -> &Geometry;

    /// `count` zones from `first`, fewer at the end of the device.
    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>>;

    /// Reads `length` blocks at `at`, into memory aligned to a block. The range must lie in one zone and, in a
    /// sequential zone, below its write pointer.
    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes>;

    /// Writes `data` at `at`. Each piece is a whole number of blocks, aligned in memory to a block; together they
    /// are one command. The range must lie in one zone, and in a sequential zone start at its write pointer.
    ///
    /// After a failure an unknown prefix may have been written: report the zone before writing to it again.
    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()>;

    /// Writes `data` at the write pointer of `zone`, and returns the place. (Zone append of NVMe ZNS; drivers do it for
    /// other drives.)
    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba>;

    /// Opens, closes, finishes or resets `zone`.
    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()>;

    /// Makes every completed command durable. If it fails, some of them are lost, and so is the device (ZD-DEV-4).
    fn flush(&self) -> DeviceFuture<'_, ()>;
}
