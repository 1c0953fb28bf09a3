//! The contracts of a store: its names and its bytes.

use std::rc::Rc;

use bytes::Bytes;
use shingle_store_api::{
    ListRequest, Listing, ObjectInfo, ObjectReader, StoreResult, StoreUsage, UploadId, UploadListing,
};

use crate::attributes::Attributes;
use crate::entrance::Door;
use crate::failed::Failed;
use crate::known::Buckets;
use crate::limits::Limits;
use crate::names::Names;
use crate::parts::{Chosen, Part};

/// Bytes of objects and parts, on the owner's side.
pub trait Blobs: Sized + 'static {
    /// The way to the owner.
    type Door: Door<Self>;
    /// All else that readers and writers share.
    type Link: Clone + Send + Sync + 'static;
    /// All that the owner gives a writer to begin with.
    type Begun: Send + 'static;
    /// Bytes that are being written.
    type Body: Body<Self>;
    /// Bytes that were all written: the owner makes them an object or part, or drops them.
    type Written: Send + 'static;
    /// An object that is open.
    type Reader: ObjectReader + 'static;

    /// Begins to write.
    fn begin(self: &Rc<Self>) -> impl Future<Output = StoreResult<Self::Begun>>;

    /// The writer's side of what was begun: a `part` of an upload, or an object.
    fn body(client: &Client<Self>, part: Option<(UploadId, u32)>, begun: Self::Begun) -> Self::Body;

    /// The buckets that there are, where the caller's thread can tell; else the owner is asked.
    fn buckets_here(client: &Client<Self>) -> Option<&Buckets> {
        let _ = client;
        None
    }

    /// All that a writer of an object begins with, where the caller's thread can tell; else the owner is asked.
    fn begin_here(client: &Client<Self>) -> Option<Self::Begun> {
        let _ = client;
        None
    }

    /// The object without its bytes, where the caller's thread can tell; else the owner is asked.
    fn head_here(client: &Client<Self>, bucket: &str, key: &str) -> Option<ObjectInfo> {
        let _ = (client, bucket, key);
        None
    }

    /// The object, open, where the caller's thread can open it; else the owner is asked.
    fn open_here(client: &Client<Self>, bucket: &str, key: &str) -> Option<Self::Reader> {
        let _ = (client, bucket, key);
        None
    }

    /// Opens the present version of an object, which stays readable until the reader is dropped.
    fn open(
        self: &Rc<Self>,
        client: Client<Self>,
        bucket: String,
        key: String,
    ) -> impl Future<Output = StoreResult<Self::Reader>>;
}

/// A store, from any thread. Cheap to clone.
pub struct Client<C: Blobs> {
    /// The way to the owner.
    pub door: C::Door,
    /// All else that readers and writers share.
    pub link: C::Link,
}

impl<C: Blobs> Clone for Client<C> {
    fn clone(&self) -> Self {
        Self { door: self.door.clone(), link: self.link.clone() }
    }
}

/// Bytes that are being written, on the writer's side. Dropping them leaves nothing behind.
pub trait Body<C: Blobs>: Send + 'static {
    /// So many bytes will come, as far as is known before the first of them.
    fn expect(&mut self, client: &Client<C>, length: u64);

    /// Takes the next bytes; waits while the store is behind.
    fn append(&mut self, client: &Client<C>, data: Bytes) -> impl Future<Output = StoreResult<()>> + Send;

    /// No more bytes come.
    fn finish(self, client: &Client<C>) -> impl Future<Output = StoreResult<C::Written>> + Send;
}

/// Objects, uploads and parts by their names. Each change is whole and durable when it returns `Ok`.
///
/// The engine calls changes of one name one after another, and only where its rules allow them.
pub trait Catalog: Blobs {
    /// Names that can be stored.
    const LIMITS: Limits;
    /// A part of an upload: where its bytes are.
    type Blob;

    /// The names that the engine keeps here.
    fn names(&self) -> &Names;

    /// The time of what is committed now.
    fn now_unix_ns(&self) -> u64;

    /// The least size of a part other than an upload's last.
    fn part_bytes_min(&self) -> u64;

    /// Fails if the store has stopped.
    ///
    /// # Errors
    /// `Unavailable`.
    fn working(&self) -> StoreResult<()> {
        Ok(())
    }

    /// The present version of an object; with `parts`, the sizes of its parts as well.
    fn object(&self, bucket: &str, key: &str, parts: bool) -> impl Future<Output = StoreResult<Option<ObjectInfo>>>;

    /// A page of the bucket's keys, as [`Page`](crate::Page) makes it.
    fn page(&self, bucket: String, request: ListRequest) -> impl Future<Output = StoreResult<Listing>>;

    /// The bucket holds neither objects nor uploads.
    fn is_empty(&self, bucket: &str) -> impl Future<Output = StoreResult<bool>>;

    /// An upload in progress, if there is one of that key.
    fn upload(&self, bucket: &str, key: &str, id: UploadId) -> impl Future<Output = StoreResult<Option<Attributes>>>;

    /// Uploads of keys that begin with `prefix`, behind the key and upload `after`.
    fn uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, UploadId)>,
        limit: usize,
    ) -> impl Future<Output = StoreResult<UploadListing>>;

    /// Parts of an upload with numbers above `after`, by number, at most `limit`.
    fn parts(&self, id: UploadId, after: u32, limit: usize)
    -> impl Future<Output = StoreResult<Vec<Part<Self::Blob>>>>;

    /// Bytes stored and free.
    fn usage(self: &Rc<Self>) -> impl Future<Output = StoreResult<StoreUsage>>;

    /// Creates a bucket.
    fn make_bucket(self: &Rc<Self>, bucket: &str, created_unix_ns: u64) -> impl Future<Output = Result<(), Failed>>;

    /// Deletes a bucket; again, if it failed before and may have happened; or one whose creation failed so.
    fn drop_bucket(self: &Rc<Self>, bucket: &str) -> impl Future<Output = Result<(), Failed>>;

    /// Makes bytes the object.
    fn put(
        self: &Rc<Self>,
        bucket: String,
        key: String,
        attributes: Attributes,
        written: Self::Written,
    ) -> impl Future<Output = StoreResult<ObjectInfo>>;

    /// Deletes an object. `false` if there was none.
    fn remove(self: &Rc<Self>, bucket: String, key: String) -> impl Future<Output = StoreResult<bool>>;

    /// Begins an upload.
    fn begin_upload(
        self: &Rc<Self>,
        bucket: &str,
        key: &str,
        attributes: &Attributes,
    ) -> impl Future<Output = StoreResult<UploadId>>;

    /// Fails if parts of the upload may not change.
    ///
    /// # Errors
    /// `Device` where an object may have been made of them that nobody knows of yet.
    fn parts_may_change(&self, id: UploadId) -> StoreResult<()> {
        let _ = id;
        Ok(())
    }

    /// Makes bytes a part in place of the one of that number.
    fn put_part(
        self: &Rc<Self>,
        of: (String, String, UploadId),
        number: u32,
        attributes: Attributes,
        written: Self::Written,
    ) -> impl Future<Output = StoreResult<ObjectInfo>>;

    /// Makes parts of an upload the object and ends the upload.
    fn complete(
        self: &Rc<Self>,
        of: (String, String, UploadId),
        attributes: Attributes,
        chosen: Chosen<Self::Blob>,
    ) -> impl Future<Output = StoreResult<ObjectInfo>>;

    /// Ends an upload and drops its parts.
    fn end_upload(self: &Rc<Self>, of: (String, String, UploadId)) -> impl Future<Output = Result<(), Failed>>;
}
