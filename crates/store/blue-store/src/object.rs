//! Objects in memory: the head, and the shards of the extent map that were needed so far.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::format::object::Head;
use crate::ids::ObjectId;
use crate::map::{Extent, Extents};
use crate::two_queue::MayLeave;

/// An object, or the knowledge that there is none of its name. It stays in memory as long as somebody has it, and every transaction that
/// is under way has those that it changes.
pub(crate) struct Object {
    pub(crate) id: ObjectId,
    pub(crate) state: RefCell<ObjectState>,
}

/// Its state after all transactions that have been applied.
#[derive(Default)]
pub(crate) struct ObjectState {
    /// `None` if there is no such object.
    pub(crate) head: Option<Head>,
    pub(crate) shards: BTreeMap<u32, Slot>,
    /// There are no shards but those here.
    pub(crate) whole: bool,
}

/// A shard of the extent map.
#[derive(Clone, Default)]
pub(crate) struct Slot {
    pub(crate) extents: Rc<Extents>,
    /// Zones with blocks of its own blobs, as the metadata have them in namespace `G`.
    pub(crate) held: BTreeSet<u32>,
}

impl MayLeave for Rc<Object> {
    fn may_leave(&self) -> bool {
        Rc::strong_count(self) == 1
    }
}

impl ObjectState {
    /// True if the shard is in memory, or known not to be anywhere.
    pub(crate) fn knows(&self, shard: u32) -> bool {
        self.whole || self.shards.contains_key(&shard)
    }

    /// Extents of a shard that it knows.
    pub(crate) fn extents(&self, shard: u32) -> Rc<Extents> {
        debug_assert!(self.knows(shard), "shard {shard} was not loaded");
        self.shards.get(&shard).map(|slot| slot.extents.clone()).unwrap_or_default()
    }

    /// Bytes of memory, about.
    pub(crate) fn weight(&self) -> u64 {
        let head = self.head.as_ref().map_or(0, |head| {
            head.attributes.iter().map(|(name, value)| name.len() + value.len() + 100).sum::<usize>()
        });
        // Other bytes are here only until they are written.
        let bytes = |extent: &Extent| if extent.is_deferred() { extent.blob.stored as usize } else { 0 };
        let of = |extents: &Extents| extents.iter().map(|extent| 250 + bytes(extent)).sum::<usize>() + 100;
        let shards: usize = self.shards.values().map(|slot| of(&slot.extents)).sum();
        (head + shards + 400) as u64
    }
}

/// Bytes of extents as they are stored, about.
pub(crate) fn stored_bytes<'a>(extents: impl Iterator<Item = &'a Rc<Extents>>) -> usize {
    let of = |extents: &Rc<Extents>| extents.iter().map(|extent| 30 + extent.blob.checks.len() * 4).sum::<usize>();
    extents.map(of).sum()
}
