//! The contract of an object store.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::error::StoreResult;
use crate::types::{
    BucketInfo, Commit, CompletedPart, Condition, ListRequest, Listing, Metadata, ObjectInfo, PartInfo, SiteName,
    StoreUsage, UploadInfo, UploadListing,
};
use crate::upload_id::UploadId;

/// The result of a store call, some time later, on any thread.
pub type StoreFuture<'a, T> = BoxFuture<'a, StoreResult<T>>;

/// A store of objects in buckets. Names and keys are UTF-8 and ordered by their bytes.
///
/// Every call that changes something is durable when it returns (API-1).
pub trait ObjectStore: Send + Sync {
    /// Creates a bucket. `BucketExists` if there is one.
    fn create_bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo>;
    /// Deletes an empty bucket. `BucketNotEmpty` if it holds objects or uploads.
    fn delete_bucket(&self, bucket: &str) -> StoreFuture<'_, ()>;
    /// One bucket.
    fn bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo>;
    /// All buckets, by name.
    fn list_buckets(&self) -> StoreFuture<'_, Vec<BucketInfo>>;

    /// Begins to write an object; it appears when the writer is committed.
    fn begin_put(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectWriter>>;
    /// An object without its bytes.
    fn head(&self, bucket: &str, key: &str) -> StoreFuture<'_, ObjectInfo>;
    /// Opens the present version of an object, which stays readable until the reader is dropped.
    fn open(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectReader>>;
    /// Deletes an object. `Ok(false)` if there was none.
    fn delete(&self, bucket: &str, key: &str) -> StoreFuture<'_, bool> {
        self.delete_if(bucket, key, Condition::default())
    }
    /// Deletes an object of which `condition` holds, or fails with `PreconditionFailed`. `Ok(false)` if there was none.
    fn delete_if(&self, bucket: &str, key: &str, condition: Condition) -> StoreFuture<'_, bool>;
    /// Lists keys.
    fn list(&self, bucket: &str, request: ListRequest) -> StoreFuture<'_, Listing>;

    /// Begins an upload in parts.
    fn begin_upload(&self, bucket: &str, key: &str, metadata: Metadata) -> StoreFuture<'_, UploadInfo>;
    /// Begins to write part `number` (1 to 10,000) of an upload; a part of that number is replaced at commit. The
    /// commit's condition is not used, and the returned `key` is empty.
    fn begin_part(&self, bucket: &str, key: &str, id: UploadId, number: u32) -> StoreFuture<'_, Box<dyn ObjectWriter>>;
    /// An upload in progress.
    fn upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, UploadInfo>;
    /// Parts of an upload with numbers above `after`, by number, at most `limit`; and whether there are more.
    fn list_parts(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        after: u32,
        limit: usize,
    ) -> StoreFuture<'_, (Vec<PartInfo>, bool)>;
    /// Uploads of keys that begin with `prefix`, after the given key (and upload of that key), at most `limit`.
    fn list_uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, Option<UploadId>)>,
        limit: usize,
    ) -> StoreFuture<'_, UploadListing>;
    /// Makes the named parts, in order, the object; other parts are dropped. The commit's metadata is added to
    /// the upload's.
    fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        parts: Vec<CompletedPart>,
        commit: Commit,
    ) -> StoreFuture<'_, ObjectInfo>;
    /// Ends an upload and drops its parts.
    fn abort_upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, ()>;

    /// The same store, with new buckets, objects and uploads at `site`. `None`: there is no such site, as in every
    /// store that has but one.
    fn at(&self, site: SiteName<'_>) -> Option<Arc<dyn ObjectStore>> {
        let _ = site;
        None
    }

    /// Fill level of the store.
    fn usage(&self) -> StoreFuture<'_, StoreUsage>;
}

/// An object (or part) being written. Dropping it without a commit leaves nothing behind.
pub trait ObjectWriter: Send {
    /// Announces `bytes` still to come, as far as is known before the first of them: a store may place them better. Not
    /// binding.
    fn expect(&mut self, length: u64) {
        let _ = length;
    }
    /// Takes the next bytes; waits while the store is behind.
    fn write(&mut self, data: Bytes) -> StoreFuture<'_, ()>;
    /// Makes the written bytes the object's present version, durably.
    fn commit(self: Box<Self>, commit: Commit) -> StoreFuture<'static, ObjectInfo>;
}

/// One version of an object, open for reading.
pub trait ObjectReader: Send + Sync {
    /// The object's attributes.
    fn info(&self) -> &ObjectInfo;
    /// `length` bytes from `offset`, which must lie inside the object; read in pieces of a few MiB at most.
    fn read(&self, offset: u64, length: u64) -> StoreFuture<'_, Bytes>;
}
