//! Keys that go from class to class: killed at every step of it, read and listed meanwhile, and by callers that go away.

#![expect(clippy::disallowed_methods, reason = "stores that go on without their callers, on tokio's threads")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use shingle_placement::{Placement, Site};
use shingle_store_api::{
    BucketInfo, Commit, CompletedPart, Condition, ListRequest, Listing, Metadata, ObjectInfo, ObjectReader,
    ObjectStore, ObjectWriter, SiteName, StoreFuture, UploadId, forward,
};
use shingle_store_testing::MemoryStore;

/// Counts calls of all stores; at one of them the process ends: that call and all later ones are never answered.
struct Steps {
    done: AtomicU64,
    /// The step at which it ends. Each call has two: before it takes effect, and after.
    end: u64,
    /// Decides how long each call takes.
    seed: u64,
}

impl Steps {
    fn new(end: u64, seed: u64) -> Arc<Self> {
        Arc::new(Self { done: AtomicU64::new(0), end, seed })
    }

    async fn step(&self) {
        let number = self.done.fetch_add(1, Relaxed);
        if number >= self.end {
            std::future::pending::<()>().await;
        }
        let mixed = (self.seed ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        // Some take long.
        let turns = if mixed % 8 == 7 { 100 } else { mixed % 8 };
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }

    /// Does `call`, also if its caller goes away, as engines do.
    async fn around<T: Send + 'static>(self: Arc<Self>, call: impl Future<Output = T> + Send + 'static) -> T {
        let doing = tokio::spawn(async move {
            self.step().await;
            let answer = call.await;
            self.step().await;
            answer
        });
        doing.await.unwrap()
    }
}

/// A store whose calls take a while.
struct Slow {
    inner: Arc<MemoryStore>,
    steps: Arc<Steps>,
}

struct SlowWriter {
    inner: Box<dyn ObjectWriter>,
    steps: Arc<Steps>,
}

impl ObjectWriter for SlowWriter {
    fn write(&mut self, data: Bytes) -> StoreFuture<'_, ()> {
        self.inner.write(data)
    }

    fn commit(self: Box<Self>, commit: Commit) -> StoreFuture<'static, ObjectInfo> {
        let Self { inner, steps } = *self;
        Box::pin(steps.around(async move { inner.commit(commit).await }))
    }
}

impl Slow {
    fn writer(&self, inner: Box<dyn ObjectWriter>) -> Box<dyn ObjectWriter> {
        Box::new(SlowWriter { inner, steps: self.steps.clone() })
    }
}

impl ObjectStore for Slow {
    fn create_bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        let (inner, bucket) = (self.inner.clone(), bucket.to_owned());
        Box::pin(self.steps.clone().around(async move { inner.create_bucket(&bucket).await }))
    }

    fn delete_bucket(&self, bucket: &str) -> StoreFuture<'_, ()> {
        let (inner, bucket) = (self.inner.clone(), bucket.to_owned());
        Box::pin(self.steps.clone().around(async move { inner.delete_bucket(&bucket).await }))
    }

    forward!(by_reference |this| &*this.inner; bucket list_buckets begin_upload begin_part upload list_parts list_uploads abort_upload
        usage);

    fn begin_put(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Box::pin(async move { Ok(self.writer(self.inner.begin_put(&bucket, &key).await?)) })
    }

    fn head(&self, bucket: &str, key: &str) -> StoreFuture<'_, ObjectInfo> {
        let (inner, bucket, key) = (self.inner.clone(), bucket.to_owned(), key.to_owned());
        Box::pin(self.steps.clone().around(async move { inner.head(&bucket, &key).await }))
    }

    fn open(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectReader>> {
        let (inner, bucket, key) = (self.inner.clone(), bucket.to_owned(), key.to_owned());
        Box::pin(self.steps.clone().around(async move { inner.open(&bucket, &key).await }))
    }

    fn delete_if(&self, bucket: &str, key: &str, condition: Condition) -> StoreFuture<'_, bool> {
        let (inner, bucket, key) = (self.inner.clone(), bucket.to_owned(), key.to_owned());
        Box::pin(self.steps.clone().around(async move { inner.delete_if(&bucket, &key, condition).await }))
    }

    fn list(&self, bucket: &str, request: ListRequest) -> StoreFuture<'_, Listing> {
        let (inner, bucket) = (self.inner.clone(), bucket.to_owned());
        Box::pin(self.steps.clone().around(async move { inner.list(&bucket, request).await }))
    }

    fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        parts: Vec<CompletedPart>,
        commit: Commit,
    ) -> StoreFuture<'_, ObjectInfo> {
        let (inner, bucket, key) = (self.inner.clone(), bucket.to_owned(), key.to_owned());
        let call = async move { inner.complete_upload(&bucket, &key, id, parts, commit).await };
        Box::pin(self.steps.clone().around(call))
    }
}

/// Three stores, which outlive the process.
struct Stores([Arc<MemoryStore>; 3]);

const CLASSES: [&str; 3] = ["STANDARD", "COLD", "COLDER"];

impl Stores {
    async fn new(keys: &[&str]) -> Self {
        let stores = Self([0; 3].map(|_| Arc::new(MemoryStore::new(1 << 30))));
        let all = stores.open(&Steps::new(u64::MAX, 0)).await;
        all.create_bucket("b").await.unwrap();
        for key in keys {
            put(&all, 0, key, "0").await;
        }
        stores
    }

    async fn open(&self, steps: &Arc<Steps>) -> Placement {
        let sites = self.0.iter().zip(CLASSES).enumerate().map(|(at, (store, class))| Site {
            name: format!("site{at}"),
            class: (at > 0).then(|| class.to_owned()),
            store: Arc::new(Slow { inner: store.clone(), steps: steps.clone() }),
        });
        Placement::open(sites.collect()).await.unwrap()
    }

    /// Sites that have a copy of a key.
    async fn copies(&self, key: &str) -> usize {
        let mut copies = 0;
        for store in &self.0 {
            for bucket in ["b", "/b"] {
                copies += usize::from(store.head(bucket, key).await.is_ok());
            }
        }
        copies
    }
}

async fn put(all: &Placement, class: usize, key: &str, etag: &str) {
    let store = all.at(SiteName::Class(CLASSES[class])).unwrap();
    let mut writer = store.begin_put("b", key).await.unwrap();
    writer.write(Bytes::from(etag.to_owned())).await.unwrap();
    writer.commit(Commit { etag: etag.to_owned(), ..Commit::default() }).await.unwrap();
}

/// An upload in one part.
async fn upload(all: &Placement, class: usize, key: &str, etag: &str) {
    let store = all.at(SiteName::Class(CLASSES[class])).unwrap();
    let id = store.begin_upload("b", key, Metadata::new()).await.unwrap().id;
    let mut part = store.begin_part("b", key, id, 1).await.unwrap();
    part.write(Bytes::from(etag.to_owned())).await.unwrap();
    part.commit(Commit { etag: "p".to_owned(), ..Commit::default() }).await.unwrap();
    let parts = vec![CompletedPart { number: 1, etag: "p".to_owned() }];
    let commit = Commit { etag: etag.to_owned(), ..Commit::default() };
    store.complete_upload("b", key, id, parts, commit).await.unwrap();
}

async fn listed(all: &Placement) -> BTreeMap<String, (String, Option<String>)> {
    let page = all.list("b", ListRequest { limit: 1000, ..ListRequest::default() }).await.unwrap();
    let count = page.objects.len();
    let lines = page.objects.into_iter().map(|object| (object.key, (object.etag, object.class)));
    let lines: BTreeMap<_, _> = lines.collect();
    assert_eq!(lines.len(), count, "a key is listed twice");
    lines
}

/// PL-PLC-1 and PL-PLC-2: wherever a move is cut off, one version is seen by everyone, the one that was acknowledged last or the one
/// under way; and after the next start it is the only one.
#[tokio::test]
async fn a_move_that_is_killed_at_any_step_leaves_one_version() {
    // The key goes through all sites, and is deleted and put again.
    const CLASSES_OF: [Option<usize>; 7] = [Some(1), Some(2), Some(0), Some(1), None, Some(2), Some(0)];
    for by_upload in [false, true] {
        let mut cuts = 0;
        for end in 0.. {
            let stores = Stores::new(&["k"]).await;
            let steps = Steps::new(end, 1);
            let all = stores.open(&steps).await;
            let acknowledged = std::cell::Cell::new(0);
            let work = async {
                for (number, class) in (1..).zip(CLASSES_OF) {
                    match class {
                        Some(class) if by_upload => upload(&all, class, "k", &format!("{number}")).await,
                        Some(class) => put(&all, class, "k", &format!("{number}")).await,
                        None => assert!(all.delete("b", "k").await.unwrap()),
                    }
                    acknowledged.set(number);
                }
            };
            // A task that waits for ever has nothing left to do once nobody else has.
            let finished = tokio::select! {
                biased;
                () = work => true,
                () = idle(&steps) => false,
            };
            drop(all);
            let context = format!("cut at {end}, acknowledged {}", acknowledged.get());
            let acknowledged = acknowledged.get();
            let may_be = |number: usize| match number.checked_sub(1) {
                None => Some("0".to_owned()),
                Some(at) => CLASSES_OF.get(at).copied().flatten().map(|_| number.to_string()),
            };
            let next = (acknowledged < CLASSES_OF.len()).then_some(acknowledged + 1);
            let allowed: Vec<_> = [Some(acknowledged), next].into_iter().flatten().map(may_be).collect();
            let all = stores.open(&Steps::new(u64::MAX, 0)).await;
            let seen = all.head("b", "k").await.ok().map(|info| (info.etag, info.class));
            assert!(allowed.contains(&seen.as_ref().map(|(etag, _)| etag.clone())), "{context}: {seen:?}");
            let lines = listed(&all).await;
            assert_eq!(lines.get("k"), seen.as_ref(), "{context}");
            if let Some((etag, _)) = &seen {
                let reader = all.open("b", "k").await.unwrap();
                let size = reader.info().size;
                assert_eq!(reader.read(0, size).await.unwrap(), etag, "{context}");
            }
            all.tidy().await.unwrap();
            assert_eq!(stores.copies("k").await, usize::from(seen.is_some()), "{context}");
            let after = all.head("b", "k").await.ok().map(|info| (info.etag, info.class));
            assert_eq!(after, seen, "{context}");
            // A deleted key stays deleted.
            if all.delete("b", "k").await.unwrap() {
                assert_eq!(stores.copies("k").await, 0, "{context}");
            }
            if finished {
                break;
            }
            cuts += 1;
        }
        assert!(cuts > 30, "{cuts}");
    }
}

/// Completes once no call has been answered for a while: all wait for ever.
async fn idle(steps: &Steps) {
    let mut before = u64::MAX;
    loop {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        let done = steps.done.load(Relaxed);
        if done > steps.end && done == before {
            return;
        }
        before = done;
    }
}

/// PL-PLC-4: keys that go from class to class all the time are in every listing, once, and never older than what was
/// acknowledged before it.
#[tokio::test]
async fn a_listing_misses_no_key_that_moves_meanwhile() {
    const KEYS: [&str; 4] = ["a", "b", "c", "d"];
    for seed in 1..=20u64 {
        let stores = Stores::new(&KEYS).await;
        let all = stores.open(&Steps::new(u64::MAX, seed)).await;
        let acknowledged = KEYS.map(|_| std::cell::Cell::new(0u64));
        let going = std::cell::Cell::new(KEYS.len());
        let mover = async |at: usize| {
            for number in 1..40u64 {
                put(&all, ((seed + number) % 3) as usize, KEYS[at], &number.to_string()).await;
                acknowledged[at].set(number);
            }
            going.set(going.get() - 1);
        };
        let lister = async {
            let mut listings = 0;
            while going.get() > 0 {
                let before: Vec<u64> = acknowledged.iter().map(std::cell::Cell::get).collect();
                let lines = listed(&all).await;
                for (key, before) in KEYS.iter().zip(before) {
                    let line = lines.get(*key);
                    let Some((etag, _)) = line else { panic!("seed {seed}: {key} is missing from a listing") };
                    assert!(etag.parse::<u64>().unwrap() >= before, "seed {seed}: {key} is {etag}, and was {before}");
                }
                listings += 1;
            }
            assert!(listings > 5, "{listings}");
        };
        tokio::join!(mover(0), mover(1), mover(2), mover(3), lister);
    }
}

/// Result of `call`, unless its caller goes away after `patience` turns of all tasks.
async fn unless_gone<T>(patience: u64, call: impl Future<Output = T>) -> Option<T> {
    let gone = async {
        for _ in 0..patience {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        answer = call => Some(answer),
        () = gone => None,
    }
}

/// PL-PLC-3 and PL-PLC-5: of several callers who make a key that must not exist, none replaces a key that another was told to
/// have made, even if callers go away at any moment.
#[tokio::test]
async fn what_was_made_under_a_condition_is_not_replaced_by_who_went_away() {
    let mut made = 0;
    for seed in 1..=600u64 {
        let stores = Stores::new(&[]).await;
        let all = stores.open(&Steps::new(u64::MAX, seed)).await;
        let mut writers = Vec::new();
        for etag in ["0", "1"] {
            let class = CLASSES[(seed as usize + writers.len()) % 3];
            let mut writer = all.at(SiteName::Class(class)).unwrap().begin_put("b", "k").await.unwrap();
            writer.write(Bytes::from(etag)).await.unwrap();
            let condition = Condition { absent: true, etag: None };
            writers.push(writer.commit(Commit { etag: etag.to_owned(), condition, ..Commit::default() }));
        }
        let mut answers = Vec::new();
        for (commit, patience) in writers.into_iter().zip([seed % 150, u64::MAX]) {
            answers.extend(unless_gone(patience, commit).await.and_then(Result::ok));
        }
        // Until whatever was left behind has been done.
        unless_gone(500, std::future::pending::<()>()).await;
        let seen = all.head("b", "k").await.unwrap().etag;
        for info in answers {
            assert_eq!(info.etag, seen, "seed {seed}");
            made += 1;
        }
        assert_eq!(stores.copies("k").await, 1, "seed {seed}");
    }
    assert!(made > 100, "{made}");
}

/// PL-PLC-5: a bucket whose maker or remover went away is there or not, and can be made, used and removed.
#[tokio::test]
async fn a_bucket_is_whole_whoever_goes_away_from_it() {
    for patience in 0..40u64 {
        let stores = Stores::new(&[]).await;
        let all = stores.open(&Steps::new(u64::MAX, patience)).await;
        let calm = async || unless_gone(500, std::future::pending::<()>()).await;
        unless_gone(patience, all.create_bucket("c")).await;
        calm().await;
        let made = all.create_bucket("c").await;
        assert!(made.is_ok() || all.bucket("c").await.is_ok(), "{patience}: {made:?}");
        let cold = all.at(SiteName::Class("COLD")).unwrap();
        unless_gone(patience, cold.begin_put("c", "k")).await;
        calm().await;
        unless_gone(patience, all.delete_bucket("c")).await;
        calm().await;
        if all.bucket("c").await.is_ok() {
            cold.begin_put("c", "k").await.unwrap();
            all.delete_bucket("c").await.unwrap();
        }
        drop(all);
        let all = stores.open(&Steps::new(u64::MAX, 0)).await;
        let left: Vec<_> = all.list_buckets().await.unwrap().into_iter().map(|bucket| bucket.name).collect();
        assert_eq!(left, ["b"], "{patience}");
    }
}

/// A key is found at every moment of its way to a site that nothing of its bucket was on before.
#[tokio::test]
async fn a_key_is_found_while_its_bucket_gets_its_first_guest() {
    for seed in 1..=300u64 {
        let stores = Stores::new(&["k"]).await;
        let all = stores.open(&Steps::new(u64::MAX, seed)).await;
        let going = std::cell::Cell::new(true);
        let mover = async {
            put(&all, 1, "k", "1").await;
            going.set(false);
        };
        let heads = async {
            while going.get() {
                assert!(all.head("b", "k").await.is_ok(), "seed {seed}: not found");
            }
        };
        let opens = async {
            while going.get() {
                assert!(all.open("b", "k").await.is_ok(), "seed {seed}: not opened");
            }
        };
        tokio::join!(mover, heads, opens);
    }
}
