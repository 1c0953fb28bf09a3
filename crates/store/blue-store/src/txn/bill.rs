//! The bill of a transaction: what it brings to the metadata, told before it happens.
//!
//! A transaction has a bound for all that it says itself, and none for what it repeats: a clone has the omap and the map of its source, and a
//! head is written with all of its attributes.
//!
//! # Invariants
//! - BLU-META-2: no transaction brings more than a batch may have, and no object gets more attributes than one value may have. So all that is
//!   acknowledged can be read back, in steps of bounded length.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;

use super::plan;
use crate::error::{BlueError, BlueResult};
use crate::format::object::Head;
use crate::ids::ObjectId;
use crate::map::{Extents, needed_by_blob};
use crate::object::Object;
use crate::transaction::{ATTRIBUTES_MAX, Operation};

/// Bytes of a change's own, beside what it brings.
const EACH: u64 = 128;

/// Bytes of a pair of an omap in a batch, beside key and value.
const PAIR: u64 = 32;

/// Values that have a shard's blobs when it is cloned: the shared blobs, and the shard in both objects.
const SHARERS: u64 = 3;

/// Bytes that a transaction brings to the metadata, about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bill {
    /// Those that are promised to it, ample; zero if all it does is to remove.
    pub(super) room: u64,
    /// Those of its batch.
    pub(super) batch: u64,
}

/// Lengths of an object's metadata, as a transaction goes on.
#[derive(Clone, Debug, Default)]
struct Sketch {
    /// Of each attribute's value.
    attributes: BTreeMap<Vec<u8>, usize>,
    /// Of the omap, if it is known.
    omap: u64,
    /// Of the extent map, if it is known.
    map: u64,
}

impl Sketch {
    fn of(head: &Head, omap: Option<&Vec<(Bytes, Bytes)>>) -> Self {
        let attributes = head.attributes.iter().map(|(name, value)| (name.clone(), value.len())).collect();
        let pair = |(key, value): &(Bytes, Bytes)| (key.len() + value.len()) as u64 + PAIR;
        let omap = omap.map_or(0, |pairs| pairs.iter().map(pair).sum());
        Self { attributes, omap, map: 0 }
    }

    fn attribute_bytes(&self) -> usize {
        self.attributes.iter().map(|(name, length)| name.len() + length).sum()
    }

    /// An attribute has another value. One that grows, or is new, keeps the bound; what an object has already may be more.
    fn set(&mut self, id: &ObjectId, name: &[u8], length: usize) -> BlueResult<()> {
        let old = self.attributes.insert(name.to_vec(), length);
        let bytes = self.attribute_bytes();
        if bytes > ATTRIBUTES_MAX && old.is_none_or(|old| old < length) {
            return Err(BlueError::invalid(format!(
                "the attributes of object {id} would have {bytes} bytes: {ATTRIBUTES_MAX} at most"
            )));
        }
        Ok(())
    }
}

/// Bytes of a shard of an extent map that is cloned, about.
fn map_bytes(extents: &Extents) -> u64 {
    let blobs = needed_by_blob(extents).into_iter();
    let blobs = blobs.map(|(blob, _)| 40 + 4 * blob.checks.len() + 12 * blob.state.borrow().places.len());
    (24 * extents.iter().count() + blobs.sum::<usize>()) as u64
}

/// Goes through operations that were checked; `objects` has all theirs, and `omaps` those of clones' sources.
pub(super) fn bill(
    operations: &[Operation],
    objects: &BTreeMap<ObjectId, Rc<Object>>,
    omaps: &BTreeMap<u64, Vec<(Bytes, Bytes)>>,
    small: u32,
) -> BlueResult<Bill> {
    let sources: BTreeSet<&ObjectId> = operations.iter().filter_map(Operation::source).collect();
    let mut sketches = BTreeMap::new();
    for (id, object) in objects {
        let state = object.state.borrow();
        let sketch = state.head.as_ref().map(|head| Sketch::of(head, omaps.get(&head.number)));
        let mut sketch = sketch.unwrap_or_default();
        if sources.contains(id) {
            sketch.map = state.shards.values().map(|slot| map_bytes(&slot.extents)).sum();
        }
        sketches.insert(id, sketch);
    }
    let (mut said, mut repeated) = (0, 0);
    for operation in operations {
        let source = operation.source().and_then(|from| sketches.get(from)).cloned().unwrap_or_default();
        let id = operation.target();
        let Some(sketch) = sketches.get_mut(id) else { continue };
        said += EACH;
        match operation {
            Operation::Write { data, .. } | Operation::Append { data, .. } => {
                let length = data.len() as u64;
                sketch.map += EACH + length / 256;
                said += length / 256 + if length < u64::from(small) { length } else { 0 };
            }
            Operation::SetAttribute { name, value, .. } => sketch.set(id, name, value.len())?,
            Operation::RemoveAttribute { name, .. } => drop(sketch.attributes.remove(name)),
            Operation::OmapSet { key, value, .. } => {
                let bytes = (key.len() + value.len()) as u64 + PAIR;
                sketch.omap += bytes;
                said += bytes;
            }
            Operation::OmapClear(_) => sketch.omap = 0,
            Operation::Remove(_) => *sketch = Sketch::default(),
            Operation::Clone { .. } => {
                repeated += source.omap + source.map * SHARERS;
                *sketch = source;
            }
            Operation::CloneRange { .. } => {
                repeated += source.map * SHARERS;
                sketch.map += source.map;
            }
            _ => {}
        }
    }
    repeated += sketches.values().map(|sketch| sketch.attribute_bytes() as u64).sum::<u64>();
    let room = match plan::metadata(operations, small) {
        0 => 0,
        bytes => bytes + repeated,
    };
    Ok(Bill { room, batch: said + repeated })
}

impl Bill {
    /// Fails for a transaction that brings more than a batch may have. (BLU-META-2)
    pub(super) fn check(self, most: u64) -> BlueResult<Self> {
        if self.batch <= most {
            return Ok(self);
        }
        let bytes = self.batch;
        Err(BlueError::invalid(format!(
            "the transaction brings {bytes} bytes to the metadata, with all that clones repeat: {most} at most"
        )))
    }
}
