//! A machine's size and speed, and names of files.

use std::time::Duration;

/// Bytes of a page, and of a block.
pub(super) const PAGE: u64 = 4096;

/// A machine's size and speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Calls that it works on at once.
    pub cores: u32,
    /// Time of a call.
    pub call: Duration,
    /// Picoseconds for each byte that a call copies.
    pub byte_ps: u64,
}

impl Machine {
    /// FSTL's machine, with a share of its memory.
    pub const fn fstl(memory_bytes: u64) -> Self {
        Self { memory_bytes, cores: 2, call: Duration::from_micros(100), byte_ps: 250 }
    }
}

/// A file, by number. None is given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub(super) u64);
