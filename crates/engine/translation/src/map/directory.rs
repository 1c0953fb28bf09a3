//! The leaves of a map in order, and the way to that of a sector: two levels of sorted first sectors.
//!
//! 10 million extents need 40,000 leaves and 100 nodes, so both levels stay in the processor's caches.

use super::leaf::Leaf;

/// Position of a leaf. Any change of the directory but [`Directory::refresh`] may move leaves behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) node: usize,
    pub(super) leaf: usize,
}

/// Up to `D` leaves.
#[derive(Clone, Debug)]
pub(super) struct Node<const N: usize> {
    /// First sector of each leaf.
    pub(super) firsts: Vec<u64>,
    pub(super) leaves: Vec<Box<Leaf<N>>>,
}

#[derive(Clone, Debug)]
pub(super) struct Directory<const N: usize, const D: usize> {
    /// First sector of each node.
    pub(super) firsts: Vec<u64>,
    pub(super) nodes: Vec<Node<N>>,
}

impl<const N: usize> Node<N> {
    fn new(room: usize) -> Self {
        Self { firsts: Vec::with_capacity(room), leaves: Vec::with_capacity(room) }
    }

    fn first(&self) -> u64 {
        self.firsts.first().copied().unwrap_or(0)
    }
}

impl<const N: usize, const D: usize> Directory<N, D> {
    /// Two neighbouring nodes become one if they have no more leaves than this. Each half of a full one has as many, so those that
    /// a split makes neighbours need no look.
    pub(super) const MERGED: usize = D / 2;

    pub(super) fn new() -> Self {
        const { assert!(D >= 4) };
        Self { firsts: Vec::new(), nodes: Vec::new() }
    }

    /// The leaf that a sector belongs to: the last one that begins at or before it, else the first one.
    pub(super) fn locate(&self, lba: u64) -> Option<At> {
        let node = self.firsts.partition_point(|first| *first <= lba).saturating_sub(1);
        let leaf = self.nodes.get(node)?.firsts.partition_point(|first| *first <= lba).saturating_sub(1);
        Some(At { node, leaf })
    }

    pub(super) fn leaf(&self, at: At) -> Option<&Leaf<N>> {
        Some(self.nodes.get(at.node)?.leaves.get(at.leaf)?)
    }

    pub(super) fn leaf_mut(&mut self, at: At) -> Option<&mut Leaf<N>> {
        Some(self.nodes.get_mut(at.node)?.leaves.get_mut(at.leaf)?)
    }

    pub(super) fn after(&self, at: At) -> Option<At> {
        let next = if at.leaf + 1 < self.nodes.get(at.node)?.leaves.len() {
            At { node: at.node, leaf: at.leaf + 1 }
        } else {
            At { node: at.node + 1, leaf: 0 }
        };
        (next.node < self.nodes.len()).then_some(next)
    }

    pub(super) fn before(&self, at: At) -> Option<At> {
        if let Some(leaf) = at.leaf.checked_sub(1) {
            return Some(At { node: at.node, leaf });
        }
        let node = at.node.checked_sub(1)?;
        Some(At { node, leaf: self.nodes.get(node)?.leaves.len() - 1 })
    }

    /// The last leaf.
    pub(super) fn last(&self) -> Option<At> {
        self.before(At { node: self.nodes.len(), leaf: 0 })
    }

    /// Takes note of the first sector of a leaf that has another one now.
    pub(super) fn refresh(&mut self, at: At) {
        let Some(node) = self.nodes.get_mut(at.node) else { return };
        let Some(leaf) = node.leaves.get(at.leaf) else { return };
        node.firsts[at.leaf] = leaf.base();
        self.firsts[at.node] = node.first();
    }

    /// Puts a leaf behind that at `behind`, or in front of all. Returns its position.
    pub(super) fn insert(&mut self, behind: Option<At>, leaf: Box<Leaf<N>>) -> At {
        let mut at = behind.map_or(At { node: 0, leaf: 0 }, |at| At { node: at.node, leaf: at.leaf + 1 });
        let full = self.nodes.get(at.node).is_some_and(|node| node.leaves.len() >= D);
        if full {
            self.split(at.node);
            if at.leaf > D / 2 {
                at = At { node: at.node + 1, leaf: at.leaf - D / 2 };
            }
        }
        if at.node == self.nodes.len() {
            self.nodes.push(Node::new(D));
            self.firsts.push(leaf.base());
        }
        let node = &mut self.nodes[at.node];
        node.firsts.insert(at.leaf, leaf.base());
        node.leaves.insert(at.leaf, leaf);
        self.firsts[at.node] = node.first();
        at
    }

    fn split(&mut self, node: usize) {
        let mut new = Node::new(D);
        let old = &mut self.nodes[node];
        new.firsts.extend(old.firsts.drain(D / 2..));
        new.leaves.extend(old.leaves.drain(D / 2..));
        self.firsts.insert(node + 1, new.first());
        self.nodes.insert(node + 1, new);
    }

    /// Takes a leaf out. Positions before it stay what they are; [`Self::settle`] must follow.
    pub(super) fn remove(&mut self, at: At) {
        let Some(node) = self.nodes.get_mut(at.node) else { return };
        node.firsts.remove(at.leaf);
        node.leaves.remove(at.leaf);
        if node.leaves.is_empty() {
            self.nodes.remove(at.node);
            self.firsts.remove(at.node);
        } else {
            self.firsts[at.node] = node.first();
        }
    }

    /// Merges nodes from `first` to `last`, out of which leaves were taken, with each other and their neighbours if they have few.
    pub(super) fn settle(&mut self, first: usize, last: usize) {
        // From the end, so that a node that has grown is compared with the one before it.
        for left in (first.saturating_sub(1)..(last + 1).min(self.nodes.len())).rev() {
            let [one, other] = [left, left + 1].map(|node| self.nodes.get(node).map_or(D, |node| node.leaves.len()));
            if one + other <= Self::MERGED {
                self.firsts.remove(left + 1);
                let right = self.nodes.remove(left + 1);
                self.nodes[left].firsts.extend(right.firsts);
                self.nodes[left].leaves.extend(right.leaves);
            }
        }
    }

    /// Bytes that are allocated for it and its leaves.
    pub(super) fn memory_bytes(&self) -> usize {
        let of_node = |node: &Node<N>| {
            node.firsts.capacity() * size_of::<u64>()
                + node.leaves.capacity() * size_of::<Box<Leaf<N>>>()
                + node.leaves.len() * size_of::<Leaf<N>>()
        };
        self.firsts.capacity() * size_of::<u64>()
            + self.nodes.capacity() * size_of::<Node<N>>()
            + self.nodes.iter().map(of_node).sum::<usize>()
    }
}
