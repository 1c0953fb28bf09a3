//! Items that a snapshot of the index taken now cannot cover, and the deletions that recovery needs for it. (AS-SNAP-3)
//!
//! A set is covered up to the first item that is not in the index yet. Recovery finds items behind that again, also
//! those that were entered and deleted meanwhile; the tombstone may lie in another set, all of which is in the index.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::types::Version;
use crate::zone_set::ZoneSet;

/// Records of tombstones that are kept before it is looked which of them are needed.
const KEPT_MIN: usize = 64;

/// A record of tombstones that is in the index: nothing that it deletes is on its way any more.
#[derive(Clone)]
pub(crate) struct Deletions {
    pub(crate) set: Rc<ZoneSet>,
    /// The generation of the set in which it was written.
    pub(crate) generation: u64,
    /// Its first block.
    pub(crate) block: u32,
    pub(crate) stamp: u64,
    /// Of its deletions.
    pub(crate) oldest: Version,
    /// All that it deletes was launched up to here.
    pub(crate) until: u64,
}

/// Items that are not in the index, and deletions that may be of such.
#[derive(Default)]
pub(crate) struct Uncovered {
    /// Stamps of items that are on their way, or not in the index yet.
    items: RefCell<BTreeSet<u64>>,
    /// The newest that was launched.
    newest: Cell<u64>,
    deletions: RefCell<Vec<Deletions>>,
    /// So many deletions are sorted out next.
    sort_out_at: Cell<usize>,
}

impl Uncovered {
    /// An item is launched.
    pub(crate) fn begin(&self, stamp: u64) {
        self.items.borrow_mut().insert(stamp);
        self.newest.set(self.newest.get().max(stamp));
    }

    /// An item is in the index, or given up; its deletions, if that is what it is.
    pub(crate) fn end(&self, stamp: u64, deletions: Option<Deletions>) {
        self.items.borrow_mut().remove(&stamp);
        let Some(deletions) = deletions else { return };
        let until = self.newest.get();
        self.deletions.borrow_mut().push(Deletions { until, ..deletions });
        if self.deletions.borrow().len() >= self.sort_out_at.get().max(KEPT_MIN) {
            let left = self.needed().len();
            self.sort_out_at.set(2 * left);
        }
    }

    /// The deletions of what a snapshot that is taken now does not cover. They must not be covered either, which
    /// uncovers what lies behind them in their sets. Others are never needed again: what is launched later is newer.
    pub(crate) fn needed(&self) -> Vec<Deletions> {
        let mut deletions = self.deletions.borrow_mut();
        let mut from = self.items.borrow().first().copied().unwrap_or(u64::MAX);
        loop {
            let needed = deletions.iter().filter(|some| some.until >= from);
            match needed.map(|some| some.stamp).min() {
                Some(earlier) if earlier < from => from = earlier,
                _ => break,
            }
        }
        deletions.retain(|some| some.until >= from);
        deletions.clone()
    }
}
