//! Puts that fail and may have landed, on stores that find out at their next start: what is acknowledged after them is final.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use shingle_placement::{Placement, Site};
use shingle_store_api::{
    Commit, Condition, ObjectInfo, ObjectStore, ObjectWriter, SiteName, StoreError, StoreErrorKind, StoreFuture,
    StoreResult, forward,
};
use shingle_store_testing::MemoryStore;

type Names = (String, String);

/// Objects that landed and that nobody sees before the next start, as engines have them after a drive failed.
type Unseen = Arc<Mutex<BTreeMap<Names, Vec<Bytes>>>>;

/// A store whose puts fail and have landed while its drive does. A delete of a key is newer than all that landed of it.
#[derive(Clone)]
struct Unsure {
    inner: Arc<MemoryStore>,
    unseen: Unseen,
    fails: Arc<AtomicBool>,
}

impl Unsure {
    fn new() -> Self {
        Self { inner: Arc::new(MemoryStore::new(1 << 30)), unseen: Unseen::default(), fails: Arc::default() }
    }

    /// What landed is seen from now on.
    async fn restart(&self) {
        for ((bucket, key), data) in std::mem::take(&mut *self.unseen.lock().unwrap()) {
            let mut writer = self.inner.begin_put(&bucket, &key).await.unwrap();
            for piece in data {
                writer.write(piece).await.unwrap();
            }
            writer.commit(commit("landed")).await.unwrap();
        }
    }
}

struct UnsureWriter {
    store: Unsure,
    of: Names,
    data: Vec<Bytes>,
    inner: Box<dyn ObjectWriter>,
}

impl ObjectWriter for UnsureWriter {
    fn write(&mut self, data: Bytes) -> StoreFuture<'_, ()> {
        self.data.push(data.clone());
        self.inner.write(data)
    }

    fn commit(self: Box<Self>, commit: Commit) -> StoreFuture<'static, ObjectInfo> {
        let Self { store, of, data, inner } = *self;
        if !store.fails.load(Relaxed) {
            return inner.commit(commit);
        }
        store.unseen.lock().unwrap().insert(of, data);
        Box::pin(async { Err(StoreError::new(StoreErrorKind::Device, "a drive failed in the middle")) })
    }
}

impl ObjectStore for Unsure {
    forward!(by_reference |this| &*this.inner; create_bucket delete_bucket bucket list_buckets head open list begin_upload begin_part upload
        list_parts list_uploads complete_upload abort_upload usage);

    fn begin_put(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        let of = (bucket.to_owned(), key.to_owned());
        Box::pin(async move {
            let inner = self.inner.begin_put(&of.0, &of.1).await?;
            Ok(Box::new(UnsureWriter { store: self.clone(), of, data: Vec::new(), inner }) as Box<dyn ObjectWriter>)
        })
    }

    fn delete_if(&self, bucket: &str, key: &str, condition: Condition) -> StoreFuture<'_, bool> {
        let of = (bucket.to_owned(), key.to_owned());
        Box::pin(async move {
            let deleted = self.inner.delete_if(&of.0, &of.1, condition).await?;
            self.unseen.lock().unwrap().remove(&of);
            Ok(deleted)
        })
    }
}

fn commit(etag: &str) -> Commit {
    Commit { etag: etag.to_owned(), ..Commit::default() }
}

async fn put(store: &dyn ObjectStore) -> StoreResult<ObjectInfo> {
    let mut writer = store.begin_put("b", "k").await?;
    writer.write(Bytes::from_static(b"x")).await?;
    writer.commit(commit("e")).await
}

/// PL-PLC-7: a put failed on one of the sites and has landed there, and another may have been acknowledged on the other site. A delete that is
/// acknowledged after them is final, whichever of the sites has the object that everyone sees.
#[tokio::test]
async fn a_delete_after_a_put_that_may_have_landed_on_any_site_is_final() {
    for (failed, acknowledged) in [(0, None), (1, None), (0, Some(1)), (1, Some(0)), (0, Some(0)), (1, Some(1))] {
        let context = format!("failed on {failed}, acknowledged on {acknowledged:?}");
        let stores = [Unsure::new(), Unsure::new()];
        let sites = stores.iter().zip(["STANDARD", "COLD"]).map(|(store, class)| Site {
            name: class.to_owned(),
            class: (class != "STANDARD").then(|| class.to_owned()),
            store: Arc::new(store.clone()),
        });
        let all = Placement::open(sites.collect()).await.unwrap();
        let at = |site: usize| all.at(SiteName::Class(["STANDARD", "COLD"][site])).unwrap();
        all.create_bucket("b").await.unwrap();
        put(&*at(1)).await.unwrap();
        assert!(all.delete("b", "k").await.unwrap());

        if let Some(site) = acknowledged {
            put(&*at(site)).await.unwrap();
        }
        stores[failed].fails.store(true, Relaxed);
        assert_eq!(put(&*at(failed)).await.unwrap_err().kind, StoreErrorKind::Device);
        stores[failed].fails.store(false, Relaxed);
        assert_eq!(all.delete("b", "k").await.unwrap(), acknowledged.is_some(), "{context}");
        for store in &stores {
            store.restart().await;
        }
        assert_eq!(all.head("b", "k").await.unwrap_err().kind, StoreErrorKind::NoSuchKey, "{context}");
    }
}
