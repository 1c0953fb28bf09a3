//! A store that takes everything and keeps nothing: its cost is the protocol's.

use std::sync::Arc;

use bytes::Bytes;
use shingle_store_api::{
    BucketInfo, Commit, CompletedPart, Condition, ListRequest, Listing, Metadata, ObjectInfo, ObjectReader,
    ObjectStore, ObjectWriter, PartInfo, StoreErrorKind, StoreFuture, StoreUsage, UploadId, UploadInfo, UploadListing,
};

use super::{error, ready};

/// The largest piece a reader gives, and is asked for by the gateway.
const ZEROS: usize = 4 << 20;

/// A store that drops all bytes. Every bucket exists; every key is an object of zeros, of a fixed size given when the
/// store was made. It has no uploads.
#[derive(Clone)]
pub struct DiscardStore {
    object_bytes: u64,
    zeros: Arc<Bytes>,
}

impl DiscardStore {
    /// A store whose objects have this size when they are read.
    pub fn new(object_bytes: u64) -> Self {
        Self { object_bytes, zeros: Arc::new(Bytes::from(vec![0; ZEROS])) }
    }

    fn info(&self, key: &str, size: u64, etag: String) -> ObjectInfo {
        ObjectInfo {
            key: key.to_owned(),
            size,
            etag,
            modified_unix_ns: 0,
            version: 0,
            metadata: Metadata::new(),
            part_sizes: Vec::new(),
            class: None,
        }
    }

    fn of_zeros(&self, key: &str) -> ObjectInfo {
        self.info(key, self.object_bytes, "00000000000000000000000000000000".to_owned())
    }
}

struct Writer {
    store: DiscardStore,
    size: u64,
}

impl ObjectWriter for Writer {
    fn write(&mut self, data: Bytes) -> StoreFuture<'_, ()> {
        self.size += data.len() as u64;
        ready(Ok(()))
    }

    fn commit(self: Box<Self>, commit: Commit) -> StoreFuture<'static, ObjectInfo> {
        ready(Ok(self.store.info("", self.size, commit.etag)))
    }
}

struct Reader {
    info: ObjectInfo,
    zeros: Arc<Bytes>,
}

impl ObjectReader for Reader {
    fn info(&self) -> &ObjectInfo {
        &self.info
    }

    fn read(&self, _offset: u64, length: u64) -> StoreFuture<'_, Bytes> {
        match usize::try_from(length) {
            Ok(length) if length <= self.zeros.len() => ready(Ok(self.zeros.slice(..length))),
            _ => ready(Err(error(StoreErrorKind::Invalid, "a piece of more than 4 MiB"))),
        }
    }
}

impl ObjectStore for DiscardStore {
    fn create_bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        self.bucket(bucket)
    }

    fn delete_bucket(&self, _bucket: &str) -> StoreFuture<'_, ()> {
        ready(Ok(()))
    }

    fn bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        ready(Ok(BucketInfo { name: bucket.to_owned(), created_unix_s: 0, location: None }))
    }

    fn list_buckets(&self) -> StoreFuture<'_, Vec<BucketInfo>> {
        ready(Ok(Vec::new()))
    }

    fn begin_put(&self, _bucket: &str, _key: &str) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        ready(Ok(Box::new(Writer { store: self.clone(), size: 0 })))
    }

    fn head(&self, _bucket: &str, key: &str) -> StoreFuture<'_, ObjectInfo> {
        ready(Ok(self.of_zeros(key)))
    }

    fn open(&self, _bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectReader>> {
        ready(Ok(Box::new(Reader { info: self.of_zeros(key), zeros: self.zeros.clone() })))
    }

    fn delete_if(&self, _bucket: &str, _key: &str, _condition: Condition) -> StoreFuture<'_, bool> {
        ready(Ok(true))
    }

    fn list(&self, _bucket: &str, _request: ListRequest) -> StoreFuture<'_, Listing> {
        ready(Ok(Listing::default()))
    }

    fn begin_upload(&self, _bucket: &str, key: &str, _metadata: Metadata) -> StoreFuture<'_, UploadInfo> {
        ready(Err(error(StoreErrorKind::Invalid, key)))
    }

    fn begin_part(
        &self,
        _bucket: &str,
        key: &str,
        _id: UploadId,
        _number: u32,
    ) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        ready(Err(error(StoreErrorKind::NoSuchUpload, key)))
    }

    fn upload(&self, _bucket: &str, key: &str, _id: UploadId) -> StoreFuture<'_, UploadInfo> {
        ready(Err(error(StoreErrorKind::NoSuchUpload, key)))
    }

    fn list_parts(
        &self,
        _bucket: &str,
        key: &str,
        _id: UploadId,
        _after: u32,
        _limit: usize,
    ) -> StoreFuture<'_, (Vec<PartInfo>, bool)> {
        ready(Err(error(StoreErrorKind::NoSuchUpload, key)))
    }

    fn list_uploads(
        &self,
        _bucket: &str,
        _prefix: &str,
        _after: Option<(String, Option<UploadId>)>,
        _limit: usize,
    ) -> StoreFuture<'_, UploadListing> {
        ready(Ok(UploadListing::default()))
    }

    fn complete_upload(
        &self,
        _bucket: &str,
        key: &str,
        _id: UploadId,
        _parts: Vec<CompletedPart>,
        _commit: Commit,
    ) -> StoreFuture<'_, ObjectInfo> {
        ready(Err(error(StoreErrorKind::NoSuchUpload, key)))
    }

    fn abort_upload(&self, _bucket: &str, key: &str, _id: UploadId) -> StoreFuture<'_, ()> {
        ready(Err(error(StoreErrorKind::NoSuchUpload, key)))
    }

    fn usage(&self) -> StoreFuture<'_, StoreUsage> {
        ready(Ok(StoreUsage::default()))
    }
}
