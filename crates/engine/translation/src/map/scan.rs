//! Lookups: one sector, the next extent, a range.

use std::ops::Range;

use super::ExtentMap;
use super::directory::At;
use super::extent::Extent;

impl<const N: usize, const D: usize> ExtentMap<N, D> {
    /// The extent that holds a sector.
    pub fn get(&self, lba: u64) -> Option<Extent> {
        self.holder(lba).map(|(.., extent)| extent)
    }

    /// The extent that holds a sector, else the first one behind it. Calls with [`Extent::end`] go through the map, also one
    /// that changes meanwhile.
    pub fn next(&self, from: u64) -> Option<Extent> {
        let (at, slot) = self.not_before(from)?;
        self.directory.leaf(at)?.get(slot)
    }

    /// Up to `most` extents from `from` on, in order; the first may begin before it. Returns where the next ones begin; `None` at the
    /// end. So a long scan can be divided, while the map changes.
    pub fn some(&self, from: u64, most: usize, mut each: impl FnMut(Extent)) -> Option<u64> {
        let (mut at, mut slot) = self.not_before(from)?;
        let (mut left, mut next) = (most, from);
        while left > 0 {
            let leaf = self.directory.leaf(at)?;
            let end = leaf.count().min(slot + left);
            left -= end - slot;
            for extent in (slot..end).filter_map(|slot| leaf.get(slot)) {
                next = extent.end();
                each(extent);
            }
            if end == leaf.count() {
                (at, slot) = (self.directory.after(at)?, 0);
            }
        }
        Some(next)
    }

    /// The parts of extents that lie in `range`, in order.
    pub fn within(&self, range: Range<u64>, mut each: impl FnMut(Extent)) {
        let Some((mut at, mut slot)) = self.not_before(range.start).filter(|_| !range.is_empty()) else { return };
        while let Some(leaf) = self.directory.leaf(at) {
            let end = leaf.before(range.end);
            (slot..end).filter_map(|slot| leaf.get(slot)).for_each(|extent| each(extent.part(&range, self.stride)));
            let Some(next) = self.directory.after(at).filter(|_| end == leaf.count()) else { return };
            (at, slot) = (next, 0);
        }
    }

    /// The extent that holds a sector, and its position.
    pub(super) fn holder(&self, lba: u64) -> Option<(At, usize, Extent)> {
        let at = self.directory.locate(lba)?;
        let leaf = self.directory.leaf(at)?;
        let slot = leaf.upto(lba).checked_sub(1)?;
        let extent = leaf.get(slot).filter(|extent| lba < extent.end())?;
        Some((at, slot, extent))
    }

    /// The position of the extent that holds a sector, else of the first one behind it.
    fn not_before(&self, lba: u64) -> Option<(At, usize)> {
        if let Some((at, slot, _)) = self.holder(lba) {
            return Some((at, slot));
        }
        let at = self.directory.locate(lba)?;
        let leaf = self.directory.leaf(at)?;
        let slot = leaf.before(lba);
        if slot < leaf.count() { Some((at, slot)) } else { Some((self.directory.after(at)?, 0)) }
    }
}
