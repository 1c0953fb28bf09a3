//! The store as front ends see it: calls from any thread, over bounded queues to the engine's.

use std::sync::Arc;

use shingle_runtime::memory::Memory;
use shingle_store_api::{
    BucketInfo, Commit, CompletedPart, Condition, ListRequest, Listing, Metadata, ObjectInfo, ObjectReader,
    ObjectStore, ObjectWriter, PartInfo, StoreFuture, StoreResult, StoreUsage, UploadId, UploadInfo, UploadListing,
};

use crate::check::{CheckProgress, CheckReport, Depth};
use crate::engine::run::Entrance;
use crate::options::Options;
use crate::reader::Reader;
use crate::stats::ObjectStats;
use crate::writer::{Target, Writer};

/// An object store, from any thread. Cheap to clone. A full engine slows its callers.
#[derive(Clone)]
pub struct ObjectStoreClient {
    pub(crate) entrance: Entrance,
    budget_bytes: u32,
    pub(crate) memory: Arc<Memory>,
}

impl ObjectStoreClient {
    pub(crate) fn new(entrance: Entrance, options: &Options, budget_bytes: u32) -> Self {
        Self { entrance, budget_bytes, memory: options.memory.clone() }
    }

    /// Bytes a write may ask of the budget: all of it at most, so that one longer than it can go alone.
    pub(crate) fn share(&self, bytes: u64) -> u32 {
        bytes.clamp(1, u64::from(self.budget_bytes)) as u32
    }

    /// Counters and sizes.
    ///
    /// # Errors
    /// `Unavailable` if the store has stopped.
    pub async fn stats(&self) -> StoreResult<ObjectStats> {
        self.entrance.read(|core| async move { Ok(core.stats()) }).await
    }

    /// Collects all garbage there is, at once. Returns the bytes of files deleted.
    ///
    /// # Errors
    /// `NoSpace` if there is no room for copies; `Device` or `Corrupt` if a drive fails.
    pub async fn collect_garbage(&self) -> StoreResult<u64> {
        self.entrance.read(|core| async move { core.collect_all().await }).await
    }

    /// Backs the index up to the drives now. Returns the backup's size in bytes.
    ///
    /// # Errors
    /// `Busy` if a backup is being written; `NoSpace`, `Device`.
    pub async fn back_up_index(&self) -> StoreResult<u64> {
        self.entrance.read(|core| async move { core.back_up().await }).await
    }

    /// Makes the index durable, so that the next start need scan nothing written before.
    ///
    /// # Errors
    /// `Unavailable` if the index fails.
    pub async fn persist_index(&self) -> StoreResult<()> {
        self.entrance.read(|core| async move { core.persist().await }).await
    }

    /// Compares index and drives. What others change meanwhile is no damage (CHECK-1).
    ///
    /// # Errors
    /// `Unavailable` if the index fails or the store has stopped. Damage is no error; it is in the report.
    pub async fn check(&self, depth: Depth) -> StoreResult<CheckReport> {
        self.check_with(depth, |_| ()).await
    }

    /// The same, and `progress` is told how far it is.
    ///
    /// # Errors
    /// As [`ObjectStoreClient::check`].
    pub async fn check_with(
        &self,
        depth: Depth,
        mut progress: impl FnMut(CheckProgress) + Send + 'static,
    ) -> StoreResult<CheckReport> {
        self.entrance.read(move |core| async move { core.check(depth, false, &mut progress).await }).await
    }

    /// As [`ObjectStoreClient::check_with`], beside clients: it rests as long as it reads, and ends when its caller goes away.
    ///
    /// # Errors
    /// As [`ObjectStoreClient::check`].
    pub async fn check_gently(
        &self,
        depth: Depth,
        mut progress: impl FnMut(CheckProgress) + Send + 'static,
    ) -> StoreResult<CheckReport> {
        self.entrance.ask(move |core| async move { core.check(depth, true, &mut progress).await }).await
    }

    /// The store in words, a line at a time: files with their sizes, and every entry in them if `entries`.
    ///
    /// # Errors
    /// `Unavailable` if the store has stopped.
    pub async fn dump(&self, entries: bool, line: impl FnMut(String) + Send + 'static) -> StoreResult<()> {
        self.entrance.read(move |core| async move { core.dump(entries, line).await }).await
    }

    /// Stops the store once all calls so far have been answered; [`crate::ObjectEngine::closed`] then completes.
    pub async fn close(&self) {
        let close = |core: std::rc::Rc<crate::engine::Core>| async move {
            core.begin_close();
            Ok(())
        };
        // An error means that it has stopped already.
        let _ = self.entrance.read(close).await;
    }
}

impl ObjectStore for ObjectStoreClient {
    fn create_bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        let bucket = bucket.to_owned();
        Box::pin(self.entrance.write(|core| async move { core.create_bucket(bucket).await }))
    }

    fn delete_bucket(&self, bucket: &str) -> StoreFuture<'_, ()> {
        let bucket = bucket.to_owned();
        Box::pin(self.entrance.write(|core| async move { core.delete_bucket(bucket).await }))
    }

    fn bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        let bucket = bucket.to_owned();
        Box::pin(self.entrance.read(|core| async move { core.bucket(&bucket) }))
    }

    fn list_buckets(&self) -> StoreFuture<'_, Vec<BucketInfo>> {
        Box::pin(self.entrance.read(|core| async move { core.list_buckets() }))
    }

    fn begin_put(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        let target = Target::Object { bucket: bucket.to_owned(), key: key.to_owned() };
        let names = (bucket.to_owned(), key.to_owned());
        Box::pin(async move {
            let begin =
                |core: std::rc::Rc<crate::engine::Core>| async move { core.begin_put(&names.0, &names.1).await };
            let begun = self.entrance.read(begin).await?;
            Ok(Box::new(Writer::new(self.clone(), target, begun)) as Box<dyn ObjectWriter>)
        })
    }

    fn head(&self, bucket: &str, key: &str) -> StoreFuture<'_, ObjectInfo> {
        if let Some(info) = self.entrance.direct().and_then(|direct| direct.head(bucket, key)) {
            return Box::pin(std::future::ready(Ok(info)));
        }
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Box::pin(self.entrance.read(|core| async move { core.head(&bucket, &key).await }))
    }

    fn open(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectReader>> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Box::pin(async move {
            let entrance = self.entrance.clone();
            if let Some(direct) = entrance.direct()
                && let Some(opened) = direct.open(&bucket, &key, &entrance.releases)
            {
                return Ok(Box::new(Reader::new(entrance, bucket, opened)) as Box<dyn ObjectReader>);
            }
            let open = move |core: std::rc::Rc<crate::engine::Core>| async move {
                let opened = core.open_object(&bucket, &key, &entrance.releases).await?;
                // Made here, so that what is pinned is let go even if the caller has gone away.
                Ok(Reader::new(entrance, bucket, opened))
            };
            Ok(Box::new(self.entrance.read(open).await?) as Box<dyn ObjectReader>)
        })
    }

    fn delete_if(&self, bucket: &str, key: &str, condition: Condition) -> StoreFuture<'_, bool> {
        let names = (bucket.to_owned(), key.to_owned());
        let (bucket, key) = names.clone();
        let deleting = self.entrance.write(|core| async move { core.delete(bucket, key, condition).await });
        Box::pin(async move { deleting.await.map_err(|error| error.about(&names.0, &names.1)) })
    }

    /// The objects of a listing carry no part sizes; [`ObjectStore::head`] gives them.
    fn list(&self, bucket: &str, request: ListRequest) -> StoreFuture<'_, Listing> {
        let bucket = bucket.to_owned();
        Box::pin(self.entrance.read(|core| async move { core.list(&bucket, request).await }))
    }

    fn begin_upload(&self, bucket: &str, key: &str, metadata: Metadata) -> StoreFuture<'_, UploadInfo> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Box::pin(self.entrance.write(|core| async move { core.begin_upload(bucket, key, metadata).await }))
    }

    fn begin_part(&self, bucket: &str, key: &str, id: UploadId, number: u32) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        let target = Target::Part { bucket: bucket.clone(), key: key.clone(), id, number };
        Box::pin(async move {
            let begin = move |core: std::rc::Rc<crate::engine::Core>| async move {
                core.begin_part(&bucket, &key, id, number).await
            };
            let begun = self.entrance.read(begin).await?;
            Ok(Box::new(Writer::new(self.clone(), target, begun)) as Box<dyn ObjectWriter>)
        })
    }

    fn upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, UploadInfo> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Box::pin(self.entrance.read(move |core| async move { core.upload(&bucket, &key, id).await }))
    }

    fn list_parts(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        after: u32,
        limit: usize,
    ) -> StoreFuture<'_, (Vec<PartInfo>, bool)> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        let list = move |core: std::rc::Rc<crate::engine::Core>| async move {
            core.list_parts(&bucket, &key, id, after, limit).await
        };
        Box::pin(self.entrance.read(list))
    }

    fn list_uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, Option<UploadId>)>,
        limit: usize,
    ) -> StoreFuture<'_, UploadListing> {
        let (bucket, prefix) = (bucket.to_owned(), prefix.to_owned());
        let list = move |core: std::rc::Rc<crate::engine::Core>| async move {
            core.list_uploads(&bucket, &prefix, after, limit).await
        };
        Box::pin(self.entrance.read(list))
    }

    fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        parts: Vec<CompletedPart>,
        commit: Commit,
    ) -> StoreFuture<'_, ObjectInfo> {
        let names = (bucket.to_owned(), key.to_owned());
        let of = names.clone();
        let complete = move |core: std::rc::Rc<crate::engine::Core>| async move {
            core.complete_upload(of, id, parts, commit).await
        };
        let completing = self.entrance.write(complete);
        Box::pin(async move { completing.await.map_err(|error| error.about(&names.0, &names.1)) })
    }

    fn abort_upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, ()> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Box::pin(self.entrance.write(move |core| async move { core.abort_upload(&bucket, &key, id).await }))
    }

    fn usage(&self) -> StoreFuture<'_, StoreUsage> {
        Box::pin(self.entrance.read(|core| async move { core.usage().await }))
    }
}

/// Front ends hold the store as a trait object.
impl From<ObjectStoreClient> for Arc<dyn ObjectStore> {
    fn from(client: ObjectStoreClient) -> Self {
        Arc::new(client)
    }
}
