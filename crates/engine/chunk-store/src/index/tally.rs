//! Number of records in the index, and of those on their way.

/// Counts since the opening, but for `records`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Records in the index.
    pub(crate) records: u64,
    /// Records that entered it.
    pub(crate) indexed: u64,
    /// Appends that were taken.
    pub(crate) taken: u64,
}

impl Tally {
    /// The index as recovery found it.
    pub(crate) fn of(records: u64) -> Self {
        Self { records, ..Self::default() }
    }

    /// An append was taken.
    pub(crate) fn took(&mut self) {
        self.taken += 1;
    }

    /// A record entered the index.
    pub(crate) fn entered(&mut self) {
        self.records += 1;
        self.indexed += 1;
    }

    /// So many records left it.
    pub(crate) fn left(&mut self, records: u64) {
        self.records -= records;
    }
}
