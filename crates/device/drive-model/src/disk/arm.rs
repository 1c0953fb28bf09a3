//! The arm.

use crate::command::Nanos;

/// The arm, and its last work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arm {
    pub(super) cylinder: u64,
    pub(super) head: u32,
    /// When its last work ended, or will.
    pub(super) free_at: Nanos,
    /// The block behind the last one it transferred.
    pub(super) next_block: u64,
    /// First block of the last read, which the drive may be reading ahead of; `None` after anything else.
    pub(super) reading_from: Option<u64>,
}
