//! The writing end of a zone in a pool.

use std::collections::VecDeque;

use crate::append::open::Pending;

/// The writing end of a zone in a pool.
pub(crate) struct ZoneWriter {
    /// Block of the next record.
    pub(super) next: u32,
    /// Blocks that `queue` takes at most.
    pub(super) reserved: u32,
    pub(super) capacity: u32,
    pub(super) queue: VecDeque<Pending>,
    /// Has its turn, or waits for it.
    pub(super) writing: bool,
    /// Chunks whose records go here.
    pub(crate) chunks: u32,
}

impl ZoneWriter {
    pub(crate) fn new(next: u32, capacity: u32) -> Self {
        Self { next, reserved: 0, capacity, queue: VecDeque::new(), writing: false, chunks: 0 }
    }

    pub(super) fn room(&self) -> u32 {
        self.capacity - self.next - self.reserved
    }

    /// True if nothing is queued or in flight.
    pub(crate) fn is_idle(&self) -> bool {
        !self.writing && self.queue.is_empty()
    }

    pub(super) fn enqueue(&mut self, pending: Pending) {
        self.reserved += pending.blocks;
        self.queue.push_back(pending);
    }
}
