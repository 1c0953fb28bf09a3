//! Records that no progress mark names yet, by zone.

use std::collections::{BTreeMap, BTreeSet};

use shingle_base::{BLOCK_SIZE, ZoneId};

/// Records without a mark yet.
#[derive(Debug, Default)]
pub(crate) struct Unmarked {
    /// Blocks between marks; `None` where none are made.
    every: Option<u64>,
    /// Blocks written since the last.
    blocks: u64,
    /// Zones that have something to say.
    zones: BTreeSet<ZoneId>,
    /// Zones with records of which another copy was acknowledged, and may be reset (CS-MARK-5).
    moved: BTreeSet<ZoneId>,
    /// Stretches of zones that an opening read, behind what it could not read (CS-MARK-3).
    behind: BTreeMap<ZoneId, Vec<(u32, u32)>>,
}

impl Unmarked {
    /// Nothing, with marks due after so many bytes.
    pub(crate) fn new(every: Option<u64>) -> Self {
        Self { every: every.map(|bytes| bytes / BLOCK_SIZE as u64), ..Self::default() }
    }

    /// Blocks of a zone entered the index, or it was closed. Returns whether marks are due.
    pub(crate) fn note(&mut self, zone: ZoneId, blocks: u64) -> bool {
        let Some(every) = self.every else { return false };
        self.zones.insert(zone);
        self.blocks += blocks;
        self.blocks >= every
    }

    /// An opening read all between two blocks of a zone, and could not read what is before them.
    pub(crate) fn note_behind(&mut self, zone: ZoneId, stretch: (u32, u32)) {
        self.behind.entry(zone).or_default().push(stretch);
        self.moved.insert(zone);
    }

    /// Records that lie elsewhere, too, entered the index: the next reset waits for a mark of them, whether others are
    /// made or not.
    pub(crate) fn note_moved(&mut self, zone: ZoneId) {
        self.moved.insert(zone);
    }

    /// Zones that have something to say, for marks that are made now.
    pub(crate) fn take_due(&mut self) -> BTreeSet<ZoneId> {
        std::mem::take(&mut self.zones)
    }

    /// Counts blocks from zero until marks are due again.
    pub(crate) fn restart(&mut self) {
        self.blocks = 0;
    }

    /// Zones that the next reset needs marks of (CS-MARK-5).
    pub(crate) fn take_moved(&mut self) -> BTreeSet<ZoneId> {
        std::mem::take(&mut self.moved)
    }

    /// All these zones, in order.
    pub(crate) fn zones(&self) -> impl Iterator<Item = ZoneId> + '_ {
        self.zones.union(&self.moved).copied()
    }

    /// Stretches of a zone that lie behind what could not be read.
    pub(crate) fn behind(&self, zone: ZoneId) -> &[(u32, u32)] {
        self.behind.get(&zone).map_or(&[], Vec::as_slice)
    }

    /// Marks of these stretches were made.
    pub(crate) fn forget_behind(&mut self, zone: ZoneId) {
        self.behind.remove(&zone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_due_after_so_many_blocks_of_all_zones() {
        let mut unmarked = Unmarked::new(Some(10 * BLOCK_SIZE as u64));
        assert!(!unmarked.note(ZoneId(5), 6) && !unmarked.note(ZoneId(4), 3));
        assert!(unmarked.note(ZoneId(5), 1));
        unmarked.restart();
        assert!(!unmarked.note(ZoneId(4), 9), "counted from zero");
        assert!(unmarked.take_due().into_iter().eq([ZoneId(4), ZoneId(5)]));
        assert_eq!(unmarked.take_due(), BTreeSet::new());
    }

    #[test]
    fn resets_wait_for_what_was_moved_even_where_no_marks_are_made() {
        let mut unmarked = Unmarked::new(None);
        assert!(!unmarked.note(ZoneId(1), u64::MAX));
        unmarked.note_moved(ZoneId(2));
        unmarked.note_behind(ZoneId(3), (5, 9));
        assert!(unmarked.zones().eq([ZoneId(2), ZoneId(3)]), "CS-MARK-5");
        assert!(unmarked.take_moved().into_iter().eq([ZoneId(2), ZoneId(3)]));
        assert_eq!((unmarked.behind(ZoneId(3)), unmarked.behind(ZoneId(2))), (&[(5, 9)][..], &[][..]));
        unmarked.forget_behind(ZoneId(3));
        assert_eq!((unmarked.behind(ZoneId(3)), unmarked.zones().count()), (&[][..], 0));
    }
}
