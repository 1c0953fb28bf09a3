//! Knowledge of zones that are not worth cleaning, so that they are not all looked at for each transaction.
//!
//! **Owns** the list of zones that have changed since. **Knows nothing of** what makes a zone worth it.

use std::collections::BTreeSet;

use shingle_runtime::Instant;

/// Knowledge of zones that are not worth cleaning.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// No zone had so many blocks to be won when all were looked at, and the time of that.
    pub(crate) none: Option<(u64, Instant)>,
    /// Zones that have changed since.
    pub(crate) changed: BTreeSet<u32>,
}

impl Looked {
    /// A zone may be worth more than it was.
    pub(crate) fn note(&mut self, zone: u32) {
        if self.none.is_some() {
            self.changed.insert(zone);
        }
    }

    /// Any zone may be.
    pub(crate) fn note_all(&mut self) {
        self.none = None;
        self.changed.clear();
    }
}
