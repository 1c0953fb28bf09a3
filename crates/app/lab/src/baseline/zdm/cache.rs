//! Map pages that are in memory: the least recently used one goes first.

use std::collections::{BTreeMap, BTreeSet};

/// A cache of numbers of map pages.
pub(super) struct PageCache {
    most: usize,
    clock: u64,
    used: BTreeMap<u64, u64>,
    order: BTreeMap<u64, u64>,
    dirty: BTreeSet<u64>,
    /// Pages that are on the drive; others were never written, and need not be read.
    stored: BTreeSet<u64>,
}

/// Commands for a page to be in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// It is to be read.
    pub(super) reads: bool,
    /// This one makes room, and is to be written first.
    pub(super) writes: Option<u64>,
}

impl PageCache {
    pub(super) fn new(most: usize) -> Self {
        let (used, order, dirty, stored) = Default::default();
        Self { most: most.max(1), clock: 0, used, order, dirty, stored }
    }

    /// Uses a page, and changes it if `changes`.
    pub(super) fn touch(&mut self, page: u64, changes: bool) -> Load {
        self.clock += 1;
        let mut load = Load::default();
        match self.used.insert(page, self.clock) {
            Some(before) => drop(self.order.remove(&before)),
            None => {
                load.reads = self.stored.contains(&page);
                if self.used.len() > self.most
                    && let Some((_, oldest)) = self.order.pop_first()
                {
                    self.used.remove(&oldest);
                    load.writes = self.dirty.remove(&oldest).then_some(oldest);
                    self.stored.extend(load.writes);
                }
            }
        }
        self.order.insert(self.clock, page);
        if changes {
            self.dirty.insert(page);
        }
        load
    }

    /// Takes all pages that are to be written; they stay in memory.
    pub(super) fn take_dirty(&mut self) -> BTreeSet<u64> {
        let dirty = std::mem::take(&mut self.dirty);
        self.stored.extend(&dirty);
        dirty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_page_goes_and_only_stored_pages_are_read() {
        let mut cache = PageCache::new(2);
        let load = |reads, writes| Load { reads, writes };
        assert_eq!(cache.touch(1, true), load(false, None));
        assert_eq!(cache.touch(2, false), load(false, None));
        assert_eq!(cache.touch(1, false), load(false, None));
        assert_eq!(cache.touch(3, true), load(false, None), "the second was clean");
        assert_eq!(cache.touch(4, false), load(false, Some(1)));
        assert_eq!(cache.take_dirty(), BTreeSet::from([3]));
        assert_eq!(cache.touch(1, false), load(true, None), "the third is written");
        assert_eq!(cache.touch(3, false), load(true, None));
    }
}
