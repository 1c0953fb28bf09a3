//! Changes that fail and may have landed, on stores that find out at their next start: what is acknowledged after them is final.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use shingle_placement::{Placement, Site};
use shingle_store_api::{
    BucketInfo, Commit, Condition, ListRequest, Metadata, ObjectInfo, ObjectStore, ObjectWriter, SiteName, StoreError,
    StoreErrorKind, StoreFuture, StoreResult, forward,
};
use shingle_store_testing::MemoryStore;

type Names = (String, String);

/// Objects that landed and that nobody sees before the next start, as engines have them after a drive failed.
type Unseen = Arc<Mutex<BTreeMap<Names, Vec<Bytes>>>>;

/// A store whose puts, and creations and deletions of buckets, fail and have landed while its drive does. A delete is newer than all that landed
/// of its key or bucket; a bucket whose deletion failed is not there.
#[derive(Clone)]
struct Unsure {
    inner: Arc<MemoryStore>,
    unseen: Unseen,
    /// Buckets that landed so.
    made: Arc<Mutex<BTreeSet<String>>>,
    fails: Arc<AtomicBool>,
    /// Deletions of buckets fail, and nothing has changed.
    refuses: Arc<AtomicBool>,
}

impl Unsure {
    fn new() -> Self {
        Self {
            inner: Arc::new(MemoryStore::new(1 << 30)),
            unseen: Unseen::default(),
            made: Arc::default(),
            fails: Arc::default(),
            refuses: Arc::default(),
        }
    }

    /// All that landed is seen from now on.
    async fn restart(&self) {
        let made = std::mem::take(&mut *self.made.lock().unwrap());
        for bucket in made {
            self.inner.create_bucket(&bucket).await.unwrap();
        }
        let landed = std::mem::take(&mut *self.unseen.lock().unwrap());
        for ((bucket, key), data) in landed {
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
    forward!(by_reference |this| &*this.inner; bucket list_buckets head open list begin_upload begin_part upload list_parts
        list_uploads complete_upload abort_upload usage);

    fn create_bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        let bucket = bucket.to_owned();
        Box::pin(async move {
            if !self.fails.load(Relaxed) {
                self.made.lock().unwrap().remove(&bucket);
                return self.inner.create_bucket(&bucket).await;
            }
            self.made.lock().unwrap().insert(bucket);
            Err(StoreError::new(StoreErrorKind::Device, "a drive failed in the middle"))
        })
    }

    fn delete_bucket(&self, bucket: &str) -> StoreFuture<'_, ()> {
        let bucket = bucket.to_owned();
        Box::pin(async move {
            if self.refuses.load(Relaxed) {
                return Err(StoreError::new(StoreErrorKind::Unavailable, "nothing is written now"));
            }
            if !self.fails.load(Relaxed) && self.made.lock().unwrap().remove(&bucket) {
                return Ok(());
            }
            self.inner.delete_bucket(&bucket).await?;
            match self.fails.load(Relaxed) {
                true => Err(StoreError::new(StoreErrorKind::Device, "a drive failed in the middle")),
                false => Ok(()),
            }
        })
    }

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

const CLASSES: [&str; 2] = ["STANDARD", "COLD"];

/// Two sites as one.
async fn opened() -> ([Unsure; 2], Placement) {
    let stores = [Unsure::new(), Unsure::new()];
    let all = begun(&stores).await;
    (stores, all)
}

/// The same with what the stores have.
async fn begun(stores: &[Unsure; 2]) -> Placement {
    let sites = stores.iter().zip(CLASSES).map(|(store, class)| Site {
        name: class.to_owned(),
        class: (class != "STANDARD").then(|| class.to_owned()),
        store: Arc::new(store.clone()),
    });
    Placement::open(sites.collect()).await.unwrap()
}

fn at(all: &Placement, site: usize) -> Arc<dyn ObjectStore> {
    all.at(SiteName::Class(CLASSES[site])).unwrap()
}

/// PL-PLC-7: a put failed on one of the sites and has landed there, and another may have been acknowledged on the other site. A delete that is
/// acknowledged after them is final, whichever of the sites has the object that everyone sees.
#[tokio::test]
async fn a_delete_after_a_put_that_may_have_landed_on_any_site_is_final() {
    for (failed, acknowledged) in [(0, None), (1, None), (0, Some(1)), (1, Some(0)), (0, Some(0)), (1, Some(1))] {
        let context = format!("failed on {failed}, acknowledged on {acknowledged:?}");
        let (stores, all) = opened().await;
        let at = |site| at(&all, site);
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

/// PL-PLC-8, BK-GONE-1: the deletion of a bucket failed on one of its sites, and has landed there. The bucket can be deleted to its end or made
/// anew, wherever it is made then, and takes objects of each class.
#[tokio::test]
async fn a_bucket_whose_deletion_failed_can_be_deleted_and_made_anew() {
    for (failed, guest) in [(0, false), (0, true), (1, true)] {
        for (deleted_again, home) in [(false, 0), (true, 0), (false, 1), (true, 1)] {
            let context = format!("failed on {failed}, guest {guest}, deleted again {deleted_again}, made on {home}");
            let (stores, all) = opened().await;
            all.create_bucket("b").await.unwrap();
            if guest {
                put(&*at(&all, 1)).await.unwrap();
                assert!(all.delete("b", "k").await.unwrap());
            }
            stores[failed].fails.store(true, Relaxed);
            assert_eq!(all.delete_bucket("b").await.unwrap_err().kind, StoreErrorKind::Device, "{context}");
            stores[failed].fails.store(false, Relaxed);

            if deleted_again {
                all.delete_bucket("b").await.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_eq!(all.bucket("b").await.unwrap_err().kind, StoreErrorKind::NoSuchBucket, "{context}");
                assert!(all.list_buckets().await.unwrap().is_empty(), "{context}");
            }
            // It is there yet if its deletion failed on a guest.
            let made = all.at(SiteName::Location(CLASSES[home])).unwrap().create_bucket("b").await;
            let kind = made.err().map(|error| error.kind);
            let there = failed == 1 && !deleted_again;
            assert_eq!(kind, there.then_some(StoreErrorKind::BucketExists), "{context}");
            for site in [1, 0] {
                put(&*at(&all, site)).await.unwrap_or_else(|error| panic!("{context}, class {site}: {error}"));
                assert!(all.head("b", "k").await.is_ok(), "{context}");
            }
            let location = all.bucket("b").await.unwrap().location;
            assert_eq!(location.is_some(), home == 1 && !there, "{context}");
            assert!(all.delete("b", "k").await.unwrap(), "{context}");
            all.delete_bucket("b").await.unwrap_or_else(|error| panic!("{context}: {error}"));
            for store in &stores {
                assert!(store.inner.list_buckets().await.unwrap().is_empty(), "{context}");
            }
        }
    }
}

/// PL-PLC-8: a bucket whose deletion was refused by one of its sites is there, with what was put into it since.
#[tokio::test]
async fn a_bucket_whose_deletion_was_refused_stays() {
    for refused in [0, 1] {
        let (stores, all) = opened().await;
        all.create_bucket("b").await.unwrap();
        put(&*at(&all, 1)).await.unwrap();
        assert!(all.delete("b", "k").await.unwrap());
        stores[refused].refuses.store(true, Relaxed);
        assert_eq!(all.delete_bucket("b").await.unwrap_err().kind, StoreErrorKind::Unavailable);
        stores[refused].refuses.store(false, Relaxed);
        put(&*at(&all, 1)).await.unwrap();
        assert_eq!(all.create_bucket("b").await.unwrap_err().kind, StoreErrorKind::BucketExists);
        assert_eq!(all.delete_bucket("b").await.unwrap_err().kind, StoreErrorKind::BucketNotEmpty);
        assert!(all.head("b", "k").await.is_ok());
    }
}

/// PL-PLC-9: the creation of a guest failed and has landed. Once its bucket is deleted, nothing of it comes back.
#[tokio::test]
async fn a_bucket_is_gone_with_a_guest_whose_creation_failed() {
    let (stores, all) = opened().await;
    all.create_bucket("b").await.unwrap();
    stores[1].fails.store(true, Relaxed);
    assert_eq!(put(&*at(&all, 1)).await.unwrap_err().kind, StoreErrorKind::Device);
    stores[1].fails.store(false, Relaxed);
    // It is made anew, if it is needed.
    put(&*at(&all, 0)).await.unwrap();
    assert!(all.delete("b", "k").await.unwrap());
    all.delete_bucket("b").await.unwrap();
    for store in &stores {
        store.restart().await;
    }
    let all = begun(&stores).await;
    assert_eq!(all.bucket("b").await.unwrap_err().kind, StoreErrorKind::NoSuchBucket);
    assert!(all.list_buckets().await.unwrap().is_empty());
}

/// PL-PLC-9: the creation of a bucket failed on one site, and has landed or not. The bucket is made on another one: then it is there alone.
#[tokio::test]
async fn a_bucket_whose_creation_failed_on_a_site_is_made_on_another() {
    for landed in [false, true] {
        let (stores, all) = opened().await;
        stores[0].fails.store(true, Relaxed);
        assert_eq!(all.create_bucket("b").await.unwrap_err().kind, StoreErrorKind::Device);
        stores[0].fails.store(false, Relaxed);
        if !landed {
            stores[0].made.lock().unwrap().clear();
        }
        assert!(all.list_buckets().await.unwrap().is_empty(), "landed {landed}");
        let list = all.list("b", ListRequest::default()).await.err();
        let uploads = all.list_uploads("b", "", None, 1).await.err();
        let get = all.open("b", "k").await.err();
        let upload = at(&all, 1).begin_upload("b", "k", Metadata::default()).await.err();
        let puts = [put(&all).await.err(), put(&*at(&all, 1)).await.err()];
        for error in [list, uploads, get, all.head("b", "k").await.err(), upload].into_iter().chain(puts) {
            assert_eq!(error.map(|error| error.kind), Some(StoreErrorKind::NoSuchBucket), "landed {landed}");
        }
        all.at(SiteName::Location(CLASSES[1])).unwrap().create_bucket("b").await.unwrap();
        put(&all).await.unwrap();
        for store in &stores {
            store.restart().await;
        }
        // Two homes of one name would be refused.
        let all = begun(&stores).await;
        assert!(all.head("b", "k").await.is_ok(), "landed {landed}");
        assert!(all.bucket("b").await.unwrap().location.is_some(), "landed {landed}");
    }
}
