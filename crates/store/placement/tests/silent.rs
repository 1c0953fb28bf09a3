//! PL-PLC-6: sites that stay silent in the middle of a call.

#![expect(clippy::disallowed_methods, reason = "stores that go on without their callers, on tokio's threads")]

use std::sync::Arc;

use bytes::Bytes;
use shingle_placement::{Placement, Site};
use shingle_store_api::{
    Commit, Condition, ListRequest, Listing, ObjectInfo, ObjectStore, ObjectWriter, SiteName, StoreFuture, forward,
};
use shingle_store_testing::MemoryStore;
use tokio::sync::watch;

/// Classes of the sites.
const CLASSES: [&str; 3] = ["STANDARD", "COLD", "COLDER"];

/// A kind of call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Commit,
    Delete,
    List,
}

/// A store that answers no call of one kind for now.
#[derive(Clone)]
struct Quiet {
    inner: Arc<MemoryStore>,
    silent: Arc<watch::Sender<Option<Call>>>,
}

impl Quiet {
    fn new() -> Self {
        Self { inner: Arc::new(MemoryStore::new(1 << 30)), silent: Arc::new(watch::Sender::new(None)) }
    }

    fn be_silent(&self, call: Option<Call>) {
        self.silent.send_replace(call);
    }

    async fn answers(&self, call: Call) {
        self.silent.subscribe().wait_for(|silent| *silent != Some(call)).await.unwrap();
    }
}

struct QuietWriter {
    store: Quiet,
    inner: Box<dyn ObjectWriter>,
}

impl ObjectWriter for QuietWriter {
    fn write(&mut self, data: Bytes) -> StoreFuture<'_, ()> {
        self.inner.write(data)
    }

    fn commit(self: Box<Self>, commit: Commit) -> StoreFuture<'static, ObjectInfo> {
        Box::pin(async move {
            self.store.answers(Call::Commit).await;
            self.inner.commit(commit).await
        })
    }
}

impl ObjectStore for Quiet {
    forward!(by_reference |this| &*this.inner; create_bucket delete_bucket bucket list_buckets head open begin_upload begin_part upload
        list_parts list_uploads complete_upload abort_upload usage);

    fn begin_put(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Box::pin(async move {
            let inner = self.inner.begin_put(&bucket, &key).await?;
            Ok(Box::new(QuietWriter { store: self.clone(), inner }) as Box<dyn ObjectWriter>)
        })
    }

    fn delete_if(&self, bucket: &str, key: &str, condition: Condition) -> StoreFuture<'_, bool> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Box::pin(async move {
            self.answers(Call::Delete).await;
            self.inner.delete_if(&bucket, &key, condition).await
        })
    }

    fn list(&self, bucket: &str, request: ListRequest) -> StoreFuture<'_, Listing> {
        let bucket = bucket.to_owned();
        Box::pin(async move {
            let listing = self.inner.list(&bucket, request).await;
            self.answers(Call::List).await;
            listing
        })
    }
}

/// Three sites as one.
async fn opened() -> ([Quiet; 3], Placement) {
    let stores = [Quiet::new(), Quiet::new(), Quiet::new()];
    let sites = stores.iter().zip(CLASSES).map(|(store, class)| Site {
        name: class.to_owned(),
        class: (class != "STANDARD").then(|| class.to_owned()),
        store: Arc::new(store.clone()),
    });
    let all = Placement::open(sites.collect()).await.unwrap();
    (stores, all)
}

async fn put(all: &Placement, site: usize, bucket: &str, key: &str) {
    let mut writer = all.at(SiteName::Class(CLASSES[site])).unwrap().begin_put(bucket, key).await.unwrap();
    writer.write(Bytes::from_static(b"x")).await.unwrap();
    writer.commit(Commit { etag: "e".to_owned(), ..Commit::default() }).await.unwrap();
}

/// Lets all others do what they can without an answer of a silent site.
async fn calm() {
    for _ in 0..500 {
        tokio::task::yield_now().await;
    }
}

async fn in_time<T>(what: &str, call: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        answer = call => answer,
        () = calm() => panic!("{what} waits for a site that it has nothing to do with"),
    }
}

/// PL-PLC-6: commits of so many keys wait for a silent site that every lock that keys could share would be taken. Keys on another site are
/// put and deleted all the same.
#[tokio::test]
async fn keys_on_a_silent_site_hold_up_no_others() {
    let (stores, all) = opened().await;
    all.create_bucket("fast").await.unwrap();
    all.at(SiteName::Location("COLD")).unwrap().create_bucket("cold").await.unwrap();
    stores[1].be_silent(Some(Call::Commit));
    for number in 0..5000 {
        let all = all.clone();
        tokio::spawn(async move { put(&all, 1, "cold", &format!("k{number}")).await });
    }
    calm().await;
    for number in 0..20 {
        let key = format!("k{number}");
        in_time("a put", put(&all, 0, "fast", &key)).await;
        assert!(in_time("a delete", all.delete("fast", &key)).await.unwrap());
    }
    // All of it is done once the site answers.
    stores[1].be_silent(None);
    calm().await;
    assert_eq!(all.usage().await.unwrap().objects, 5000);
}

/// PL-PLC-4 and PL-PLC-6: a key of one bucket leaves a silent site, which does not delete the old copy. A listing of another bucket that a
/// move falls into is made again, and its keys move on.
#[tokio::test]
async fn a_move_that_waits_for_a_silent_site_holds_up_no_listing_of_other_buckets() {
    let (stores, all) = opened().await;
    let listed = |bucket: &'static str| {
        let all = all.clone();
        let request = ListRequest { limit: 10, ..ListRequest::default() };
        async move { all.list(bucket, request).await.unwrap().objects.len() }
    };
    for bucket in ["free", "stuck"] {
        all.create_bucket(bucket).await.unwrap();
    }
    put(&all, 1, "stuck", "k").await;
    put(&all, 2, "free", "k").await;
    stores[1].be_silent(Some(Call::Delete));
    let stuck = tokio::spawn({
        let all = all.clone();
        async move { put(&all, 0, "stuck", "k").await }
    });
    calm().await;

    stores[2].be_silent(Some(Call::List));
    let listing = tokio::spawn(listed("free"));
    calm().await;
    in_time("a move", put(&all, 0, "free", "k")).await;
    stores[2].be_silent(None);
    assert_eq!(in_time("a listing", listing).await.unwrap(), 1);
    in_time("a move", put(&all, 2, "free", "k")).await;
    assert_eq!(in_time("a listing", listed("free")).await, 1);

    assert!(!stuck.is_finished(), "the case is not met");
    stores[1].be_silent(None);
    in_time("the first move", stuck).await.unwrap();
    assert_eq!(in_time("a listing", listed("stuck")).await, 1);
}
