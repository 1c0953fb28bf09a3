//! A store in memory: the bucket engine over two maps. Nothing survives it, and no call of it waits.

#![expect(clippy::disallowed_methods, reason = "a store for tests on real clocks")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use shingle_buckets::{
    Attributes, Blobs, Body, Catalog, Chosen, Client, Door, Failed, Limits, Met, Names, Page, Part, Start,
};
use shingle_store_api::{
    ListRequest, Listing, ObjectInfo, ObjectReader, ObjectStore, StoreError, StoreErrorKind, StoreFuture, StoreResult,
    StoreUsage, UploadId, UploadInfo, UploadListing, forward,
};

/// A store in memory, up to a given number of bytes.
#[derive(Clone)]
pub struct MemoryStore(Client<Memory>);

impl MemoryStore {
    /// An empty store that takes this many bytes.
    pub fn new(capacity: u64) -> Self {
        let maps = Maps { capacity, ..Maps::default() };
        Self(Client { door: Inline(Arc::new(Mutex::new((Names::default().into_buckets(), maps)))), link: () })
    }
}

impl ObjectStore for MemoryStore {
    forward!(by_reference |this| &this.0; all);
}

/// All that is stored.
#[derive(Default)]
struct Maps {
    objects: BTreeMap<(String, String), Arc<Stored>>,
    uploads: BTreeMap<(String, String, UploadId), Upload>,
    versions: u64,
    used: u64,
    capacity: u64,
}

struct Stored {
    info: ObjectInfo,
    data: Bytes,
}

struct Upload {
    attributes: Attributes,
    parts: BTreeMap<u32, Part<Bytes>>,
}

/// The store while a call is done.
pub(crate) struct Memory {
    names: Names,
    maps: RefCell<Maps>,
}

/// Has a call done where its caller is, one at a time: the store is taken out for it and put back.
#[derive(Clone)]
pub(crate) struct Inline(Arc<Mutex<(BTreeMap<String, u64>, Maps)>>);

impl Inline {
    fn run<T, F: Future<Output = T>>(&self, work: impl FnOnce(Rc<Memory>) -> F) -> T {
        let mut store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (buckets, maps) = mem::take(&mut *store);
        let memory = Rc::new(Memory { names: Names::new(buckets), maps: RefCell::new(maps) });
        // Tokio would have a task that makes many calls wait in the midst of one.
        let done = tokio::task::unconstrained(work(memory.clone())).now_or_never();
        let memory = Rc::into_inner(memory).expect("a call that has ended keeps nothing");
        *store = (memory.names.into_buckets(), memory.maps.into_inner());
        done.expect("nothing in memory waits")
    }
}

impl Door<Memory> for Inline {
    async fn read<T, F>(&self, work: impl FnOnce(Rc<Memory>) -> F + Send + 'static) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static,
    {
        self.run(work)
    }

    async fn write<T, F>(&self, work: impl FnOnce(Rc<Memory>) -> F + Send + 'static) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static,
    {
        self.run(work)
    }

    async fn remove<T, F>(&self, work: impl FnOnce(Rc<Memory>) -> F + Send + 'static) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static,
    {
        self.run(work)
    }
}

/// Bytes as they come, up to what is free.
#[derive(Default)]
pub(crate) struct Gathered(BytesMut);

impl Body<Memory> for Gathered {
    fn expect(&mut self, _client: &Client<Memory>, _length: u64) {}

    async fn append(&mut self, client: &Client<Memory>, data: Bytes) -> StoreResult<()> {
        let free = client.door.run(|memory| async move { memory.maps.borrow().free() });
        if (self.0.len() + data.len()) as u64 > free {
            return Err(StoreError::new(StoreErrorKind::NoSpace, format!("only {free} bytes are free")));
        }
        self.0.extend_from_slice(&data);
        Ok(())
    }

    async fn finish(self, _client: &Client<Memory>) -> StoreResult<Bytes> {
        Ok(self.0.freeze())
    }
}

/// An object that is open.
pub(crate) struct Opened(Arc<Stored>);

impl ObjectReader for Opened {
    fn info(&self) -> &ObjectInfo {
        &self.0.info
    }

    fn read(&self, offset: u64, length: u64) -> StoreFuture<'_, Bytes> {
        let end = offset.checked_add(length).filter(|end| *end <= self.0.data.len() as u64);
        let piece = end.map(|end| self.0.data.slice(offset as usize..end as usize));
        let message = || format!("{length} bytes from {offset} are not inside an object of {}", self.0.data.len());
        let piece = piece.ok_or_else(|| StoreError::new(StoreErrorKind::Invalid, message()));
        Box::pin(async move { piece })
    }
}

impl Maps {
    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }

    fn next(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    fn put(&mut self, of: (String, String), attributes: Attributes, data: Bytes, sizes: Vec<u64>) -> ObjectInfo {
        let info = attributes.info(&of.1, self.next(), data.len() as u64, sizes);
        self.used += info.size;
        let replaced = self.objects.insert(of, Arc::new(Stored { info: info.clone(), data }));
        self.used = self.used.saturating_sub(replaced.map_or(0, |stored| stored.info.size));
        info
    }

    fn upload(&self, id: UploadId) -> Option<&Upload> {
        self.uploads.iter().find(|((.., of), _)| *of == id).map(|(_, upload)| upload)
    }
}

impl Blobs for Memory {
    type Door = Inline;
    type Link = ();
    type Begun = ();
    type Body = Gathered;
    type Written = Bytes;
    type Reader = Opened;

    async fn begin(self: &Rc<Self>) -> StoreResult<()> {
        Ok(())
    }

    fn body(_client: &Client<Self>, _part: Option<(UploadId, u32)>, (): ()) -> Gathered {
        Gathered::default()
    }

    async fn open(self: &Rc<Self>, _client: Client<Self>, bucket: String, key: String) -> StoreResult<Opened> {
        self.names.require(&bucket)?;
        let found = self.maps.borrow().objects.get(&(bucket.clone(), key.clone())).cloned();
        found.map(Opened).ok_or_else(|| StoreError::no_key(&bucket, &key))
    }
}

impl Catalog for Memory {
    const LIMITS: Limits = Limits { bucket_bytes_max: 255, key_bytes_max: 1024, zeros_in_keys: true };
    type Blob = Bytes;

    fn names(&self) -> &Names {
        &self.names
    }

    fn now_unix_ns(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
    }

    fn part_bytes_min(&self) -> u64 {
        1
    }

    async fn object(&self, bucket: &str, key: &str, _parts: bool) -> StoreResult<Option<ObjectInfo>> {
        let found = self.maps.borrow().objects.get(&(bucket.to_owned(), key.to_owned())).cloned();
        Ok(found.map(|stored| stored.info.clone()))
    }

    async fn page(&self, bucket: String, request: ListRequest) -> StoreResult<Listing> {
        let maps = self.maps.borrow();
        let mut page = Page::new(&request);
        let mut beyond = match page.start() {
            Start::Beyond(common) => Some(common.to_owned()),
            _ => None,
        };
        for ((of, key), stored) in maps.objects.range((bucket.clone(), request.prefix.clone())..) {
            if *of != bucket || !key.starts_with(&request.prefix) {
                break;
            }
            let before = matches!(page.start(), Start::After(after) if key.as_str() <= after)
                || beyond.as_ref().is_some_and(|common| key < common || key.starts_with(common));
            if before {
                continue;
            }
            match page.meet(key) {
                Met::Full => break,
                Met::Common(common) => beyond = Some(common.to_owned()),
                Met::Object => page.show(ObjectInfo { part_sizes: Vec::new(), ..stored.info.clone() }),
            }
        }
        Ok(page.done())
    }

    async fn is_empty(&self, bucket: &str) -> StoreResult<bool> {
        let maps = self.maps.borrow();
        Ok(maps.objects.keys().all(|(of, _)| of != bucket) && maps.uploads.keys().all(|(of, ..)| of != bucket))
    }

    async fn upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreResult<Option<Attributes>> {
        let maps = self.maps.borrow();
        let found = maps.uploads.get(&(bucket.to_owned(), key.to_owned(), id));
        Ok(found.map(|upload| upload.attributes.clone()))
    }

    async fn uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, UploadId)>,
        limit: usize,
    ) -> StoreResult<UploadListing> {
        let maps = self.maps.borrow();
        let later =
            |key: &String, id: UploadId| after.as_ref().is_none_or(|(last, last_id)| (key, id) > (last, *last_id));
        let wanted =
            maps.uploads.iter().filter(|((of, key, id), _)| of == bucket && key.starts_with(prefix) && later(key, *id));
        let info = |((_, key, id), upload): (&(String, String, UploadId), &Upload)| UploadInfo {
            id: *id,
            key: key.clone(),
            initiated_unix_ns: upload.attributes.modified_unix_ns,
            metadata: upload.attributes.metadata.clone(),
            class: None,
        };
        let mut uploads: Vec<_> = wanted.take(limit.saturating_add(1)).map(info).collect();
        let truncated = uploads.len() > limit;
        uploads.truncate(limit);
        Ok(UploadListing { uploads, truncated })
    }

    async fn parts(&self, id: UploadId, after: u32, limit: usize) -> StoreResult<Vec<Part<Bytes>>> {
        let maps = self.maps.borrow();
        let parts = maps.upload(id).map(|upload| upload.parts.range(after.saturating_add(1)..));
        Ok(parts.into_iter().flatten().take(limit).map(|(_, part)| part.clone()).collect())
    }

    async fn usage(self: &Rc<Self>) -> StoreResult<StoreUsage> {
        let maps = self.maps.borrow();
        Ok(StoreUsage {
            capacity_bytes: maps.capacity,
            available_bytes: maps.free(),
            live_bytes: maps.used,
            objects: maps.objects.len() as u64,
        })
    }

    async fn make_bucket(self: &Rc<Self>, _bucket: &str, _created_unix_ns: u64) -> Result<(), Failed> {
        Ok(())
    }

    async fn drop_bucket(self: &Rc<Self>, _bucket: &str) -> Result<(), Failed> {
        Ok(())
    }

    async fn put(
        self: &Rc<Self>,
        bucket: String,
        key: String,
        attributes: Attributes,
        written: Bytes,
    ) -> StoreResult<ObjectInfo> {
        Ok(self.maps.borrow_mut().put((bucket, key), attributes, written, Vec::new()))
    }

    async fn remove(self: &Rc<Self>, bucket: String, key: String) -> StoreResult<bool> {
        let mut maps = self.maps.borrow_mut();
        let removed = maps.objects.remove(&(bucket, key));
        maps.used = maps.used.saturating_sub(removed.as_ref().map_or(0, |stored| stored.info.size));
        Ok(removed.is_some())
    }

    async fn begin_upload(self: &Rc<Self>, bucket: &str, key: &str, attributes: &Attributes) -> StoreResult<UploadId> {
        let mut maps = self.maps.borrow_mut();
        let id = UploadId(maps.next());
        let upload = Upload { attributes: attributes.clone(), parts: BTreeMap::new() };
        maps.uploads.insert((bucket.to_owned(), key.to_owned(), id), upload);
        Ok(id)
    }

    async fn put_part(
        self: &Rc<Self>,
        of: (String, String, UploadId),
        number: u32,
        attributes: Attributes,
        written: Bytes,
    ) -> StoreResult<ObjectInfo> {
        let mut maps = self.maps.borrow_mut();
        let (version, size) = (maps.next(), written.len() as u64);
        let upload = maps.uploads.get_mut(&of).ok_or_else(|| StoreError::no_upload(of.2))?;
        upload.parts.insert(number, Part { number, size, attributes: attributes.clone(), blob: written });
        Ok(attributes.info("", version, size, Vec::new()))
    }

    async fn complete(
        self: &Rc<Self>,
        of: (String, String, UploadId),
        attributes: Attributes,
        chosen: Chosen<Bytes>,
    ) -> StoreResult<ObjectInfo> {
        let mut maps = self.maps.borrow_mut();
        maps.uploads.remove(&of);
        let data: Vec<&[u8]> = chosen.parts.iter().map(|part| &part.blob[..]).collect();
        Ok(maps.put((of.0, of.1), attributes, data.concat().into(), chosen.sizes()))
    }

    async fn end_upload(self: &Rc<Self>, of: (String, String, UploadId)) -> Result<(), Failed> {
        self.maps.borrow_mut().uploads.remove(&of);
        Ok(())
    }
}
