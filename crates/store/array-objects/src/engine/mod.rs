//! The owner's state, shared by the tasks of its thread, and what all calls need.
//!
//! No borrow of a cell is held across an `await`: clippy's `await_holding_refcell_ref` holds that.

mod catalog;
mod counting;
mod counts;
mod doomed;
mod listing;
pub(crate) mod objects;
mod orphans;
mod purge;
mod readers;
mod reading;
pub(crate) mod run;
pub(crate) mod salvage;
pub(crate) mod survey;
mod uploads;
mod writers;
mod writing;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use shingle_array_store::{ArrayStore, ErrorKind, Object, Version};
use shingle_buckets::Names;
use shingle_runtime::Runtime;
use shingle_runtime::owner::Closing;
use shingle_store_api::{ObjectInfo, StoreResult, StoreUsage};

use self::counts::Counts;
use self::doomed::Purge;
use self::readers::Readers;
use self::writers::Writers;
use crate::errors::{from_array, malformed};
use crate::format::ObjectRecord;
use crate::names;
use crate::options::{ArrayFigures, Options};
use crate::places::Places;

/// State shared by an owner's tasks.
pub(crate) struct Core {
    pub(crate) rt: Runtime,
    pub(crate) store: ArrayStore,
    pub(crate) options: Options,
    names: Names,
    pub(crate) places: Arc<Places>,
    pub(crate) writers: Writers,
    pub(crate) readers: Readers,
    pub(crate) purge: Purge,
    /// Names of objects that were deleted while records that a loss took are looked for and restored: none of these is. (AO-ORPHAN-3)
    deleted: RefCell<Option<BTreeSet<Vec<u8>>>>,
    /// Uploads whose completion failed, and may have happened: an object may be made of their parts. (AO-UPL-3)
    half_ended: RefCell<BTreeSet<u64>>,
    counts: Counts,
    /// Blobs of this version and later ones were begun by calls that are remembered; older ones may be orphans.
    opened: Version,
    next: Cell<u64>,
    pub(crate) closing: Closing,
}

impl Core {
    pub(crate) fn new(
        rt: Runtime,
        store: ArrayStore,
        options: Options,
        names: Names,
        opened: Version,
        places: Arc<Places>,
    ) -> Rc<Self> {
        Rc::new(Self {
            rt,
            store,
            options,
            names,
            places,
            writers: Writers::default(),
            readers: Readers::default(),
            purge: Purge::default(),
            deleted: RefCell::default(),
            half_ended: RefCell::default(),
            counts: Counts::default(),
            opened,
            next: Cell::new(1),
            closing: Closing::default(),
        })
    }

    /// A number for a reader or writer; none has had it.
    pub(crate) fn next_number(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    /// A number that nothing in the array has, nor ever had: whatever is written from now on has a later version, and the
    /// array never gives out a version twice.
    pub(crate) fn fresh(&self) -> StoreResult<u64> {
        Ok(fresh_version(&self.store)?.0)
    }

    /// The array object of that name, if there is one.
    fn find(&self, name: &[u8]) -> StoreResult<Option<Object>> {
        match self.store.head(name) {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(from_array(error)),
        }
    }

    /// The present version of an object.
    fn find_object(&self, bucket: &str, key: &str) -> StoreResult<Option<(Object, ObjectRecord)>> {
        let Some(object) = self.find(&names::object(bucket, key))? else { return Ok(None) };
        let record = ObjectRecord::decode(&object.attributes).map_err(|error| malformed(&object.name, error))?;
        Ok(Some((object, record)))
    }

    /// Fill level of the store.
    fn room(&self) -> StoreResult<StoreUsage> {
        let stats = self.store.stats().map_err(from_array)?;
        let (objects, _) = self.counts.get();
        Ok(StoreUsage {
            capacity_bytes: stats.capacity,
            available_bytes: stats.capacity.saturating_sub(stats.live),
            live_bytes: stats.live,
            objects,
        })
    }

    pub(crate) fn condition(&self, sets: bool) -> StoreResult<shingle_array_store::Condition> {
        self.store.condition(sets).map_err(from_array)
    }

    pub(crate) fn figures(&self) -> StoreResult<ArrayFigures> {
        let array = self.store.stats().map_err(from_array)?;
        let (objects, object_bytes) = self.counts.get();
        Ok(ArrayFigures { array, objects, object_bytes, purging: self.purge.waiting() })
    }
}

/// The version of a put that writes nothing.
pub(crate) fn fresh_version(store: &ArrayStore) -> StoreResult<Version> {
    Ok(store.begin_put(&[names::BLOB][..]).map_err(from_array)?.version())
}

/// Bytes of an object.
fn size_of(object: &Object, record: &ObjectRecord) -> u64 {
    record.manifest.as_ref().map_or(object.size, |manifest| manifest.size().unwrap_or(u64::MAX))
}

/// An object as callers see it.
fn object_info(key: &str, object: &Object, record: ObjectRecord) -> ObjectInfo {
    let size = size_of(object, &record);
    let part_sizes = record.manifest.map(|manifest| manifest.part_sizes()).unwrap_or_default();
    record.attributes.info(key, object.version.0, size, part_sizes)
}
