//! The whole map against its invariants, for tests and for doubts.

use super::ExtentMap;
use super::directory::{At, Directory};
use super::extent::{Extent, LENGTH_MAX};

impl<const N: usize, const D: usize> ExtentMap<N, D> {
    /// Goes through the whole map.
    ///
    /// # Errors
    /// The invariant that does not hold: TL-MAP-1, TL-MAP-4, or one of the directory.
    pub fn check(&self) -> Result<(), &'static str> {
        self.check_directory()?;
        let mut count = 0;
        let mut before: Option<Extent> = None;
        for leaf in self.directory.nodes.iter().flat_map(|node| &node.leaves) {
            if leaf.get(0).is_none_or(|first| first.lba != leaf.base()) {
                return Err("a leaf is empty, or does not begin with its first extent");
            }
            for extent in leaf.extents() {
                if !(1..=LENGTH_MAX).contains(&extent.sectors) {
                    return Err("TL-MAP-1: an extent has no length");
                }
                if before.is_some_and(|before| before.end() > extent.lba) {
                    return Err("TL-MAP-1: extents overlap, or are out of order");
                }
                if before.is_some_and(|before| before.takes(&extent, self.stride)) {
                    return Err("TL-MAP-1: extents that continue each other are two");
                }
                before = Some(extent);
                count += 1;
            }
        }
        let mut at = Some(At { node: 0, leaf: 0 });
        while let Some(left) = at {
            at = self.directory.after(left);
            if at.is_some_and(|right| self.would_merge(left, right)) {
                return Err("TL-MAP-4: neighbouring leaves could be one");
            }
        }
        if count == self.len { Ok(()) } else { Err("the number of extents is wrong") }
    }

    fn check_directory(&self) -> Result<(), &'static str> {
        let nodes = &self.directory.nodes;
        let firsts = nodes.iter().map(|node| node.firsts.first().copied());
        if !firsts.eq(self.directory.firsts.iter().copied().map(Some)) {
            return Err("the directory does not know the first sectors of its nodes");
        }
        for node in nodes {
            if node.leaves.is_empty() || node.leaves.len() > D {
                return Err("a node is empty or too large");
            }
            if !node.leaves.iter().map(|leaf| leaf.base()).eq(node.firsts.iter().copied()) {
                return Err("a node does not know the first sectors of its leaves");
            }
        }
        let few = |pair: &[_]| matches!(pair, [_, _]) && pair.iter().sum::<usize>() <= Directory::<N, D>::MERGED;
        let sizes: Vec<usize> = nodes.iter().map(|node| node.leaves.len()).collect();
        if sizes.windows(2).any(few) { Err("neighbouring nodes could be one") } else { Ok(()) }
    }
}
