//! The contract of a zoned device.

use std::fmt;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_runtime::LocalBoxFuture;

use crate::error::DeviceResult;
use crate::geometry::Geometry;

/// The state of a zone, as ZBC, ZAC and NVMe ZNS define it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ZoneState {
    /// A conventional zone: no write pointer.
    NotWritePointer,
    /// Nothing written since the last reset.
    Empty,
    /// Opened by a write.
    ImplicitOpen,
    /// Opened by an open command.
    ExplicitOpen,
    /// Partly written, holding no open resource.
    Closed,
    /// Written to its capacity, or finished.
    Full,
    /// Readable; can never be written or reset again.
    ReadOnly,
    /// Neither readable nor writable.
    Offline,
}

impl ZoneState {
    /// True if the zone counts against the limit of open zones.
    pub fn is_open(self) -> bool {
        matches!(self, Self::ImplicitOpen | Self::ExplicitOpen)
    }

    /// True if the zone counts against the limit of active zones.
    pub fn is_active(self) -> bool {
        self.is_open() || self == Self::Closed
    }
}

/// The standards' words, not this program's: `implicitly open`.
impl fmt::Display for ZoneState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotWritePointer => "conventional",
            Self::Empty => "empty",
            Self::ImplicitOpen => "implicitly open",
            Self::ExplicitOpen => "explicitly open",
            Self::Closed => "closed",
            Self::Full => "full",
            Self::ReadOnly => "read-only",
            Self::Offline => "offline",
        })
    }
}

/// One zone, as reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    /// The zone's number.
    pub zone: ZoneId,
    /// Its state.
    pub state: ZoneState,
    /// Its first block.
    pub start: Lba,
    /// Blocks that can be written in it.
    pub capacity: Blocks,
    /// Blocks written from its start. Meaningless (and zero) for conventional and offline zones; for a full zone it is
    /// the capacity, even if a finish made it full.
    pub written: Blocks,
}

/// A command on a zone as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneOp {
    /// Open explicitly, so that the zone keeps its open resource between writes.
    Open,
    /// Give the open resource back. An empty zone stays (or becomes) empty.
    Close,
    /// Make the zone full; unwritten blocks can then be neither written nor read as data.
    Finish,
    /// Empty the zone.
    Reset,
}

impl fmt::Display for ZoneOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Close => "close",
            Self::Finish => "finish",
            Self::Reset => "reset",
        })
    }
}

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

    /// Makes every completed command durable.
    fn flush(&self) -> DeviceFuture<'_, ()>;
}
