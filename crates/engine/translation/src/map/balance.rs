//! Leaves that are too full or too empty: their extents are spread anew over them and their neighbours.

use super::ExtentMap;
use super::directory::At;
use super::leaf::Leaf;

/// Leaves that share what is too much for one of them. If all are full, one is added, so they are four fifths full then:
/// 15 B an extent. (Two that become three would take 18 B.)
const SHARING: usize = 4;

impl<const N: usize, const D: usize> ExtentMap<N, D> {
    /// Extents of a dense leaf: room is left for some more, so that the next one does not spread it again.
    pub(super) const DENSE: usize = N - 1 - N / 16;

    /// Two neighbours become one leaf if they have no more extents than this. (TL-MAP-4)
    pub(super) const MERGED: usize = N * 3 / 4;

    /// Makes room in a full leaf for an extent: by way of a neighbour that has some, else of several, else in a new leaf.
    pub(super) fn make_room(&mut self, at: At) {
        let first = self.directory.before(at).unwrap_or(at);
        for (first, leaves) in [(first, 2), (at, 2), (first, SHARING)] {
            let window = self.window(first, leaves);
            let each = self.total(&window).div_ceil(window.len());
            if each <= Self::DENSE {
                return self.share(&window, each);
            }
        }
        let window = self.window(first, SHARING);
        self.share(&window, self.total(&window).div_ceil(window.len() + 1));
    }

    /// Spreads the extents of neighbours. Some may be few enough then to be merged with others: those at the ends with leaves beside them, and
    /// those between, where extents that are too far apart made one end early.
    fn share(&mut self, window: &[At], each: usize) {
        self.spread(window, each);
        let ends = self.scratch.first().zip(self.scratch.last()).map(|(first, last)| (first.lba, last.lba));
        self.scratch.clear();
        let Some((first, last)) = ends else { return };
        let leaves = self.directory.locate(first).map(|at| self.window(at, 2 * SHARING + 2)).unwrap_or_default();
        let bases = leaves.into_iter().filter_map(|at| self.directory.leaf(at)).map(|leaf| leaf.base());
        let bases: Vec<u64> = bases.take_while(|base| *base <= last).collect();
        bases.into_iter().for_each(|base| self.mend(base));
    }

    /// Merges the leaf at `lba` with its neighbours as long as they are few enough.
    pub(super) fn mend(&mut self, lba: u64) {
        while let Some(at) = self.directory.locate(lba) {
            let before = self.directory.before(at).filter(|before| self.would_merge(*before, at));
            let after = || self.directory.after(at).filter(|after| self.would_merge(at, *after));
            let pair = before.map(|before| [before, at]).or_else(|| after().map(|after| [at, after]));
            let Some(pair) = pair else { return };
            self.spread(&pair, N);
            self.scratch.clear();
        }
    }

    /// Two neighbours are few enough, and near enough, to be one leaf.
    pub(super) fn would_merge(&self, left: At, right: At) -> bool {
        let (Some(left), Some(right)) = (self.directory.leaf(left), self.directory.leaf(right)) else { return false };
        left.count() + right.count() <= Self::MERGED && right.last().is_none_or(|last| left.reaches(last.lba))
    }

    /// Up to `leaves` leaves from `first` on.
    pub(super) fn window(&self, first: At, leaves: usize) -> Vec<At> {
        std::iter::successors(Some(first), |at| self.directory.after(*at)).take(leaves).collect()
    }

    /// Extents in some leaves.
    pub(super) fn total(&self, window: &[At]) -> usize {
        window.iter().filter_map(|at| self.directory.leaf(*at)).map(Leaf::count).sum()
    }

    /// Spreads the extents of neighbouring leaves so that each has `each` of them, or as many as are near enough; takes away
    /// leaves that are left over, and adds those that are missing. Leaves the extents in `scratch`.
    pub(super) fn spread(&mut self, window: &[At], each: usize) {
        let mut extents = std::mem::take(&mut self.scratch);
        extents.clear();
        extents.extend(window.iter().filter_map(|at| self.directory.leaf(*at)).flat_map(Leaf::extents));
        let (mut rest, mut old) = (&extents[..], window.iter());
        let mut behind = window.last().copied();
        while let Some(first) = rest.first() {
            let most = &rest[..each.clamp(1, rest.len())];
            let near = most.partition_point(|extent| extent.lba - first.lba <= u64::from(u32::MAX));
            let (own, others) = rest.split_at(near);
            rest = others;
            if let Some(at) = old.next() {
                if let Some(leaf) = self.directory.leaf_mut(*at) {
                    leaf.fill(own);
                }
                self.directory.refresh(*at);
            } else {
                let mut leaf = Leaf::new();
                leaf.fill(own);
                behind = Some(self.directory.insert(behind, leaf));
            }
        }
        let left_over = old.as_slice();
        for at in left_over.iter().rev() {
            self.directory.remove(*at);
        }
        if let [first, .., last] | [first @ last] = left_over {
            self.directory.settle(first.node, last.node);
        }
        self.scratch = extents;
    }
}
