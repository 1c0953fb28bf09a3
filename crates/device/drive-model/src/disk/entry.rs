//! A command in a disk.

use std::ops::Range;

use crate::command::{CommandId, Nanos, Op};
use crate::surface::Position;

/// A command in the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// `None` for a cached write, which has completed for the host.
    pub(super) id: Option<CommandId>,
    pub(super) number: u64,
    pub(super) op: Op,
    /// A write that goes through the volatile cache.
    pub(super) cached: bool,
    /// Physical.
    pub(super) at: u64,
    pub(super) blocks: u64,
    pub(super) opens: bool,
    pub(super) zone: u64,
    pub(super) arrived: Nanos,
    pub(super) position: Position,
}

impl Entry {
    pub(super) fn range(&self) -> Range<u64> {
        self.at..self.at + self.blocks
    }

    pub(super) fn is_transfer(&self) -> bool {
        matches!(self.op, Op::Read | Op::Write)
    }
}
