//! Access to an engine's store, before the engine is open and after it has stopped, too.
//!
//! **Knows nothing of** the reason why a store is not open but its words.
//!
//! # Invariants
//! - GATE-1: a store that is not open refuses (`Unavailable`, which clients try again); it never answers "not found".

use std::sync::{Arc, PoisonError, RwLock};

use shingle_store_api::{
    BucketInfo, Commit, CompletedPart, Condition, ListRequest, Listing, Metadata, ObjectInfo, ObjectReader,
    ObjectStore, ObjectWriter, PartInfo, StoreError, StoreErrorKind, StoreFuture, StoreResult, StoreUsage, UploadId,
    UploadInfo, UploadListing,
};

use crate::damage::{Damage, NotedReader, NotedWriter};
use crate::health::Health;

/// A store that may be open.
pub(crate) struct Gate {
    /// Source of the refusal's words.
    health: Health,
    /// Damage that readers meet.
    damage: Arc<Damage>,
    store: RwLock<Option<Arc<dyn ObjectStore>>>,
}

impl Gate {
    /// Shut, until [`Gate::open`].
    pub(crate) fn new(health: Health, damage: Arc<Damage>) -> Self {
        Self { health, damage, store: RwLock::default() }
    }

    pub(crate) fn open(&self, store: Arc<dyn ObjectStore>) {
        *self.store.write().unwrap_or_else(PoisonError::into_inner) = Some(store);
    }

    /// Calls that are under way go on.
    pub(crate) fn shut(&self) {
        *self.store.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn store(&self) -> StoreResult<Arc<dyn ObjectStore>> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner).clone();
        // (GATE-1)
        store.ok_or_else(|| StoreError::new(StoreErrorKind::Unavailable, self.health.refusal()))
    }
}

fn names(bucket: &str, key: &str) -> (String, String) {
    (bucket.to_owned(), key.to_owned())
}

impl ObjectStore for Gate {
    fn create_bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        let bucket = bucket.to_owned();
        Box::pin(async move { self.store()?.create_bucket(&bucket).await })
    }

    fn delete_bucket(&self, bucket: &str) -> StoreFuture<'_, ()> {
        let bucket = bucket.to_owned();
        Box::pin(async move { self.store()?.delete_bucket(&bucket).await })
    }

    fn bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        let bucket = bucket.to_owned();
        Box::pin(async move { self.store()?.bucket(&bucket).await })
    }

    fn list_buckets(&self) -> StoreFuture<'_, Vec<BucketInfo>> {
        Box::pin(async move { self.store()?.list_buckets().await })
    }

    fn begin_put(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move {
            let writer = self.store()?.begin_put(&bucket, &key).await?;
            let damage = self.damage.clone();
            Ok(Box::new(NotedWriter { writer, damage, name: (bucket, key) }) as Box<dyn ObjectWriter>)
        })
    }

    fn head(&self, bucket: &str, key: &str) -> StoreFuture<'_, ObjectInfo> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move { self.store()?.head(&bucket, &key).await })
    }

    fn open(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectReader>> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move {
            let opened = self.store()?.open(&bucket, &key).await;
            self.damage.met(&bucket, &key, &opened);
            let damage = self.damage.clone();
            Ok(Box::new(NotedReader { reader: opened?, damage, name: (bucket, key) }) as Box<dyn ObjectReader>)
        })
    }

    fn delete_if(&self, bucket: &str, key: &str, condition: Condition) -> StoreFuture<'_, bool> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move {
            let deleted = self.store()?.delete_if(&bucket, &key, condition).await?;
            self.damage.gone(&bucket, &key);
            Ok(deleted)
        })
    }

    fn list(&self, bucket: &str, request: ListRequest) -> StoreFuture<'_, Listing> {
        let bucket = bucket.to_owned();
        Box::pin(async move { self.store()?.list(&bucket, request).await })
    }

    fn begin_upload(&self, bucket: &str, key: &str, metadata: Metadata) -> StoreFuture<'_, UploadInfo> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move { self.store()?.begin_upload(&bucket, &key, metadata).await })
    }

    fn begin_part(&self, bucket: &str, key: &str, id: UploadId, number: u32) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move { self.store()?.begin_part(&bucket, &key, id, number).await })
    }

    fn upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, UploadInfo> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move { self.store()?.upload(&bucket, &key, id).await })
    }

    fn list_parts(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        after: u32,
        limit: usize,
    ) -> StoreFuture<'_, (Vec<PartInfo>, bool)> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move { self.store()?.list_parts(&bucket, &key, id, after, limit).await })
    }

    fn list_uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, Option<UploadId>)>,
        limit: usize,
    ) -> StoreFuture<'_, UploadListing> {
        let (bucket, prefix) = names(bucket, prefix);
        Box::pin(async move { self.store()?.list_uploads(&bucket, &prefix, after, limit).await })
    }

    fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        parts: Vec<CompletedPart>,
        commit: Commit,
    ) -> StoreFuture<'_, ObjectInfo> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move {
            let info = self.store()?.complete_upload(&bucket, &key, id, parts, commit).await?;
            self.damage.gone(&bucket, &key);
            Ok(info)
        })
    }

    fn abort_upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, ()> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move { self.store()?.abort_upload(&bucket, &key, id).await })
    }

    fn usage(&self) -> StoreFuture<'_, StoreUsage> {
        Box::pin(async move { self.store()?.usage().await })
    }
}
