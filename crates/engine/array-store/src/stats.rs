//! Counters of an open array.

use std::cell::Cell;

/// Counters since the array was opened.
#[derive(Default)]
pub(crate) struct Counters {
    /// Bytes of parts that clients wrote.
    pub(crate) ingested: Cell<u64>,
    /// Bytes of parts that cleaning moved.
    pub(crate) moved: Cell<u64>,
    /// Bytes of parts that were reconstructed for a reader, because a fragment failed.
    pub(crate) reconstructed: Cell<u64>,
    /// Items that recovery looks at unless a snapshot covers them: of clients, deletions and of cleaning.
    pub(crate) items: Cell<u64>,
    /// Sets that cleaning emptied.
    pub(crate) cleaned: Cell<u64>,
}

pub(crate) fn add(counter: &Cell<u64>, number: u64) {
    counter.set(counter.get() + number);
}
