//! Knowledge of the room in the metadata log.

use std::cell::Cell;

use tokio::sync::Notify;

/// Runs of records in the index, as they were measured last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// The bytes that they take in a checkpoint.
    pub(crate) runs: u64,
    /// Number of the records.
    pub(crate) records: u64,
    /// Records that had entered the index until then.
    pub(crate) indexed: u64,
}

/// Appends that have no entry in the index, as they were counted last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) appends: u64,
    /// Records that had been taken until then.
    pub(crate) taken: u64,
}

impl Counted {
    /// No more than that: whatever became of the others, only those that were taken since are new.
    pub(crate) fn most(self, taken: u64) -> u64 {
        self.appends + (taken - self.taken)
    }
}

/// Room in the metadata log, as far as known.
#[derive(Debug, Default)]
pub(crate) struct LogRoom {
    pub(crate) measured: Cell<Option<Measured>>,
    pub(crate) unindexed: Cell<Counted>,
    /// The most that GC may add while it empties a zone (CS-ROOM-4).
    pub(crate) reserved: Cell<u64>,
    /// Checkpoints in a row that made no room for the journal, or had none themselves.
    pub(crate) futile: Cell<u32>,
    /// Wakes callers that wait for the journal to take entries again.
    pub(crate) changed: Notify,
}
