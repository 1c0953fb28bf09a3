//! The map of a persistent cache: extents of the host's blocks, and where each lies. (Skylight, section 2.2: exception map.)

use std::collections::BTreeMap;
use std::ops::Range;

/// An extent in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// First block, as the host counts.
    pub(crate) start: u64,
    /// Its length.
    pub(crate) blocks: u64,
    /// First block in the cache.
    pub(crate) at: u64,
    /// Part of the cache that it belongs to: a journal entry, a cache band.
    pub(crate) owner: u64,
}

impl Extent {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.blocks
    }

    /// The part of it that lies in `range`, which it overlaps.
    fn within(&self, range: &Range<u64>) -> Self {
        let start = self.start.max(range.start);
        let end = self.end().min(range.end);
        Self { start, blocks: end - start, at: self.at + (start - self.start), owner: self.owner }
    }
}

/// Extents that do not overlap, by their start.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtentMap(BTreeMap<u64, Extent>);

impl ExtentMap {
    /// Number of extents.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parts of extents in `range`, in order.
    pub(crate) fn within(&self, range: &Range<u64>) -> Vec<Extent> {
        let before = self.0.range(..range.start).next_back().map(|(_, extent)| extent);
        let first = before.filter(|extent| extent.end() > range.start);
        let others = self.0.range(range.clone()).map(|(_, extent)| extent);
        first.into_iter().chain(others).map(|extent| extent.within(range)).collect()
    }

    /// Takes all of `range` out; the parts that were there.
    pub(crate) fn remove(&mut self, range: &Range<u64>) -> Vec<Extent> {
        let removed = self.within(range);
        for part in &removed {
            let at = if self.0.contains_key(&part.start) {
                Some(part.start)
            } else {
                self.0.range(..part.start).next_back().map(|(&start, _)| start)
            };
            let Some(whole) = at.and_then(|at| self.0.remove(&at)) else { continue };
            for rest in [whole.start..part.start, part.end()..whole.end()] {
                if !rest.is_empty() {
                    self.0.insert(rest.start, whole.within(&rest));
                }
            }
        }
        removed
    }

    /// Puts an extent in; the parts of others that it takes the place of.
    pub(crate) fn insert(&mut self, extent: Extent) -> Vec<Extent> {
        let removed = self.remove(&(extent.start..extent.end()));
        self.0.insert(extent.start, extent);
        removed
    }
}

/// The stretches of `range` that no extent covers; extents are in order and within it.
pub(crate) fn gaps(range: &Range<u64>, extents: &[Extent]) -> Vec<Range<u64>> {
    let starts = std::iter::once(range.start).chain(extents.iter().map(Extent::end));
    let ends = extents.iter().map(|extent| extent.start).chain([range.end]);
    starts.zip(ends).map(|(from, to)| from..to).filter(|gap| !gap.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, blocks: u64, at: u64) -> Extent {
        Extent { start, blocks, at, owner: at }
    }

    #[test]
    fn a_new_extent_takes_the_place_of_parts_of_others() {
        let mut map = ExtentMap::default();
        assert_eq!(map.insert(extent(0, 10, 100)), []);
        assert_eq!(map.insert(extent(20, 10, 200)), []);
        let owner = 300;
        let removed = map.insert(Extent { start: 5, blocks: 20, at: 300, owner });
        assert_eq!(
            removed,
            [Extent { start: 5, blocks: 5, at: 105, owner: 100 }, Extent { start: 20, blocks: 5, at: 200, owner: 200 }]
        );
        let all = map.within(&(0..100));
        assert_eq!(
            all.iter().map(|part| (part.start, part.blocks, part.at)).collect::<Vec<_>>(),
            [(0, 5, 100), (5, 20, 300), (25, 5, 205)]
        );
        assert_eq!(gaps(&(0..40), &all).first(), Some(&(30..40)));
    }

    #[test]
    fn a_hole_in_an_extent_leaves_both_its_ends() {
        let mut map = ExtentMap::default();
        map.insert(extent(0, 30, 100));
        assert_eq!(map.remove(&(10..20)).len(), 1);
        let parts = map.within(&(0..30));
        assert_eq!(
            parts.iter().map(|part| (part.start, part.blocks, part.at)).collect::<Vec<_>>(),
            [(0, 10, 100), (20, 10, 120)]
        );
        assert_eq!(gaps(&(0..30), &parts).first(), Some(&(10..20)));
        assert_eq!(map.len(), 2);
    }

    /// Beside a map of single blocks.
    #[test]
    fn it_agrees_with_a_map_of_blocks() {
        let mut state = 1u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut map, mut blocks) = (ExtentMap::default(), BTreeMap::new());
        for step in 0..3000 {
            let (start, length) = (random(200), 1 + random(20));
            if random(4) == 0 {
                map.remove(&(start..start + length));
                blocks.retain(|block, _| !(start..start + length).contains(block));
            } else {
                map.insert(extent(start, length, step * 1000));
                blocks.extend((0..length).map(|offset| (start + offset, step * 1000 + offset)));
            }
            let found: BTreeMap<u64, u64> = map
                .within(&(0..300))
                .iter()
                .flat_map(|part| (0..part.blocks).map(|offset| (part.start + offset, part.at + offset)))
                .collect();
            assert_eq!(found, blocks, "step {step}");
        }
    }
}
