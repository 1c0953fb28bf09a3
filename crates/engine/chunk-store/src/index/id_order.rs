//! Chunks in the order of their ids: handles alone, since the table has the ids. A map with ids as keys would hold each
//! a second time, in nodes half full: some 60 bytes a chunk where this takes 5.
//!
//! # Invariants
//! - CS-ORD-1: leaves are never empty; ids rise within a leaf and from leaf to leaf.
//! - CS-ORD-2: no id of a leaf is below its `least`, and none of an earlier leaf is not. (The first leaf's counts for
//!   nothing.)

use shingle_base::ChunkId;

use crate::index::Handle;

/// Handles in a leaf at most.
const LEAF: usize = 128;

#[derive(Clone, Debug)]
struct Leaf {
    least: ChunkId,
    handles: Vec<Handle>,
}

/// Handles in the order of the ids that `id_of` gives for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdOrder {
    leaves: Vec<Leaf>,
    len: usize,
}

impl IdOrder {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The leaf that has `id`, if any has.
    fn leaf_of(&self, id: ChunkId) -> usize {
        self.leaves.partition_point(|leaf| leaf.least <= id).saturating_sub(1)
    }

    pub(crate) fn find(&self, id: ChunkId, id_of: impl Fn(Handle) -> ChunkId) -> Option<Handle> {
        let handles = &self.leaves.get(self.leaf_of(id))?.handles;
        let at = handles.binary_search_by(|&handle| id_of(handle).cmp(&id)).ok()?;
        handles.get(at).copied()
    }

    /// Adds a handle; returns whether its id is new, and changes nothing if it is not.
    pub(crate) fn insert(&mut self, id: ChunkId, handle: Handle, id_of: impl Fn(Handle) -> ChunkId) -> bool {
        let number = self.leaf_of(id);
        let Some(leaf) = self.leaves.get_mut(number) else {
            self.leaves.push(Leaf { least: id, handles: vec![handle] });
            self.len = 1;
            return true;
        };
        let Err(at) = leaf.handles.binary_search_by(|&handle| id_of(handle).cmp(&id)) else { return false };
        self.len += 1;
        if leaf.handles.len() < LEAF {
            grow(&mut leaf.handles);
            leaf.handles.insert(at, handle);
            return true;
        }
        // Ids often rise: a leaf that is added to at its end stays full.
        let half = if at == LEAF { LEAF } else { LEAF / 2 };
        let mut later = leaf.handles.split_off(half);
        if at < half {
            leaf.handles.insert(at, handle);
        } else {
            later.insert(at - half, handle);
        }
        leaf.handles.shrink_to_fit();
        let least = later.first().map_or(id, |&first| if first == handle { id } else { id_of(first) });
        if self.leaves.len() == self.leaves.capacity() {
            self.leaves.reserve_exact((self.leaves.len() / 8).max(4));
        }
        self.leaves.insert(number + 1, Leaf { least, handles: later });
        true
    }

    /// Takes a handle out.
    pub(crate) fn remove(&mut self, id: ChunkId, id_of: impl Fn(Handle) -> ChunkId) {
        let number = self.leaf_of(id);
        let Some(leaf) = self.leaves.get_mut(number) else { return };
        let Ok(at) = leaf.handles.binary_search_by(|&handle| id_of(handle).cmp(&id)) else { return };
        leaf.handles.remove(at);
        self.len -= 1;
        let left = leaf.handles.len();
        if left == 0 {
            self.leaves.remove(number);
        } else if left < LEAF / 4 {
            self.join(number);
        }
    }

    /// Makes one leaf of a sparse one and the next, if they fit.
    fn join(&mut self, number: usize) {
        if self.leaves.get(number + 1).is_none_or(|next| next.handles.len() > LEAF / 2) {
            return;
        }
        let next = self.leaves.remove(number + 1);
        if let Some(leaf) = self.leaves.get_mut(number) {
            leaf.handles.reserve_exact(next.handles.len());
            leaf.handles.extend(next.handles);
        }
    }

    /// Handles with ids above `after`, by id.
    pub(crate) fn after(
        &self,
        after: Option<ChunkId>,
        id_of: impl Fn(Handle) -> ChunkId,
    ) -> impl Iterator<Item = Handle> {
        let number = after.map_or(0, |id| self.leaf_of(id));
        let leaves = self.leaves.get(number..).unwrap_or_default();
        let skip = match (after, leaves.first()) {
            (Some(id), Some(leaf)) => leaf.handles.partition_point(|&handle| id_of(handle) <= id),
            _ => 0,
        };
        leaves.iter().flat_map(|leaf| leaf.handles.iter().copied()).skip(skip)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let handles: usize = self.leaves.iter().map(|leaf| leaf.handles.capacity()).sum();
        self.leaves.capacity() * size_of::<Leaf>() + handles * size_of::<Handle>()
    }
}

/// Makes room for one more, up to a full leaf.
fn grow(handles: &mut Vec<Handle>) {
    if handles.len() == handles.capacity() {
        handles.reserve_exact((handles.len() / 4).max(4).min(LEAF - handles.len()));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use shingle_sim::Random;

    /// CS-ORD-1 and CS-ORD-2, and the same answers as a map.
    fn check(order: &IdOrder, map: &BTreeMap<ChunkId, Handle>, ids: &[ChunkId]) {
        let id_of = |handle: Handle| ids[handle as usize];
        assert_eq!(order.len(), map.len());
        assert!(order.after(None, id_of).eq(map.values().copied()));
        for (number, leaf) in order.leaves.iter().enumerate() {
            assert!(!leaf.handles.is_empty() && leaf.handles.len() <= LEAF, "CS-ORD-1");
            assert!(number == 0 || leaf.least <= id_of(leaf.handles[0]), "CS-ORD-2");
            let next = order.leaves.get(number + 1).map(|next| next.least);
            assert!(next.is_none_or(|next| id_of(leaf.handles[leaf.handles.len() - 1]) < next), "CS-ORD-2");
        }
    }

    #[test]
    fn it_does_what_a_map_does() {
        for seed in 1..=20 {
            let mut random = Random::new(seed);
            let ids: Vec<ChunkId> = match seed % 4 {
                0 => (0..3000).map(ChunkId::from_u64).collect(),
                1 => (0..3000).rev().map(ChunkId::from_u64).collect(),
                2 => (0..3000).map(|number| ChunkId::from_u64((number % 7) << 32 | number)).collect(),
                _ => (0..3000u64).map(|number| ChunkId::from_u64(number.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect(),
            };
            let id_of = |handle: Handle| ids[handle as usize];
            let (mut order, mut map) = (IdOrder::default(), BTreeMap::new());
            for phase in 0..6 {
                let keep = [0.95, 0.1, 0.6, 0.0, 0.9, 0.02][phase];
                for (handle, &id) in ids.iter().enumerate() {
                    let handle = handle as Handle;
                    if random.chance(keep) {
                        assert_eq!(order.insert(id, handle, id_of), map.insert(id, handle).is_none());
                    } else {
                        order.remove(id, id_of);
                        map.remove(&id);
                    }
                }
                check(&order, &map, &ids);
                for _ in 0..200 {
                    let id = ids[random.below(3000) as usize];
                    assert_eq!(order.find(id, id_of), map.get(&id).copied(), "seed {seed}");
                    use std::ops::Bound::{Excluded, Unbounded};
                    let expected = map.range((Excluded(id), Unbounded)).map(|(_, &handle)| handle).take(5);
                    assert!(order.after(Some(id), id_of).take(5).eq(expected), "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn it_takes_about_five_bytes_a_chunk() {
        for scramble in [1, 0x9E37_79B9_7F4A_7C15u64] {
            let ids: Vec<ChunkId> =
                (0..100_000u64).map(|number| ChunkId::from_u64(number.wrapping_mul(scramble))).collect();
            let mut order = IdOrder::default();
            for (handle, &id) in ids.iter().enumerate() {
                order.insert(id, handle as Handle, |handle| ids[handle as usize]);
            }
            let each = order.bytes() as f64 / ids.len() as f64;
            assert!(each < 6.5, "{each} bytes a chunk");
        }
    }
}
