//! Dirty pages of all files, and those that wait because there are too many.

use std::cell::Cell;
use std::collections::BTreeSet;

use shingle_runtime::Instant;
use tokio::sync::Notify;

use super::machine::PAGE;

/// Percent of the memory from which on the flusher works at any time (`dirty_background_ratio`).
const BACKGROUND: u64 = 10;

/// Percent of it at which writers wait (`dirty_ratio`).
const LIMIT: u64 = 20;

/// Counts of the page cache.
pub(super) struct Cache {
    pub(super) memory_pages: u64,
    pub(super) dirty: Cell<u64>,
    pub(super) writing: Cell<u64>,
    /// The flusher is to look.
    pub(super) wanted: Notify,
    /// Pages were written.
    pub(super) written: Notify,
}

impl Cache {
    pub(super) fn new(memory_bytes: u64) -> Self {
        Self {
            memory_pages: memory_bytes / PAGE,
            dirty: Cell::new(0),
            writing: Cell::new(0),
            wanted: Notify::new(),
            written: Notify::new(),
        }
    }

    fn unwritten(&self) -> u64 {
        self.dirty.get() + self.writing.get()
    }

    /// So much is dirty that the flusher works at any time.
    pub(super) fn over_background(&self) -> bool {
        self.dirty.get() * 100 > self.memory_pages * BACKGROUND
    }

    /// So much is dirty that writers wait.
    pub(super) fn over_limit(&self) -> bool {
        self.unwritten() * 100 > self.memory_pages * LIMIT
    }

    /// Pages become dirty, or are no more so before they went to the drive.
    pub(super) fn count_dirty(&self, more: u64, less: u64) {
        self.dirty.set(self.dirty.get() + more - less);
    }

    /// Dirty pages go to the drive.
    pub(super) fn begin(&self, pages: u64) {
        self.count_dirty(0, pages);
        self.writing.set(self.writing.get() + pages);
    }

    /// They are there.
    pub(super) fn end(&self, pages: u64) {
        self.writing.set(self.writing.get() - pages);
        self.written.notify_waiters();
    }
}

/// Pages of one file.
#[derive(Debug, Default)]
pub(super) struct Pages {
    pub(super) dirty: BTreeSet<u64>,
    /// Pages on their way to the drive.
    pub(super) writing: u64,
    /// Its place in the flusher's queue: since when it is dirty, or had its last turn.
    pub(super) queued: Option<Instant>,
    /// The page from which on the next turn looks.
    pub(super) cursor: u64,
}

impl Pages {
    /// Takes up to `most` dirty pages below `end` from the cursor on, and from the beginning once there are no more.
    pub(super) fn take(&mut self, most: usize, end: u64) -> Vec<u64> {
        let from = if self.dirty.range(self.cursor..end).next().is_some() { self.cursor } else { 0 };
        let taken: Vec<u64> = self.dirty.range(from..end).take(most).copied().collect();
        for page in &taken {
            self.dirty.remove(page);
        }
        self.cursor = taken.last().map_or(0, |last| last + 1);
        self.writing += taken.len() as u64;
        taken
    }
}
