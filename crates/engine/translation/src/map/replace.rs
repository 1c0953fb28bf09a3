//! Changes of the map: a range of sectors gets another place, or none.

use std::ops::Range;

use super::ExtentMap;
use super::directory::At;
use super::extent::{Extent, LENGTH_MAX};
use super::leaf::Leaf;
use crate::place::Place;

/// Sectors beside a range where an extent was cut: what is left of it begins, or ends, there.
#[derive(Default)]
struct Cut {
    head: Option<u64>,
    tail: Option<u64>,
}

impl<const N: usize, const D: usize> ExtentMap<N, D> {
    /// Gives the sectors of `range` a place, that of the first one and those that follow it; or none, so that they read as
    /// zeros. `displaced` is told each piece of an extent that had a place before, in order. (TL-MAP-3)
    ///
    /// A range longer than [`LENGTH_MAX`] takes several extents, and time for each of those that it displaces: callers divide it.
    pub fn replace(&mut self, range: Range<u64>, place: Option<Place>, mut displaced: impl FnMut(Extent)) {
        if range.is_empty() {
            return;
        }
        if place.is_some_and(|place| self.replace_alone(&range, place, &mut displaced)) {
            return;
        }
        let cut = self.clear(&range, &mut displaced);
        let (mut lba, mut next) = (range.start, place);
        while let Some(place) = next.filter(|_| lba < range.end) {
            let sectors = (range.end - lba).min(u64::from(LENGTH_MAX)) as u32;
            self.add(Extent { lba, sectors, place });
            lba += u64::from(sectors);
            next = Some(place.advance(sectors, self.stride));
        }
        // An extent that was too long to be joined with its neighbour may be short enough now.
        for lba in [cut.head, cut.tail].into_iter().flatten() {
            self.join(lba);
        }
    }

    /// The two most frequent changes, in one step: a range of which no sector had a place, or that was one extent. False, and
    /// nothing has changed, unless it is one of them and no neighbour, in its leaf, is touched.
    fn replace_alone(&mut self, range: &Range<u64>, place: Place, displaced: &mut impl FnMut(Extent)) -> bool {
        let Some(leaf) = self.directory.locate(range.start).and_then(|at| self.directory.leaf_mut(at)) else {
            return false;
        };
        let Ok(sectors @ ..=LENGTH_MAX) = u32::try_from(range.end - range.start) else { return false };
        let extent = Extent { lba: range.start, sectors, place };
        let slot = leaf.before(range.start);
        let Some(left) = slot.checked_sub(1).and_then(|slot| leaf.get(slot)) else { return false };
        let old = leaf.get(slot).filter(|old| old.lba == range.start && old.sectors == sectors);
        let Some(right) = leaf.get(slot + usize::from(old.is_some())) else { return false };
        let free = left.end() <= range.start && range.end <= right.lba;
        let joins = left.takes(&extent, self.stride) || extent.takes(&right, self.stride);
        if !free || joins || (old.is_none() && leaf.count() == N) {
            return false;
        }
        match old {
            Some(old) => {
                leaf.set(slot, extent);
                displaced(old);
            }
            None => {
                leaf.insert(slot, extent);
                self.len += 1;
            }
        }
        true
    }

    /// Takes the sectors of a range out of the map.
    fn clear(&mut self, range: &Range<u64>, displaced: &mut impl FnMut(Extent)) -> Cut {
        let mut cut = Cut::default();
        if let Some((at, slot, whole)) = self.holder(range.start).filter(|(.., whole)| whole.lba < range.start) {
            displaced(whole.part(range, self.stride));
            let head = whole.part(&(whole.lba..range.start), self.stride);
            if let Some(leaf) = self.directory.leaf_mut(at) {
                leaf.set(slot, head);
            }
            cut.head = Some(head.lba);
            let tail = whole.part(&(range.end..whole.end()), self.stride);
            if tail.sectors > 0 {
                self.insert(tail);
                cut.tail = Some(tail.end());
                return cut;
            }
        }
        while let Some((at, mut slots)) = self.beginning_in(range) {
            let Some(leaf) = self.directory.leaf_mut(at) else { break };
            for slot in slots.clone() {
                let Some(extent) = leaf.get(slot) else { continue };
                displaced(extent.part(range, self.stride));
                if extent.end() > range.end {
                    let tail = extent.part(&(range.end..extent.end()), self.stride);
                    leaf.set(slot, tail);
                    slots.end = slot;
                    cut.tail = Some(tail.end());
                }
            }
            self.take_out(at, slots);
        }
        cut
    }

    /// The first leaf in which extents begin within `range`, and which those are.
    fn beginning_in(&self, range: &Range<u64>) -> Option<(At, Range<usize>)> {
        let mut at = self.directory.locate(range.start)?;
        let mut leaf = self.directory.leaf(at)?;
        let mut first = leaf.before(range.start);
        if first == leaf.count() {
            at = self.directory.after(at)?;
            leaf = self.directory.leaf(at)?;
            first = 0;
        }
        let slots = first..leaf.before(range.end);
        (!slots.is_empty()).then_some((at, slots))
    }

    /// Puts an extent where there is none, as a part of its neighbours if it continues them.
    fn add(&mut self, extent: Extent) {
        if !self.lengthen(extent) {
            self.insert(extent);
        }
        self.join(extent.end());
    }

    /// Makes an extent longer by the one that follows it, which is not in the map; false if there is no such extent.
    fn lengthen(&mut self, by: Extent) -> bool {
        let Some(at) = self.directory.locate(by.lba) else { return false };
        let Some(leaf) = self.directory.leaf_mut(at) else { return false };
        let Some(slot) = leaf.before(by.lba).checked_sub(1) else { return false };
        let before = leaf.get(slot).filter(|before| before.takes(&by, self.stride));
        if let Some(before) = before {
            leaf.set(slot, Extent { sectors: before.sectors + by.sectors, ..before });
        }
        before.is_some()
    }

    /// Joins the extents that end and begin at `lba`, if the second continues the first.
    fn join(&mut self, lba: u64) {
        let Some(at) = self.directory.locate(lba) else { return };
        let Some(leaf) = self.directory.leaf(at) else { return };
        let slot = leaf.before(lba);
        let Some(right) = leaf.get(slot).filter(|right| right.lba == lba) else { return };
        // The last one of the leaf before it, where this is the first one.
        let left_at = if slot > 0 { Some(at) } else { self.directory.before(at) };
        let Some(leaf) = left_at.and_then(|at| self.directory.leaf_mut(at)) else { return };
        let left_slot = slot.checked_sub(1).unwrap_or(leaf.count() - 1);
        if let Some(left) = leaf.get(left_slot).filter(|left| left.takes(&right, self.stride)) {
            leaf.set(left_slot, Extent { sectors: left.sectors + right.sectors, ..left });
            self.take_out(at, slot..slot + 1);
        }
    }

    /// Takes extents out of a leaf, or takes note that its first one has changed.
    fn take_out(&mut self, at: At, slots: Range<usize>) {
        let Some(leaf) = self.directory.leaf_mut(at) else { return };
        let base = leaf.base();
        self.len -= slots.len() as u64;
        leaf.remove(slots);
        let (count, base) = if leaf.count() == 0 { (0, base) } else { (leaf.count(), leaf.base()) };
        if count == 0 {
            self.directory.remove(at);
            self.directory.settle(at.node, at.node);
        } else {
            self.directory.refresh(at);
        }
        if count <= Self::MERGED {
            self.mend(base);
        }
    }

    /// Puts an extent where there is none.
    fn insert(&mut self, extent: Extent) {
        self.len += 1;
        loop {
            let at = self.directory.locate(extent.lba);
            let Some((at, leaf)) = at.and_then(|at| Some((at, self.directory.leaf_mut(at)?))) else {
                self.directory.insert(None, leaf_of(extent));
                return;
            };
            let slot = leaf.before(extent.lba);
            let near = leaf.reaches(extent.lba);
            if near && leaf.count() < N {
                leaf.insert(slot, extent);
                if slot == 0 {
                    self.directory.refresh(at);
                }
                return;
            }
            // A volume that is written in order fills its leaves.
            let last = slot == N && self.directory.after(at).is_none();
            if !near || last {
                let behind = if slot == 0 { self.directory.before(at) } else { Some(at) };
                self.directory.insert(behind, leaf_of(extent));
                self.mend(extent.lba);
                return;
            }
            self.make_room(at);
        }
    }
}

fn leaf_of<const N: usize>(extent: Extent) -> Box<Leaf<N>> {
    let mut leaf = Leaf::new();
    leaf.fill(&[extent]);
    leaf
}
