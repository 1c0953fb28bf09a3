//! The chunk metadata table: every chunk by id, in little memory. (SMRstore, section 5.3, Figure 11.)
//!
//! # Invariants
//! - CS-TAB-1: a handle stays the same chunk's until that chunk is removed; `birth` tells two lives of an id apart.

use shingle_base::ChunkId;

use crate::index::id_order::IdOrder;
use crate::index::{Chunk, Handle};

/// Chunks in segments that never move, so that growth copies nothing and wastes less than a segment.
const SEGMENT: usize = 128;

/// All chunks.
#[derive(Default)]
pub(crate) struct ChunkTable {
    order: IdOrder,
    segments: Vec<Vec<Option<Chunk>>>,
    free: Vec<Handle>,
}

impl ChunkTable {
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn find(&self, id: ChunkId) -> Option<Handle> {
        self.order.find(id, id_of(&self.segments))
    }

    /// The chunk of a handle, unless it is gone.
    pub(crate) fn get(&self, handle: Handle) -> Option<&Chunk> {
        self.segments.get(handle as usize / SEGMENT)?.get(handle as usize % SEGMENT)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut Chunk> {
        self.segments.get_mut(handle as usize / SEGMENT)?.get_mut(handle as usize % SEGMENT)?.as_mut()
    }

    /// Adds a chunk, whose id must be new.
    pub(crate) fn insert(&mut self, chunk: Chunk) -> Handle {
        let id = chunk.id;
        let handle = match self.free.pop() {
            Some(handle) => {
                self.segments[handle as usize / SEGMENT][handle as usize % SEGMENT] = Some(chunk);
                handle
            }
            None => {
                if self.segments.last().is_none_or(|segment| segment.len() == SEGMENT) {
                    self.segments.push(Vec::with_capacity(SEGMENT));
                }
                let segment = self.segments.len() - 1;
                self.segments[segment].push(Some(chunk));
                (segment * SEGMENT + self.segments[segment].len() - 1) as Handle
            }
        };
        let new = self.order.insert(id, handle, id_of(&self.segments));
        debug_assert!(new, "CS-TAB-1");
        handle
    }

    /// Removes a chunk and returns what it was.
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<Chunk> {
        let id = self.get(handle)?.id;
        self.order.remove(id, id_of(&self.segments));
        let slot = self.segments.get_mut(handle as usize / SEGMENT)?.get_mut(handle as usize % SEGMENT)?;
        let chunk = slot.take()?;
        self.free.push(handle);
        Some(chunk)
    }

    /// Chunks with ids above `after`, by id.
    pub(crate) fn after(&self, after: Option<ChunkId>) -> impl Iterator<Item = (Handle, &Chunk)> {
        let handles = self.order.after(after, id_of(&self.segments));
        handles.filter_map(|handle| Some((handle, self.get(handle)?)))
    }

    /// Bytes of memory: of the chunks themselves, and of what finds them by id.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let slots: usize = self.segments.iter().map(Vec::capacity).sum();
        let lists = self.segments.capacity() * size_of::<Vec<Option<Chunk>>>();
        let free = self.free.capacity() * size_of::<Handle>();
        (slots * size_of::<Option<Chunk>>() + lists + free, self.order.bytes())
    }

    /// All handles, by id.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.order.after(None, id_of(&self.segments)).collect()
    }
}

/// Says the id of a chunk in the table.
fn id_of(segments: &[Vec<Option<Chunk>>]) -> impl Fn(Handle) -> ChunkId {
    |handle| {
        let slot = segments.get(handle as usize / SEGMENT).and_then(|segment| segment.get(handle as usize % SEGMENT));
        // A handle in the order is in the table.
        slot.and_then(Option::as_ref).map_or(ChunkId([0; ChunkId::SIZE]), |chunk| chunk.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Stream;

    #[test]
    fn chunks_are_found_by_id_and_listed_in_order() {
        let mut table = ChunkTable::default();
        let handles: Vec<_> = (0..3000u64)
            .map(|number| {
                let id = ChunkId::from_u64(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                (id, table.insert(Chunk::new(id, Stream::Data, number)))
            })
            .collect();
        for &(id, handle) in &handles {
            assert_eq!(table.find(id), Some(handle));
        }
        let listed: Vec<_> = table.after(None).map(|(_, chunk)| chunk.id).collect();
        assert!(listed.is_sorted() && listed.len() == 3000);
        let (id, handle) = handles[1500];
        assert_eq!(table.remove(handle).unwrap().id, id);
        assert!(table.get(handle).is_none() && table.find(id).is_none() && table.remove(handle).is_none());
        assert_eq!(table.insert(Chunk::new(id, Stream::Gc, 9)), handle, "the handle is used again");
        assert_eq!(table.after(Some(listed[10])).next().unwrap().1.id, listed[11]);
    }
}
