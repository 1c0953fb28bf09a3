//! Drives that have to be flushed before a superblock relies on what was written to them. (AS-REPLACE-1, AS-SET-1)
//!
//! # Invariants
//! - AS-SB-5: a drive is one of them until a flush of it that began behind the last such write has succeeded, or the drive is
//!   lost: a superblock that is dropped on its way, or whose flush of another drive fails, takes none out. It calls a drive
//!   that was lost then failed, and none is written if parity does not make up for that (AS-EVICT-1).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::types::DriveId;

/// Drives that have to be flushed.
#[derive(Default)]
pub(crate) struct Unflushed {
    /// The number of the last write to each that counts.
    last: RefCell<BTreeMap<DriveId, u64>>,
    next: Cell<u64>,
}

/// Drives that had to be flushed at a time.
pub(crate) struct Due(BTreeMap<DriveId, u64>);

impl Unflushed {
    /// Something that counts was written to these.
    pub(crate) fn add(&self, drives: impl IntoIterator<Item = DriveId>) {
        self.next.set(self.next.get() + 1);
        self.last.borrow_mut().extend(drives.into_iter().map(|drive| (drive, self.next.get())));
    }

    /// Those that have to be flushed now.
    pub(crate) fn due(&self) -> Due {
        Due(self.last.borrow().clone())
    }

    /// A flush of a drive that was begun when it was `due` has succeeded, or the drive is lost.
    pub(crate) fn is_done(&self, due: &Due, drive: DriveId) {
        let mut last = self.last.borrow_mut();
        if last.get(&drive) == due.0.get(&drive) {
            last.remove(&drive);
        }
    }
}

impl Due {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn drives(&self) -> impl Iterator<Item = DriveId> + use<> {
        self.0.keys().copied().collect::<Vec<_>>().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AS-SB-5.
    #[test]
    fn what_is_written_while_a_flush_is_under_way_needs_another() {
        let (unflushed, [first, second]) = (Unflushed::default(), [DriveId(1), DriveId(2)]);
        unflushed.add([first, second]);
        let due = unflushed.due();
        unflushed.add([second]);
        due.drives().for_each(|drive| unflushed.is_done(&due, drive));
        assert_eq!(unflushed.due().drives().collect::<Vec<_>>(), [second]);
        let due = unflushed.due();
        unflushed.is_done(&due, second);
        assert!(unflushed.due().is_empty());
    }
}
