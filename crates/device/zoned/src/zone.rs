//! Zones as drives report them, and the commands on them as a whole.

use std::fmt;

use shingle_base::{Blocks, Lba, ZoneId};

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
