//! Callers that take the short way: past the engine's thread, or to it less often.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use bytes::Bytes;
use shingle_object_store::index::{Batch, IndexResult, Space, Step, View};
use shingle_object_store::{Depth, Index, MemoryIndex, ObjectEngine, ObjectStoreClient};
use shingle_runtime::Runtime;
use shingle_sim::Sim;
use shingle_store_api::{ObjectStore, ObjectWriter, StoreErrorKind};

use crate::world::{World, bytes_of, commit, get, put};

const BUCKET: &str = "bucket";

/// OS-DIRECT-1: who reads an object that was put or read just now asks neither the engine's thread nor the index; and sees it
/// replaced and deleted all the same.
#[test]
fn an_object_that_was_used_just_now_is_read_without_the_index() {
    let world = World::new(3, 1, 4 << 20, 40 << 10);
    Sim::new(3).run(move |runtime| async move {
        let (_engine, store, _) = world.open(&runtime).await;
        store.create_bucket(BUCKET).await.unwrap();
        for (number, size) in [(1, 1000), (2, 2000)] {
            put(&store, BUCKET, "key", &bytes_of(number, size), commit(&number.to_string())).await.unwrap();
            world.index.fail_reads(true);
            let mut open = store.open(BUCKET, "key");
            let opened = futures_util::poll!(&mut open);
            let std::task::Poll::Ready(Ok(reader)) = opened else { panic!("it was not opened at once") };
            assert_eq!(reader.info(), &store.head(BUCKET, "key").await.unwrap());
            assert_eq!(reader.info().etag, number.to_string());
            assert_eq!(reader.read(0, size as u64).await.unwrap(), bytes_of(number, size));
            // Of what is not in memory the index is asked.
            assert_eq!(store.head(BUCKET, "other").await.unwrap_err().kind, StoreErrorKind::Unavailable);
            world.index.fail_reads(false);
        }
        assert_eq!(store.stats().await.unwrap().opens, 2);
        assert!(store.delete(BUCKET, "key").await.unwrap());
        assert_eq!(store.open(BUCKET, "key").await.err().unwrap().kind, StoreErrorKind::NoSuchKey);
        store.close().await;
        assert_eq!(store.head(BUCKET, "key").await.unwrap_err().kind, StoreErrorKind::Unavailable);
    });
}

/// An index that counts in which segments it is asked for.
struct Counting(MemoryIndex, Arc<AtomicU64>);

impl View for Counting {
    fn get(&self, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>> {
        self.1.fetch_add(u64::from(space == Space::Segments), Ordering::Relaxed);
        self.0.get(space, key)
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) -> IndexResult<()> {
        self.0.scan(space, from, visit)
    }
}

impl Index for Counting {
    fn apply(&self, batch: Batch) -> IndexResult<()> {
        self.0.apply(batch)
    }

    fn persist(&self) -> IndexResult<()> {
        self.0.persist()
    }

    fn revive(&self) -> IndexResult<()> {
        self.0.revive()
    }

    fn clear(&self) -> IndexResult<()> {
        Index::clear(&self.0)
    }

    fn snapshot(&self) -> IndexResult<Box<dyn View>> {
        self.0.snapshot()
    }

    fn blocks(&self) -> bool {
        self.0.blocks()
    }
}

/// A store with a bucket, and the number of looks for segments so far.
async fn counting(world: &World, rt: &Runtime) -> (ObjectEngine, ObjectStoreClient, Arc<AtomicU64>) {
    let (looks, drives) = (Arc::<AtomicU64>::default(), world.served(rt));
    let index = Arc::new(Counting(world.index.clone(), looks.clone()));
    let (engine, _) = ObjectEngine::open(rt.clone(), drives, index, world.options.clone(), None).await.unwrap();
    let store = engine.client();
    store.create_bucket(BUCKET).await.unwrap();
    (engine, store, looks)
}

/// Deletes the object that was read, and closes the store: nothing holds its files.
async fn end(engine: ObjectEngine, store: &ObjectStoreClient) {
    store.delete(BUCKET, "k").await.unwrap();
    store.collect_garbage().await.unwrap();
    assert!(store.stats().await.unwrap().file_bytes < 1000, "a file is held");
    engine.close().await;
}

/// OS-READER-1: 40 KiB in pieces of 1 KiB are ten segments, each looked up once, and let go when the next is read.
#[test]
fn a_segment_is_looked_up_once() {
    let world = World::new(1, 2, 4 << 20, 40 << 10);
    Sim::new(1).run(move |rt| async move {
        let (engine, store, looks) = counting(&world, &rt).await;
        let data = bytes_of(1, 40 << 10);
        put(&store, BUCKET, "k", &data, commit("e")).await.unwrap();
        let reader = store.open(BUCKET, "k").await.unwrap();
        let before = looks.load(Ordering::Relaxed);
        for at in (0..40 << 10).step_by(1 << 10) {
            assert_eq!(reader.read(at as u64, 1 << 10).await.unwrap(), data.slice(at..at + (1 << 10)));
        }
        assert_eq!(looks.load(Ordering::Relaxed) - before, 10);
        assert_eq!(store.stats().await.unwrap().read_bytes, 40 << 10);
        drop(reader);
        end(engine, &store).await;
    });
}

/// OS-READER-2: of ten segments the first is asked for alone, then four at a time; a range in the middle asks for its own alone.
#[test]
fn whoever_reads_on_asks_once_for_several_segments() {
    let world = World::new(1, 2, 4 << 20, 40 << 10);
    Sim::new(1).run(move |rt| async move {
        let (engine, store, looks) = counting(&world, &rt).await;
        let data = bytes_of(1, 40 << 10);
        put(&store, BUCKET, "k", &data, commit("e")).await.unwrap();
        let reader = store.open(BUCKET, "k").await.unwrap();
        let mut looked = Vec::new();
        for at in (0..40 << 10).step_by(2 << 10) {
            let before = looks.load(Ordering::Relaxed);
            assert_eq!(reader.read(at as u64, 2 << 10).await.unwrap(), data.slice(at..at + (2 << 10)));
            looked.push(looks.load(Ordering::Relaxed) - before);
        }
        assert_eq!(looked, [1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        drop(reader);
        // GC takes what is found to other places, and what is held stays where it was.
        put(&store, BUCKET, "other", &bytes_of(2, 30_000), commit("e")).await.unwrap();
        let reader = store.open(BUCKET, "k").await.unwrap();
        let before = looks.load(Ordering::Relaxed);
        assert_eq!(reader.read(9 << 10, 1 << 10).await.unwrap(), data.slice(9 << 10..10 << 10));
        assert_eq!(reader.read(30 << 10, 1 << 10).await.unwrap(), data.slice(30 << 10..31 << 10));
        assert_eq!(looks.load(Ordering::Relaxed) - before, 2);
        assert_eq!(reader.read(31 << 10, 2 << 10).await.unwrap(), data.slice(31 << 10..33 << 10));
        store.delete(BUCKET, "other").await.unwrap();
        store.collect_garbage().await.unwrap();
        assert_eq!(reader.read(33 << 10, 7 << 10).await.unwrap(), data.slice(33 << 10..40 << 10));
        drop(reader);
        end(engine, &store).await;
    });
}

/// BK-BEGIN-1, OS-DIRECT-2: once each drive has shown what its chunks take, a put begins in the step in which it is asked for; all that
/// cannot begin hears of it from the engine.
#[test]
fn a_put_begins_without_the_owner_only_where_it_may() {
    let world = World::new(5, 2, 4 << 20, 40 << 10);
    Sim::new(5).run(move |rt| async move {
        let (engine, store, _) = world.open(&rt).await;
        let at_once = async |bucket: &str, key: &str| -> (bool, Result<Box<dyn ObjectWriter>, StoreErrorKind>) {
            let mut begin = store.begin_put(bucket, key);
            match futures_util::poll!(&mut begin) {
                Poll::Ready(begun) => (true, begun.map_err(|error| error.kind)),
                Poll::Pending => (false, begin.await.map_err(|error| error.kind)),
            }
        };
        assert_eq!(at_once(BUCKET, "key").await.1.err(), Some(StoreErrorKind::NoSuchBucket));
        store.create_bucket(BUCKET).await.unwrap();
        assert!(!at_once(BUCKET, "key").await.0, "one drive has not shown what its chunks take");
        let (here, first) = at_once(BUCKET, "key").await;
        let (also, second) = at_once(BUCKET, "other").await;
        assert!(here && also);
        // Each has a blob of its own: their segments are not mixed up.
        let (mut first, mut second) = (first.unwrap(), second.unwrap());
        for at in 0..3 {
            first.write(bytes_of(at, 10_000)).await.unwrap();
            second.write(bytes_of(9 + at, 10_000)).await.unwrap();
        }
        first.commit(commit("first")).await.unwrap();
        second.commit(commit("second")).await.unwrap();
        for (key, from) in [("key", 0), ("other", 9)] {
            let all = [0, 1, 2].map(|at| bytes_of(from + at, 10_000)).concat();
            assert_eq!(get(&store, BUCKET, key).await.unwrap(), all);
            assert!(store.delete(BUCKET, key).await.unwrap());
        }
        let long = "k".repeat(1025);
        for (bucket, key, kind) in
            [("none", "key", StoreErrorKind::NoSuchBucket), (BUCKET, long.as_str(), StoreErrorKind::Invalid)]
        {
            let (here, begun) = at_once(bucket, key).await;
            assert_eq!((here, begun.err()), (false, Some(kind)));
        }
        let late = at_once(BUCKET, "key").await.1.unwrap();
        store.delete_bucket(BUCKET).await.unwrap();
        assert_eq!(at_once(BUCKET, "key").await.1.err(), Some(StoreErrorKind::NoSuchBucket));
        assert_eq!(late.commit(commit("late")).await.unwrap_err().kind, StoreErrorKind::NoSuchBucket);
        assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new());
        store.create_bucket(BUCKET).await.unwrap();
        engine.close().await;
        assert_eq!(at_once(BUCKET, "key").await.1.err(), Some(StoreErrorKind::Unavailable));
    });
}
