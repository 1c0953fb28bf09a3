//! PL-PLC-6: sites that do not answer, and those that come later.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use shingle_placement::{Noted, Notes, Placement, Site};
use shingle_store_api::{Commit, ObjectInfo, ObjectStore, SiteName, StoreError, StoreErrorKind, StoreResult, forward};
use shingle_store_testing::MemoryStore;

/// A store that does not answer.
struct Gone;

fn gone() -> StoreResult<Arc<dyn ObjectStore>> {
    Err(StoreError::new(StoreErrorKind::Unavailable, "the shelf is gone"))
}

impl ObjectStore for Gone {
    forward!(if_open |_this| gone(); all);
}

/// Notes in memory, in the order in which they were made.
#[derive(Default)]
struct Pad(Mutex<Vec<String>>);

impl Notes for Pad {
    fn add(&self, site: &str, bucket: &str) -> StoreResult<()> {
        self.0.lock().unwrap().push(format!("+{site} {bucket}"));
        Ok(())
    }

    fn remove(&self, site: &str, bucket: &str) {
        self.0.lock().unwrap().push(format!("-{site} {bucket}"));
    }
}

fn site(name: &str, store: Arc<dyn ObjectStore>) -> Site {
    let class = (name == "shelf").then(|| "COLD".to_owned());
    Site { name: name.to_owned(), class, store }
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(1 << 30))
}

fn noted(bucket: &str) -> Noted {
    Noted { bucket: bucket.to_owned(), created_unix_s: 7 }
}

async fn put(store: &dyn ObjectStore, bucket: &str) -> Result<(), StoreErrorKind> {
    let mut writer = store.begin_put(bucket, "k").await.map_err(|error| error.kind)?;
    writer.write(Bytes::from_static(b"x")).await.unwrap();
    let commit = Commit { etag: "e".to_owned(), ..Commit::default() };
    writer.commit(commit).await.map(drop).map_err(|error| error.kind)
}

#[tokio::test]
async fn a_site_that_does_not_answer_stops_its_own_buckets_alone() {
    let fast = memory();
    for bucket in ["free", "mixed"] {
        fast.create_bucket(bucket).await.unwrap();
    }
    let sites = vec![site("drives", fast.clone()), site("shelf", Arc::new(Gone))];
    let known = vec![None, Some(vec![noted("cold"), noted("/mixed")])];
    let pad = Arc::new(Pad::default());
    let all = Placement::begin(sites, known, Some(pad.clone()));
    all.learn(0, &*fast).await.unwrap();

    assert_eq!(put(&all, "free").await, Ok(()));
    assert_eq!(all.head("free", "k").await.unwrap().size, 1);
    let unavailable = Some(StoreErrorKind::Unavailable);
    for bucket in ["cold", "mixed"] {
        let of = |result: StoreResult<ObjectInfo>| result.err().map(|error| error.kind);
        assert_eq!(of(all.head(bucket, "k").await), unavailable, "{bucket}: what cannot be read is not away");
        assert_eq!(put(&all, bucket).await.err(), unavailable, "{bucket}");
    }
    assert_eq!(all.head("none", "k").await.unwrap_err().kind, StoreErrorKind::NoSuchBucket);
    assert_eq!(all.create_bucket("cold").await.unwrap_err().kind, StoreErrorKind::BucketExists);
    let buckets = all.list_buckets().await.unwrap();
    let buckets: Vec<_> = buckets.iter().map(|info| (info.name.as_str(), info.created_unix_s)).collect();
    assert_eq!((buckets.len(), buckets[0]), (3, ("cold", 7)), "{buckets:?}");

    // A bucket that could not be made there is not noted, or it would stop, too.
    let cold = all.at(SiteName::Class("COLD")).unwrap();
    assert_eq!(put(&*cold, "free").await.err(), unavailable);
    assert!(pad.0.lock().unwrap().is_empty());
    assert_eq!(put(&all, "free").await, Ok(()));
}

#[tokio::test]
async fn nothing_is_served_before_something_is_known_of_each_site() {
    let (fast, cold) = (memory(), memory());
    fast.create_bucket("free").await.unwrap();
    cold.create_bucket("cold").await.unwrap();
    let sites = vec![site("drives", fast.clone()), site("shelf", cold.clone())];
    let all = Placement::begin(sites, Vec::new(), None);
    all.learn(0, &*fast).await.unwrap();
    assert_eq!(put(&all, "free").await, Err(StoreErrorKind::Unavailable));
    assert_eq!(all.create_bucket("cold").await.unwrap_err().kind, StoreErrorKind::Unavailable);
    assert_eq!(all.list_buckets().await.unwrap_err().kind, StoreErrorKind::Unavailable);
    assert_eq!(all.learn(1, &*cold).await.unwrap().len(), 1);
    assert_eq!(put(&all, "free").await, Ok(()));
    assert_eq!(put(&all, "cold").await, Ok(()));
}

#[tokio::test]
async fn a_bucket_is_noted_before_it_is_made_and_what_a_site_has_replaces_what_was_noted() {
    let (fast, cold) = (memory(), memory());
    let sites = vec![site("drives", fast.clone()), site("shelf", cold.clone())];
    let pad = Arc::new(Pad::default());
    let all = Placement::begin(sites, vec![Some(vec![noted("old")]), Some(Vec::new())], Some(pad.clone()));
    assert_eq!(all.learn(0, &*fast).await.unwrap(), []);
    assert_eq!(all.head("old", "k").await.unwrap_err().kind, StoreErrorKind::NoSuchBucket);
    all.create_bucket("b").await.unwrap();
    put(&*all.at(SiteName::Class("COLD")).unwrap(), "b").await.unwrap();
    assert_eq!(*pad.0.lock().unwrap(), ["+drives b", "+shelf /b"]);
    assert!(all.delete("b", "k").await.unwrap());
    all.delete_bucket("b").await.unwrap();
    assert_eq!(pad.0.lock().unwrap()[2..], ["-shelf /b", "-drives b"]);

    // A site that comes with a bucket that another one has is refused, and changes nothing.
    all.create_bucket("b").await.unwrap();
    let other = memory();
    other.create_bucket("b").await.unwrap();
    assert_eq!(all.learn(1, &*other).await.unwrap_err().kind, StoreErrorKind::Invalid);
    assert_eq!(put(&all, "b").await, Ok(()));
}
