//! The store as front ends see it: calls from any thread, over bounded queues to the owner's.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{Either, select};

use shingle_runtime::memory::Memory;
use shingle_runtime::owner::Desk;
use shingle_store_api::{
    BucketInfo, Commit, CompletedPart, Condition, ListRequest, Listing, Metadata, ObjectInfo, ObjectReader,
    ObjectStore, ObjectWriter, PartInfo, StoreFuture, StoreResult, StoreUsage, UploadId, UploadInfo, UploadListing,
};
use tokio::sync::mpsc;

use shingle_array_store::{self as array, CheckReport, Condition as ArrayCondition, Inspection, ScrubReport};

use crate::engine::Core;
use crate::engine::run::Notice;
use crate::errors::{from_array, gone};
use crate::options::{ArrayFigures, Options};
use crate::places::Places;
use crate::reader::Reader;
use crate::writer::{Target, Writer};

/// A store on an array, from any thread. Cheap to clone. An owner that is behind slows its callers.
#[derive(Clone)]
pub struct ArrayClient {
    /// Calls that only read.
    reads: Desk<Core>,
    /// Calls that change something.
    writes: Desk<Core>,
    /// Never waits, so that dropping a reader or writer never does.
    pub(crate) notices: mpsc::UnboundedSender<Notice>,
    /// Large objects that may be written at a time.
    pub(crate) places: Arc<Places>,
    pub(crate) whole_bytes_max: usize,
    pub(crate) memory: Arc<Memory>,
}

impl ArrayClient {
    pub(crate) fn new(
        reads: Desk<Core>,
        writes: Desk<Core>,
        notices: mpsc::UnboundedSender<Notice>,
        places: Arc<Places>,
        options: &Options,
    ) -> Self {
        let (whole_bytes_max, memory) = (options.whole_bytes_max, options.memory.clone());
        Self { reads, writes, notices, places, whole_bytes_max, memory }
    }

    /// Has `work` done on the owner's thread, in the queue of calls that only read.
    pub(crate) async fn read<T, F>(&self, work: impl FnOnce(Rc<Core>) -> F + Send + 'static) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static,
    {
        self.reads.call(work).await.map_err(gone)?
    }

    /// As [`ArrayClient::read`], for what may be broken off anywhere: it ends when the caller goes away.
    pub(crate) async fn ask<T, F>(&self, work: impl FnOnce(Rc<Core>) -> F + Send + 'static) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static,
    {
        self.reads.ask(work).await.map_err(gone)?
    }

    /// As [`ArrayClient::read`], for calls that change something.
    pub(crate) async fn write<T, F>(&self, work: impl FnOnce(Rc<Core>) -> F + Send + 'static) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static,
    {
        self.writes.call(work).await.map_err(gone)?
    }

    /// How full the array is, and what it did.
    ///
    /// # Errors
    /// `Unavailable` if the array has stopped.
    pub async fn figures(&self) -> StoreResult<ArrayFigures> {
        self.read(|core| async move { core.figures() }).await
    }

    /// How the array stands: its drives, a rebuild that is under way, and with `sets` what it can still lose.
    ///
    /// # Errors
    /// `Unavailable` if the array has stopped.
    pub async fn condition(&self, sets: bool) -> StoreResult<ArrayCondition> {
        self.read(move |core| async move { core.condition(sets) }).await
    }

    /// What the array is, and its drives now.
    ///
    /// # Errors
    /// `Unavailable` if the array has stopped.
    pub async fn inspection(&self) -> StoreResult<Inspection> {
        self.read(|core| async move { core.store.inspection().map_err(from_array) }).await
    }

    /// Objects of the array itself, by the names that they have there: as [`array::ArrayStore::list`].
    ///
    /// # Errors
    /// `Unavailable` if the array has stopped.
    pub async fn array_objects(
        &self,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> StoreResult<Vec<array::Object>> {
        let list =
            move |core: Rc<Core>| async move { core.store.list(&prefix, after.as_deref(), limit).map_err(from_array) };
        self.ask(list).await
    }

    /// One of them: as [`array::ArrayStore::head`], with its errors.
    ///
    /// # Errors
    /// `Unavailable` if the array has stopped.
    pub async fn array_object(&self, name: Vec<u8>) -> StoreResult<array::Result<array::Object>> {
        self.read(|core| async move { Ok(core.store.head(&name)) }).await
    }

    /// Checks the array beside its users: as [`array::ArrayStore::check_gently`]. It ends when its caller goes away, or the array is
    /// closed.
    ///
    /// # Errors
    /// `Unavailable` if the array has stopped, or is closed meanwhile; `Device`. Damage is in the report.
    pub async fn check_gently(
        &self,
        quick: bool,
        progress: impl FnMut(&ScrubReport) + Send + 'static,
    ) -> StoreResult<CheckReport> {
        let check = move |core: Rc<Core>| async move {
            let checking = pin!(core.store.check_gently(quick, progress));
            match select(checking, pin!(core.closing.wanted())).await {
                Either::Left((report, _)) => report.map_err(from_array),
                Either::Right(_) => Err(gone(shingle_runtime::owner::Gone)),
            }
        };
        self.ask(check).await
    }

    /// Stops the store once all calls so far have been answered; [`crate::ArrayEngine::closed`] then completes.
    pub async fn close(&self) {
        let close = |core: Rc<Core>| async move {
            core.closing.begin();
            Ok(())
        };
        // An error means that it has stopped already.
        let _ = self.read(close).await;
    }
}

fn names(bucket: &str, key: &str) -> (String, String) {
    (bucket.to_owned(), key.to_owned())
}

impl ObjectStore for ArrayClient {
    fn create_bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        let bucket = bucket.to_owned();
        Box::pin(self.write(|core| async move { core.create_bucket(bucket).await }))
    }

    fn delete_bucket(&self, bucket: &str) -> StoreFuture<'_, ()> {
        let bucket = bucket.to_owned();
        Box::pin(self.write(|core| async move { core.delete_bucket(bucket).await }))
    }

    fn bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        let bucket = bucket.to_owned();
        Box::pin(self.read(|core| async move { core.bucket(&bucket) }))
    }

    fn list_buckets(&self) -> StoreFuture<'_, Vec<BucketInfo>> {
        Box::pin(self.read(|core| async move { Ok(core.list_buckets()) }))
    }

    fn begin_put(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move {
            let target = Target::Object { bucket: bucket.clone(), key: key.clone() };
            self.read(move |core| async move { core.check_put(&bucket, &key) }).await?;
            Ok(Box::new(Writer::new(self.clone(), target, None)) as Box<dyn ObjectWriter>)
        })
    }

    fn head(&self, bucket: &str, key: &str) -> StoreFuture<'_, ObjectInfo> {
        let (bucket, key) = names(bucket, key);
        Box::pin(self.read(|core| async move { core.head(&bucket, &key) }))
    }

    fn open(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectReader>> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move {
            let client = self.clone();
            let open = move |core: Rc<Core>| async move {
                let (number, info) = core.open_object(&bucket, &key)?;
                // Made here, so that what is open is let go even if the caller has gone away.
                Ok(Reader::new(client, number, bucket, info))
            };
            Ok(Box::new(self.read(open).await?) as Box<dyn ObjectReader>)
        })
    }

    fn delete_if(&self, bucket: &str, key: &str, condition: Condition) -> StoreFuture<'_, bool> {
        let names = names(bucket, key);
        let (bucket, key) = names.clone();
        let deleting = self.write(|core| async move { core.delete(bucket, key, condition).await });
        Box::pin(async move { deleting.await.map_err(|error| error.about(&names.0, &names.1)) })
    }

    /// The objects of a listing carry no part sizes; [`ObjectStore::head`] gives them.
    fn list(&self, bucket: &str, request: ListRequest) -> StoreFuture<'_, Listing> {
        let bucket = bucket.to_owned();
        Box::pin(self.read(|core| async move { core.list(bucket, request).await }))
    }

    fn begin_upload(&self, bucket: &str, key: &str, metadata: Metadata) -> StoreFuture<'_, UploadInfo> {
        let (bucket, key) = names(bucket, key);
        Box::pin(self.write(|core| async move { core.begin_upload(bucket, key, metadata).await }))
    }

    fn begin_part(&self, bucket: &str, key: &str, id: UploadId, number: u32) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move {
            let target = Target::Part { bucket: bucket.clone(), key: key.clone(), id };
            let part = self.read(move |core| async move { core.check_part(&bucket, &key, id, number) }).await?;
            Ok(Box::new(Writer::new(self.clone(), target, Some(part))) as Box<dyn ObjectWriter>)
        })
    }

    fn upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, UploadInfo> {
        let (bucket, key) = names(bucket, key);
        Box::pin(self.read(move |core| async move { core.upload(&bucket, &key, id) }))
    }

    fn list_parts(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        after: u32,
        limit: usize,
    ) -> StoreFuture<'_, (Vec<PartInfo>, bool)> {
        let names = names(bucket, key);
        Box::pin(self.read(move |core| async move { core.list_parts(names, id, after, limit).await }))
    }

    fn list_uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, Option<UploadId>)>,
        limit: usize,
    ) -> StoreFuture<'_, UploadListing> {
        let (bucket, prefix) = names(bucket, prefix);
        Box::pin(self.read(move |core| async move { core.list_uploads(bucket, prefix, after, limit).await }))
    }

    fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        parts: Vec<CompletedPart>,
        commit: Commit,
    ) -> StoreFuture<'_, ObjectInfo> {
        let names = names(bucket, key);
        let of = names.clone();
        let completing = self.write(move |core| async move { core.complete_upload(of, id, parts, commit).await });
        Box::pin(async move { completing.await.map_err(|error| error.about(&names.0, &names.1)) })
    }

    fn abort_upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, ()> {
        let (bucket, key) = names(bucket, key);
        Box::pin(self.write(move |core| async move { core.abort_upload(bucket, key, id).await }))
    }

    fn usage(&self) -> StoreFuture<'_, StoreUsage> {
        Box::pin(self.read(|core| async move { core.usage() }))
    }
}

/// Front ends hold the store as a trait object.
impl From<ArrayClient> for Arc<dyn ObjectStore> {
    fn from(client: ArrayClient) -> Self {
        Arc::new(client)
    }
}
