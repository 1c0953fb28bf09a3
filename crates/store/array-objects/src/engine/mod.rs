//! The owner's state, shared by the tasks of its thread, and what all calls need.
//!
//! # Invariants
//! - AENG-1: no borrow of a cell is held across an `await`.
//! - AENG-2: locks are taken in the order bucket, key, upload, part.

mod buckets;
mod counting;
mod listing;
pub(crate) mod objects;
mod orphans;
pub(crate) mod purge;
pub(crate) mod reading;
pub(crate) mod run;
pub(crate) mod salvage;
pub(crate) mod survey;
mod uploads;
pub(crate) mod writing;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use shingle_array_store::{ArrayStore, ErrorKind, Object, Version};
use shingle_runtime::Runtime;
use shingle_runtime::locks::Locks;
use shingle_runtime::owner::Closing;
use shingle_store_api::{ObjectInfo, StoreError, StoreResult, StoreUsage};

use crate::errors::{from_array, malformed};
use crate::format::ObjectRecord;
use crate::names;
use crate::options::{ArrayFigures, Options};
use crate::places::Places;

/// What the tasks of an owner share.
pub(crate) struct Core {
    pub(crate) rt: Runtime,
    pub(crate) store: ArrayStore,
    pub(crate) options: Options,
    /// Buckets and when they were made: few, and asked for in every call.
    buckets: RefCell<BTreeMap<String, u64>>,
    /// Held shared by whoever writes to a bucket, exclusively to make or delete it.
    gates: Rc<Locks>,
    /// Held by whoever changes a key.
    keys: Rc<Locks>,
    /// Held shared by whoever commits a part, exclusively by whoever ends the upload; a part's own key by whoever commits that part.
    uploads: Rc<Locks>,
    pub(crate) places: Arc<Places>,
    pub(crate) writers: writing::Writers,
    pub(crate) readers: reading::Readers,
    pub(crate) purge: purge::Purge,
    /// Names of objects that were deleted while records are restored: none of them is. (ORPHAN-3)
    deleted: RefCell<Option<BTreeSet<Vec<u8>>>>,
    counts: counting::Counts,
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
        buckets: BTreeMap<String, u64>,
        opened: Version,
        places: Arc<Places>,
    ) -> Rc<Self> {
        Rc::new(Self {
            rt,
            store,
            options,
            buckets: RefCell::new(buckets),
            gates: Rc::default(),
            keys: Rc::default(),
            uploads: Rc::default(),
            places,
            writers: writing::Writers::default(),
            readers: reading::Readers::default(),
            purge: purge::Purge::default(),
            deleted: RefCell::new(Some(BTreeSet::new())),
            counts: counting::Counts::default(),
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

    fn now_unix_ns(&self) -> u64 {
        self.rt.unix_time().nanos
    }

    /// That the bucket is there. True until its gate is let go.
    fn require_bucket(&self, bucket: &str) -> StoreResult<u64> {
        self.buckets.borrow().get(bucket).copied().ok_or_else(|| StoreError::no_bucket(bucket))
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

    /// How full the store is.
    pub(crate) fn usage(&self) -> StoreResult<StoreUsage> {
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
    ObjectInfo {
        key: key.to_owned(),
        size,
        etag: record.attributes.etag,
        modified_unix_ns: record.attributes.modified_unix_ns,
        version: object.version.0,
        metadata: record.attributes.metadata,
        part_sizes: record.manifest.map(|manifest| manifest.part_sizes()).unwrap_or_default(),
        class: None,
    }
}
