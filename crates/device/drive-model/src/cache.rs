//! Recently read ranges in a disk's buffer.

use std::ops::Range;

/// Ranges of blocks that lie in the drive's buffer, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments {
    ranges: Vec<Range<u64>>,
    count: usize,
}

impl Segments {
    pub(crate) fn new(count: u32) -> Self {
        Self { ranges: Vec::new(), count: count as usize }
    }

    pub(crate) fn holds(&self, blocks: &Range<u64>) -> bool {
        self.ranges.iter().any(|range| range.start <= blocks.start && blocks.end <= range.end)
    }

    /// Keeps a range, and forgets the oldest if there are too many.
    pub(crate) fn keep(&mut self, blocks: Range<u64>) {
        if self.count == 0 || blocks.is_empty() {
            return;
        }
        self.ranges.retain(|range| !(blocks.start <= range.start && range.end <= blocks.end));
        if self.ranges.len() == self.count {
            self.ranges.remove(0);
        }
        self.ranges.push(blocks);
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Forgets the ranges that a write makes stale.
    pub(crate) fn forget(&mut self, blocks: &Range<u64>) {
        self.ranges.retain(|range| range.end <= blocks.start || blocks.end <= range.start);
    }
}
