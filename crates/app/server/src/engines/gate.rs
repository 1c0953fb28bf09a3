//! Access to an engine's store, before the engine is open and after it has stopped, too.
//!
//! **Knows nothing of** the reason why a store is not open but its words.
//!
//! # Invariants
//! - SV-GATE-1: a store that is not open refuses (`Unavailable`, which clients try again); it never answers "not found".

use std::sync::{Arc, PoisonError, RwLock};

use shingle_store_api::{
    Commit, CompletedPart, Condition, ObjectInfo, ObjectReader, ObjectStore, ObjectWriter, StoreError, StoreErrorKind,
    StoreFuture, StoreResult, UploadId, forward,
};

use crate::reports::damage::{Damage, NotedReader, NotedWriter};
use crate::reports::health::Health;

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
        // (SV-GATE-1)
        store.ok_or_else(|| StoreError::new(StoreErrorKind::Unavailable, self.health.refusal()))
    }
}

fn names(bucket: &str, key: &str) -> (String, String) {
    (bucket.to_owned(), key.to_owned())
}

impl ObjectStore for Gate {
    forward!(if_open |this| this.store(); create_bucket delete_bucket bucket list_buckets head list begin_upload begin_part upload
        list_parts list_uploads abort_upload usage);

    fn begin_put(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move {
            let writer = self.store()?.begin_put(&bucket, &key).await?;
            let damage = self.damage.clone();
            Ok(Box::new(NotedWriter { writer, damage, name: (bucket, key) }) as Box<dyn ObjectWriter>)
        })
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
}
