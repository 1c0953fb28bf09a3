//! A store in memory: the contract of [`ObjectStore`] in its simplest form. Nothing survives it.

#![expect(clippy::disallowed_methods, reason = "a store for tests on real clocks")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use shingle_store_api::{
    BucketInfo, Commit, CompletedPart, Condition, ListRequest, Listing, Metadata, ObjectInfo, ObjectReader,
    ObjectStore, ObjectWriter, PartInfo, StoreError, StoreErrorKind, StoreFuture, StoreResult, StoreUsage, UploadId,
    UploadInfo, UploadListing,
};

use super::{error, ready};

/// A store in memory, up to a given number of bytes.
#[derive(Clone)]
pub struct MemoryStore {
    pub(super) state: Arc<Mutex<State>>,
}

pub(super) struct State {
    pub(super) buckets: BTreeMap<String, Bucket>,
    pub(super) versions: u64,
    pub(super) used: u64,
    pub(super) capacity: u64,
}

pub(super) struct Bucket {
    pub(super) info: BucketInfo,
    pub(super) objects: BTreeMap<String, Arc<Stored>>,
    pub(super) uploads: BTreeMap<(String, UploadId), Upload>,
}

pub(super) struct Upload {
    pub(super) info: UploadInfo,
    pub(super) parts: BTreeMap<u32, (PartInfo, Bytes)>,
}

pub(super) struct Stored {
    pub(super) info: ObjectInfo,
    pub(super) data: Bytes,
}

pub(super) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

impl MemoryStore {
    /// An empty store that takes this many bytes.
    pub fn new(capacity: u64) -> Self {
        let state = State { buckets: BTreeMap::new(), versions: 0, used: 0, capacity };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn bucket(&mut self, name: &str) -> StoreResult<&mut Bucket> {
        self.buckets.get_mut(name).ok_or_else(|| error(StoreErrorKind::NoSuchBucket, name))
    }

    pub(super) fn put(
        &mut self,
        bucket: &str,
        key: &str,
        data: Bytes,
        commit: Commit,
        part_sizes: Vec<u64>,
    ) -> StoreResult<ObjectInfo> {
        self.versions += 1;
        let version = self.versions;
        let found = self.bucket(bucket)?;
        let present = found.objects.get(key);
        commit.condition.check(present.map(|stored| &*stored.info.etag))?;
        let info = ObjectInfo {
            key: key.to_owned(),
            size: data.len() as u64,
            etag: commit.etag,
            modified_unix_ns: now_ns(),
            version,
            metadata: commit.metadata,
            part_sizes,
            class: None,
        };
        let freed = present.map_or(0, |stored| stored.info.size);
        found.objects.insert(key.to_owned(), Arc::new(Stored { info: info.clone(), data }));
        self.used = (self.used + info.size).saturating_sub(freed);
        Ok(info)
    }
}

/// Collects the bytes of an object or part until the commit.
struct Writer {
    store: MemoryStore,
    data: BytesMut,
    done: Finish,
}

pub(super) type Finish = Box<dyn FnOnce(&mut State, Bytes, Commit) -> StoreResult<ObjectInfo> + Send>;

impl MemoryStore {
    pub(super) fn writer(&self, done: Finish) -> Box<dyn ObjectWriter> {
        Box::new(Writer { store: self.clone(), data: BytesMut::new(), done })
    }
}

impl ObjectWriter for Writer {
    fn write(&mut self, data: Bytes) -> StoreFuture<'_, ()> {
        let state = self.store.state();
        let room = state.capacity.saturating_sub(state.used);
        drop(state);
        if self.data.len() as u64 + data.len() as u64 > room {
            return ready(Err(StoreError::new(StoreErrorKind::NoSpace, format!("only {room} bytes are free"))));
        }
        self.data.extend_from_slice(&data);
        ready(Ok(()))
    }

    fn commit(self: Box<Self>, commit: Commit) -> StoreFuture<'static, ObjectInfo> {
        let this = *self;
        let result = (this.done)(&mut this.store.state(), this.data.freeze(), commit);
        ready(result)
    }
}

struct Reader(Arc<Stored>);

impl ObjectReader for Reader {
    fn info(&self) -> &ObjectInfo {
        &self.0.info
    }

    fn read(&self, offset: u64, length: u64) -> StoreFuture<'_, Bytes> {
        let (Ok(start), Ok(end)) = (usize::try_from(offset), usize::try_from(offset.saturating_add(length))) else {
            return ready(Err(error(StoreErrorKind::Invalid, "range")));
        };
        if end > self.0.data.len() {
            return ready(Err(error(StoreErrorKind::Invalid, "range")));
        }
        ready(Ok(self.0.data.slice(start..end)))
    }
}

impl ObjectStore for MemoryStore {
    fn create_bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        let mut state = self.state();
        if state.buckets.contains_key(bucket) {
            return ready(Err(error(StoreErrorKind::BucketExists, bucket)));
        }
        let info = BucketInfo { name: bucket.to_owned(), created_unix_s: now_ns() / 1_000_000_000, location: None };
        let new = Bucket { info: info.clone(), objects: BTreeMap::new(), uploads: BTreeMap::new() };
        state.buckets.insert(bucket.to_owned(), new);
        ready(Ok(info))
    }

    fn delete_bucket(&self, bucket: &str) -> StoreFuture<'_, ()> {
        let mut state = self.state();
        let result =
            state.bucket(bucket).and_then(|found| match found.objects.is_empty() && found.uploads.is_empty() {
                true => Ok(()),
                false => Err(error(StoreErrorKind::BucketNotEmpty, bucket)),
            });
        if result.is_ok() {
            state.buckets.remove(bucket);
        }
        ready(result)
    }

    fn bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        ready(self.state().bucket(bucket).map(|found| found.info.clone()))
    }

    fn list_buckets(&self) -> StoreFuture<'_, Vec<BucketInfo>> {
        ready(Ok(self.state().buckets.values().map(|bucket| bucket.info.clone()).collect()))
    }

    fn begin_put(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        if let Err(missing) = self.state().bucket(bucket) {
            return ready(Err(missing));
        }
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        let done: Finish = Box::new(move |state, data, commit| state.put(&bucket, &key, data, commit, Vec::new()));
        ready(Ok(self.writer(done)))
    }

    fn head(&self, bucket: &str, key: &str) -> StoreFuture<'_, ObjectInfo> {
        let mut state = self.state();
        let found = state.bucket(bucket).and_then(|found| {
            found
                .objects
                .get(key)
                .map(|stored| stored.info.clone())
                .ok_or_else(|| error(StoreErrorKind::NoSuchKey, key))
        });
        ready(found)
    }

    fn open(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectReader>> {
        let mut state = self.state();
        let found = state
            .bucket(bucket)
            .and_then(|found| found.objects.get(key).cloned().ok_or_else(|| error(StoreErrorKind::NoSuchKey, key)));
        ready(found.map(|stored| Box::new(Reader(stored)) as Box<dyn ObjectReader>))
    }

    fn delete_if(&self, bucket: &str, key: &str, condition: Condition) -> StoreFuture<'_, bool> {
        let mut state = self.state();
        let removed = state.bucket(bucket).and_then(|found| {
            condition.check(found.objects.get(key).map(|stored| stored.info.etag.as_str()))?;
            Ok(found.objects.remove(key))
        });
        let removed = match removed {
            Ok(removed) => removed,
            Err(error) => return ready(Err(error)),
        };
        state.used = state.used.saturating_sub(removed.as_ref().map_or(0, |stored| stored.info.size));
        ready(Ok(removed.is_some()))
    }

    fn list(&self, bucket: &str, request: ListRequest) -> StoreFuture<'_, Listing> {
        ready(self.state().bucket(bucket).map(|found| list(found, &request)))
    }

    fn begin_upload(&self, bucket: &str, key: &str, metadata: Metadata) -> StoreFuture<'_, UploadInfo> {
        self.begin_upload_now(bucket, key, metadata)
    }

    fn begin_part(&self, bucket: &str, key: &str, id: UploadId, number: u32) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        self.begin_part_now(bucket, key, id, number)
    }

    fn upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, UploadInfo> {
        self.upload_now(bucket, key, id)
    }

    fn list_parts(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        after: u32,
        limit: usize,
    ) -> StoreFuture<'_, (Vec<PartInfo>, bool)> {
        self.list_parts_now(bucket, key, id, after, limit)
    }

    fn list_uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, Option<UploadId>)>,
        limit: usize,
    ) -> StoreFuture<'_, UploadListing> {
        self.list_uploads_now(bucket, prefix, after, limit)
    }

    fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        parts: Vec<CompletedPart>,
        commit: Commit,
    ) -> StoreFuture<'_, ObjectInfo> {
        self.complete_upload_now(bucket, key, id, &parts, commit)
    }

    fn abort_upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, ()> {
        self.abort_upload_now(bucket, key, id)
    }

    fn usage(&self) -> StoreFuture<'_, StoreUsage> {
        let state = self.state();
        ready(Ok(StoreUsage {
            capacity_bytes: state.capacity,
            available_bytes: state.capacity.saturating_sub(state.used),
            live_bytes: state.used,
            objects: state.buckets.values().map(|bucket| bucket.objects.len() as u64).sum(),
        }))
    }
}

/// One page of a bucket's keys.
fn list(bucket: &Bucket, request: &ListRequest) -> Listing {
    let mut listing = Listing::default();
    let mut last: Option<String> = None;
    for (key, stored) in &bucket.objects {
        let Some(rest) = key.strip_prefix(&request.prefix) else { continue };
        let delimiter = request.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty());
        let end = delimiter.and_then(|delimiter| Some(rest.find(delimiter)? + delimiter.len()));
        let name = end.and_then(|end| key.get(..request.prefix.len() + end)).unwrap_or(key);
        if request.after.as_deref().is_some_and(|after| name <= after) || last.as_deref() == Some(name) {
            continue;
        }
        if listing.objects.len() + listing.common_prefixes.len() == request.limit {
            listing.next = last;
            break;
        }
        last = Some(name.to_owned());
        match end {
            Some(_) => listing.common_prefixes.push(name.to_owned()),
            None => listing.objects.push(stored.info.clone()),
        }
    }
    listing
}
