//! PL-PLC-6: sites that refuse or stay silent, and those that come later.

#![expect(clippy::disallowed_methods, reason = "callers that wait for ever, on tokio's threads and clock")]

use std::future::pending;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use shingle_placement::{Noted, Notes, Placement, Site};
use shingle_store_api::{
    Commit, ListRequest, ObjectInfo, ObjectStore, SiteName, StoreError, StoreErrorKind, StoreResult, forward,
};
use shingle_store_testing::MemoryStore;

/// A store that does not answer.
struct Gone;

fn gone() -> StoreResult<Arc<dyn ObjectStore>> {
    Err(StoreError::new(StoreErrorKind::Unavailable, "the shelf is gone"))
}

impl ObjectStore for Gone {
    forward!(if_open |_this| gone(); all);
}

/// Calls that a store never answers.
const NONE: u8 = 0;
const CHANGES: u8 = 1;
const ALL: u8 = 2;

/// A store that can fall silent.
struct Silent {
    inner: Arc<MemoryStore>,
    about: AtomicU8,
}

impl Silent {
    fn new() -> Arc<Self> {
        Arc::new(Self { inner: memory(), about: AtomicU8::new(NONE) })
    }

    async fn answers(&self, from: u8) -> StoreResult<Arc<MemoryStore>> {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        if self.about.load(Relaxed) >= from {
            pending::<()>().await;
        }
        Ok(self.inner.clone())
    }
}

impl ObjectStore for Silent {
    forward!(if_open |this| this.answers(CHANGES).await; create_bucket delete_bucket delete_if);
    forward!(if_open |this| this.answers(ALL).await; bucket list_buckets begin_put head open list begin_upload begin_part upload list_parts
        list_uploads complete_upload abort_upload usage);
}

/// Starts `call`, whose caller goes on waiting.
async fn begun<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    let call = tokio::spawn(call);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    call
}

/// The answer, which must come at once.
async fn at_once<T>(what: &str, call: impl Future<Output = T>) -> T {
    let answer = tokio::time::timeout(Duration::from_millis(1), call).await;
    answer.unwrap_or_else(|_| panic!("{what} waits"))
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

#[tokio::test(start_paused = true)]
async fn a_silent_site_keeps_no_bucket_of_another_from_being_made_used_or_deleted() {
    let (fast, cold, colder) = (memory(), Silent::new(), memory());
    let mut sites = vec![site("drives", fast.clone()), site("shelf", cold.clone()), site("cellar", colder.clone())];
    sites[2].class = Some("COLDER".to_owned());
    let all = Placement::open(sites).await.unwrap();
    all.create_bucket("used").await.unwrap();
    let on_shelf = all.at(SiteName::Location("shelf")).unwrap();
    on_shelf.create_bucket("cold").await.unwrap();
    cold.about.store(ALL, Relaxed);
    let shelf = on_shelf.clone();
    let making = begun(async move { shelf.create_bucket("made").await }).await;
    let (deletes, guests) = (all.clone(), on_shelf.clone());
    let deleting = begun(async move { deletes.delete_bucket("cold").await }).await;
    let guest = begun(async move { put(&*guests, "used").await }).await;

    at_once("making", all.create_bucket("b")).await.unwrap();
    assert_eq!(at_once("a put", put(&all, "b")).await, Ok(()));
    let cellar = all.at(SiteName::Class("COLDER")).unwrap();
    assert_eq!(at_once("a put of a class", put(&*cellar, "b")).await, Ok(()));
    assert!(at_once("a removal", all.delete("b", "k")).await.unwrap());
    at_once("deleting", all.delete_bucket("b")).await.unwrap();
    let there = at_once("making what is there", all.create_bucket("used")).await.unwrap_err();
    assert_eq!(there.kind, StoreErrorKind::BucketExists);
    assert_eq!(at_once("learning", all.learn(2, &*colder)).await.unwrap().len(), 0);
    // Nobody else gets a name that may be made at any moment.
    colder.create_bucket("made").await.unwrap();
    let refused = at_once("learning", all.learn(2, &*colder)).await.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Invalid);
    assert!(!making.is_finished() && !deleting.is_finished() && !guest.is_finished());
}

/// Thousands of callers wait for the site, with as many keys: none has anything that another key needs.
#[tokio::test(start_paused = true)]
async fn callers_who_wait_for_a_silent_site_hold_up_no_key_of_another() {
    let (fast, cold) = (memory(), Silent::new());
    let all = Placement::open(vec![site("drives", fast.clone()), site("shelf", cold.clone())]).await.unwrap();
    all.create_bucket("free").await.unwrap();
    all.create_bucket("mixed").await.unwrap();
    let on_shelf = all.at(SiteName::Location("shelf")).unwrap();
    on_shelf.create_bucket("cold").await.unwrap();
    put(&*on_shelf, "mixed").await.unwrap();
    cold.about.store(ALL, Relaxed);
    let mut waiting = Vec::new();
    for number in 0..4000 {
        let all = all.clone();
        let bucket = ["cold", "mixed"][number % 2];
        waiting.push(tokio::spawn(async move { all.delete(bucket, &number.to_string()).await }));
    }
    begun(async {}).await;
    for number in 0..50 {
        let key = format!("k{number}");
        at_once("a put", put(&all, "free")).await.unwrap();
        at_once("a removal", all.delete("free", &key)).await.unwrap();
    }
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
}

/// A listing into which a move fell is made again once no move is under way: none of its own bucket.
#[tokio::test(start_paused = true)]
async fn a_move_that_a_silent_site_does_not_end_holds_up_no_other_bucket() {
    let (fast, cold, colder) = (Silent::new(), Silent::new(), Silent::new());
    let mut sites = vec![site("drives", fast.clone()), site("shelf", cold.clone()), site("cellar", colder.clone())];
    sites[2].class = Some("COLDER".to_owned());
    let all = Placement::open(sites).await.unwrap();
    let [shelf, cellar] = ["shelf", "cellar"].map(|name| all.at(SiteName::Location(name)).unwrap());
    for (bucket, at) in [("mixed", &shelf), ("free", &cellar)] {
        all.create_bucket(bucket).await.unwrap();
        put(&**at, bucket).await.unwrap();
    }
    // The key goes to the drives, and the shelf does not remove its own copy.
    cold.about.store(CHANGES, Relaxed);
    let moves = all.clone();
    let moving = begun(async move { put(&moves, "mixed").await }).await;
    assert!(!moving.is_finished() && fast.inner.head("mixed", "k").await.is_ok());
    for turns in 0..40 {
        let to: Arc<dyn ObjectStore> = if turns % 2 == 0 { Arc::new(all.clone()) } else { cellar.clone() };
        let other = tokio::spawn(async move { put(&*to, "free").await });
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        let request = ListRequest { limit: 9, ..ListRequest::default() };
        assert_eq!(at_once("a listing", all.list("free", request)).await.unwrap().objects.len(), 1);
        assert_eq!(at_once("a move", other).await.unwrap(), Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn buckets_of_a_silent_site_are_listed_as_they_were_known() {
    let (fast, cold) = (memory(), Silent::new());
    let all = Placement::open(vec![site("drives", fast.clone()), site("shelf", cold.clone())]).await.unwrap();
    all.create_bucket("free").await.unwrap();
    all.at(SiteName::Location("shelf")).unwrap().create_bucket("cold").await.unwrap();
    let known = all.list_buckets().await.unwrap();
    cold.about.store(ALL, Relaxed);
    let listed = tokio::time::timeout(Duration::from_secs(60), all.list_buckets()).await;
    assert_eq!(listed.expect("it waits").unwrap(), known);
}

/// A bucket is being made while its site is opened again: it stays noted, or it could be made without a note.
#[tokio::test(start_paused = true)]
async fn a_bucket_that_is_being_made_stays_noted_when_its_site_comes_again() {
    for silent in [false, true] {
        let (fast, cold) = (memory(), Silent::new());
        let sites = vec![site("drives", fast.clone()), site("shelf", cold.clone())];
        let pad = Arc::new(Pad::default());
        let all = Placement::begin(sites, vec![Some(Vec::new()), Some(Vec::new())], Some(pad.clone()));
        cold.about.store(if silent { ALL } else { CHANGES }, Relaxed);
        let shelf = all.at(SiteName::Location("shelf")).unwrap();
        let making = begun(async move { shelf.create_bucket("b").await }).await;
        assert_eq!(*pad.0.lock().unwrap(), if silent { vec![] } else { vec!["+shelf b"] });
        let found = at_once("learning", all.learn(1, &*memory())).await.unwrap();
        let found: Vec<_> = found.iter().map(|noted| noted.bucket.as_str()).collect();
        // One that does not even say which buckets it has gets none, and must not be noted for one.
        assert_eq!(found, if silent { vec![] } else { vec!["b"] });
        // It is no bucket for that.
        assert_eq!(all.head("b", "k").await.unwrap_err().kind, StoreErrorKind::NoSuchBucket);
        making.abort();
    }
}

/// A store that makes no buckets.
struct Full(Arc<MemoryStore>);

impl ObjectStore for Full {
    forward!(if_open |_this| gone(); create_bucket);
    forward!(by_reference |this| &*this.0; delete_bucket bucket list_buckets begin_put head open delete_if list begin_upload begin_part upload
        list_parts list_uploads complete_upload abort_upload usage);
}

/// PL-PLC-9: a bucket could not be made on one site, and was made on another one. That one is served after a restart, also if the first does not come.
#[tokio::test]
async fn a_bucket_that_could_not_be_made_on_a_site_keeps_no_other_from_being_served() {
    let (full, cold) = (Arc::new(Full(memory())), memory());
    let sites = || vec![site("drives", full.clone()), site("shelf", cold.clone())];
    let pad = Arc::new(Pad::default());
    let all = Placement::begin(sites(), vec![Some(Vec::new()), Some(Vec::new())], Some(pad.clone()));
    assert_eq!(all.create_bucket("b").await.unwrap_err().kind, StoreErrorKind::Unavailable);
    let shelf = all.at(SiteName::Location("shelf")).unwrap();
    shelf.create_bucket("b").await.unwrap();
    assert_eq!(*pad.0.lock().unwrap(), ["+drives b", "-drives b", "+shelf b"]);

    let all = Placement::begin(sites(), vec![Some(Vec::new()), Some(vec![noted("b")])], None);
    all.learn(1, &*cold).await.unwrap();
    assert_eq!(put(&all, "b").await, Ok(()));
}
