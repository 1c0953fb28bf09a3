//! Blocks that copies of deferred bytes may take: clones share bytes that are in zones, and copy those that are not. (BLU-ROOM-1)
//!
//! If many bytes are deferred already, copies are written to zones, each extent to blocks of its own.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use crate::blob::BLOCK;
use crate::ids::ObjectId;
use crate::object::Object;
use crate::transaction::Operation;

/// Blocks that a copy of so many bytes takes at most: at another place, they may be in two shards.
fn of_copy(length: u64) -> u64 {
    length.div_ceil(u64::from(BLOCK)) + 1
}

/// Blocks that copies of the deferred bytes of an object's range take at most. All of the object is in memory.
fn of_object(object: &Object, range: &Range<u64>) -> u64 {
    let state = object.state.borrow();
    let extents = state.shards.values().flat_map(|slot| slot.extents.iter());
    let deferred = extents.filter(|extent| extent.blob.state.borrow().deferred.is_some());
    let parts = deferred.map(|extent| {
        let (start, end) = (u64::from(extent.at).max(range.start), u64::from(extent.end()).min(range.end));
        if start < end { of_copy(end - start) } else { 0 }
    });
    parts.sum()
}

/// Blocks that the clones of a transaction may take for copies. `small` is the length from which on writes are not deferred.
pub(super) fn copied(operations: &[Operation], objects: &BTreeMap<ObjectId, Rc<Object>>, small: u32) -> u64 {
    // Of each object that an operation has changed, the blocks that a copy of its deferred bytes takes at most.
    let mut changed: BTreeMap<&ObjectId, u64> = BTreeMap::new();
    let mut all = 0_u64;
    for operation in operations {
        let before = |changed: &BTreeMap<&ObjectId, u64>, id: &ObjectId, range: Range<u64>| {
            let found = || objects.get(id).map_or(0, |object| of_object(object, &range));
            changed.get(id).copied().unwrap_or_else(found)
        };
        let target = operation.target();
        let after = match operation {
            Operation::Write { data, .. } | Operation::Append { data, .. } => {
                let length = data.len() as u64;
                // In two shards, the new bytes are two extents; and one that was there before may be cut in two.
                let new = if length < u64::from(small) { of_copy(length) + 2 } else { 0 };
                before(&changed, target, 0..u64::MAX).saturating_add(new + 2)
            }
            Operation::Zero { .. } => before(&changed, target, 0..u64::MAX).saturating_add(2),
            Operation::Remove(_) => 0,
            Operation::Clone { from, .. } => {
                let copies = before(&changed, from, 0..u64::MAX);
                all = all.saturating_add(copies);
                copies
            }
            Operation::CloneRange { from, offset, length, .. } => {
                let copies = before(&changed, from, *offset..offset.saturating_add(*length));
                all = all.saturating_add(copies);
                // Each copy may be in two shards, which are two extents.
                before(&changed, target, 0..u64::MAX).saturating_add(copies.saturating_mul(2) + 2)
            }
            _ => continue,
        };
        changed.insert(target, after);
    }
    all
}
