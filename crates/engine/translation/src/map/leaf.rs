//! A leaf of the map: some hundred extents in order, 12 B each and no pointer.
//!
//! Memory is what a lookup waits for, so it touches few cache lines, one after the other: that of the head, which says in which
//! group of distances the search ends, the two of that group, and the one that has length and place.

use std::ops::Range;

use super::extent::Extent;
use crate::place::Place;

/// Groups of a leaf but the first, which need a pivot: with it the head fills a cache line.
const PIVOTS: usize = 10;

/// Bits of a place; those above are the length.
const PLACE_BITS: u32 = 48;

/// Up to `N` extents in the order of their sectors.
///
/// Its first extent begins at `base`, unless it is empty; all others begin less than 2^32 sectors behind it.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Leaf<const N: usize> {
    base: u64,
    count: u16,
    /// The first distance of each group but the first; the largest number where there is no such group.
    pivots: [u32; PIVOTS],
    /// Sectors from `base` to the extent: its distance.
    delta: [u32; N],
    /// Length and place.
    value: [u64; N],
}

const _: () = assert!(size_of::<Leaf<336>>() == 4096);

impl<const N: usize> Leaf<N> {
    /// Distances of a group: two cache lines.
    const GROUP: usize = N.div_ceil(PIVOTS + 1).next_power_of_two();

    pub(super) fn new() -> Box<Self> {
        const { assert!(N >= 8 && N <= u16::MAX as usize) };
        Box::new(Self { base: 0, count: 0, pivots: [u32::MAX; PIVOTS], delta: [0; N], value: [0; N] })
    }

    /// Number of extents.
    pub(super) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// First sector of the first extent.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    pub(super) fn get(&self, slot: usize) -> Option<Extent> {
        if slot >= self.count() {
            return None;
        }
        let (lba, value) = (self.base + u64::from(self.delta[slot]), self.value[slot]);
        let place = Place::from_bits(value & Place::LOST.bits())?;
        Some(Extent { lba, sectors: (value >> PLACE_BITS) as u32, place })
    }

    pub(super) fn last(&self) -> Option<Extent> {
        self.get(self.count().checked_sub(1)?)
    }

    pub(super) fn extents(&self) -> impl Iterator<Item = Extent> {
        (0..self.count()).filter_map(|slot| self.get(slot))
    }

    /// Number of extents that begin before `lba`.
    pub(super) fn before(&self, lba: u64) -> usize {
        // Those that begin at or before the sector in front of it.
        lba.checked_sub(1).map_or(0, |last| self.upto(last))
    }

    /// Number of extents that begin at or before `lba`.
    pub(super) fn upto(&self, lba: u64) -> usize {
        let Some(distance) = lba.checked_sub(self.base) else { return 0 };
        let distance = u32::try_from(distance).unwrap_or(u32::MAX);
        // Counted without a jump that depends on what is found, the numbers of a group are looked at together.
        let upto = |deltas: &[u32]| deltas.iter().map(|delta| usize::from(*delta <= distance)).sum::<usize>();
        // Pivots of groups that are not there count if the distance is the largest number.
        let start = (upto(&self.pivots) * Self::GROUP).min(self.count());
        let end = (start + Self::GROUP).min(self.count());
        start + upto(&self.delta[start..end])
    }

    /// An extent that begins at `lba` is near enough to the others.
    pub(super) fn reaches(&self, lba: u64) -> bool {
        let Some(last) = self.last() else { return true };
        let distance = lba.max(last.lba) - lba.min(self.base);
        distance <= u64::from(u32::MAX)
    }

    /// Puts an extent at `slot`, between those that are before and behind it. There must be room, and [`Self::reaches`] be true.
    pub(super) fn insert(&mut self, slot: usize, extent: Extent) {
        let count = self.count();
        if slot == 0 {
            self.rebase(extent.lba);
        }
        self.delta.copy_within(slot..count, slot + 1);
        self.value.copy_within(slot..count, slot + 1);
        self.count += 1;
        self.put(slot, extent);
        self.index(slot);
    }

    /// Puts an extent in the place of that at `slot`; it must lie between the same two others.
    pub(super) fn set(&mut self, slot: usize, extent: Extent) {
        if slot == 0 {
            self.rebase(extent.lba);
        }
        self.put(slot, extent);
        self.index(slot);
    }

    pub(super) fn remove(&mut self, slots: Range<usize>) {
        let count = self.count();
        self.delta.copy_within(slots.end..count, slots.start);
        self.value.copy_within(slots.end..count, slots.start);
        self.count -= slots.len() as u16;
        if slots.start == 0 {
            self.rebase(self.base + u64::from(self.delta[0]));
        }
        self.index(slots.start);
    }

    /// Makes `extents` its only ones.
    pub(super) fn fill(&mut self, extents: &[Extent]) {
        self.count = extents.len() as u16;
        self.base = extents.first().map_or(0, |first| first.lba);
        for (slot, extent) in extents.iter().enumerate() {
            self.put(slot, *extent);
        }
        self.index(0);
    }

    fn put(&mut self, slot: usize, extent: Extent) {
        self.delta[slot] = (extent.lba - self.base) as u32;
        self.value[slot] = u64::from(extent.sectors) << PLACE_BITS | extent.place.bits();
    }

    /// Sets the pivots of groups that begin at `slot` or behind it.
    fn index(&mut self, slot: usize) {
        for number in slot.div_ceil(Self::GROUP).max(1)..=PIVOTS {
            let first = number * Self::GROUP;
            self.pivots[number - 1] = if first < self.count() { self.delta[first] } else { u32::MAX };
        }
    }

    /// Counts from another sector on; the distance of an extent that goes away or is set anew may wrap meanwhile.
    fn rebase(&mut self, base: u64) {
        let shift = self.base.wrapping_sub(base) as u32;
        let count = self.count();
        for delta in &mut self.delta[..count] {
            *delta = delta.wrapping_add(shift);
        }
        self.base = base;
    }
}
