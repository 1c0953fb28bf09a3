//! The two ends of an engine's life: what an opening leaves alone before it serves, and an engine that can go on no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use shingle_chunk_store::Stream;
use shingle_object_store::index::{Batch, IndexResult, Space, Step, View};
use shingle_object_store::{Index, MemoryIndex, ObjectEngine};
use shingle_runtime::real;
use shingle_sim::{Sim, seeds};
use shingle_store_api::{ObjectStore, StoreErrorKind};

use crate::chunks::MemoryChunks;
use crate::world::{World, bytes_of, commit, put};

const BUCKET: &str = "bucket";

/// An index whose writer panics when it is told to.
#[derive(Clone)]
struct Panics {
    inner: MemoryIndex,
    now: Arc<AtomicBool>,
}

impl View for Panics {
    fn get(&self, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>> {
        self.inner.get(space, key)
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) -> IndexResult<()> {
        self.inner.scan(space, from, visit)
    }
}

impl Index for Panics {
    fn apply(&self, batch: Batch) -> IndexResult<()> {
        assert!(!self.now.load(Relaxed), "the index was told to panic");
        self.inner.apply(batch)
    }

    fn persist(&self) -> IndexResult<()> {
        self.inner.persist()
    }

    fn revive(&self) -> IndexResult<()> {
        self.inner.revive()
    }

    fn clear(&self) -> IndexResult<()> {
        self.inner.clear()
    }

    fn snapshot(&self) -> IndexResult<Box<dyn View>> {
        self.inner.snapshot()
    }

    fn blocks(&self) -> bool {
        true
    }
}

/// OS-ENG-3: the thread that writes the index is lost. A reader and a writer that stay keep neither the engine from ending nor the index
/// open, and what was acknowledged is there when it is opened again. (In real time: a simulation has no thread to lose.)
#[test]
fn an_engine_whose_index_is_lost_ends_though_clients_stay() {
    let world = World::new(1, 2, 16 << 20, 40 << 10);
    let panics = Arc::<AtomicBool>::default();
    let index = Arc::new(Panics { inner: world.index.clone(), now: panics.clone() });
    let (life, given) = (world.clone(), index.clone());
    let stays = real::run(|runtime| async move {
        let drives = life.served(&runtime);
        let (engine, _) = ObjectEngine::open(runtime.clone(), drives, given, life.options.clone(), None).await.unwrap();
        let store = engine.client();
        store.create_bucket(BUCKET).await.unwrap();
        put(&store, BUCKET, "kept", &bytes_of(1, 30_000), commit("e")).await.unwrap();
        let reader = store.open(BUCKET, "kept").await.unwrap();
        let mut writer = store.begin_put(BUCKET, "begun").await.unwrap();
        writer.write(bytes_of(2, 3000)).await.unwrap();
        panics.store(true, Relaxed);
        let error = put(&store, BUCKET, "lost", &bytes_of(3, 10), commit("e")).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Unavailable, "{error}");
        let late = Box::pin(runtime.sleep(Duration::from_secs(20)));
        assert!(matches!(select(Box::pin(engine.closed()), late).await, Either::Left(_)), "it goes on for ever");
        assert_eq!(store.usage().await.unwrap_err().kind, StoreErrorKind::Unavailable);
        (store, reader, writer)
    });
    let stays = stays.unwrap();
    assert_eq!(Arc::strong_count(&index), 1, "somebody keeps the index open");
    let opened = real::run(|runtime| async move {
        let (_engine, store, _) = world.open(&runtime).await;
        store.head(BUCKET, "kept").await.unwrap().size
    });
    assert_eq!(opened.unwrap(), 30_000);
    drop(stays);
}

/// All chunks of drives, with their sizes.
fn content(drives: &[MemoryChunks]) -> Vec<(usize, Vec<u64>)> {
    let streams = [Stream::Meta, Stream::Data, Stream::Gc];
    let of = |drive: &MemoryChunks| {
        let all = streams.into_iter().flat_map(|stream| drive.chunks(stream)).map(|id| drive.size(id)).collect();
        (streams.into_iter().map(|stream| drive.open_chunks(stream)).sum(), all)
    };
    drives.iter().map(of).collect()
}

/// OS-REC-6: also where a new drive has come to it, and where the last opening left chunks open.
#[test]
fn an_opening_writes_nothing_to_a_drive_before_it_serves() {
    for seed in seeds(4) {
        let mut world = World::new(seed, 2, 16 << 20, 40 << 10);
        world.options.gc.enabled = true;
        let life = world.clone();
        Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = life.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            for number in 0..20 {
                put(&store, BUCKET, &(number % 7).to_string(), &bytes_of(number, 9000), commit("e")).await.unwrap();
            }
        });
        let index = if seed % 2 == 0 { world.index.clone() } else { MemoryIndex::new() };
        world.drives.push(MemoryChunks::new(seed, 16 << 20, 40 << 10, world.power.clone()));
        Sim::new(seed).run(move |runtime| async move {
            let before = content(&world.drives);
            let (drives, index) = (world.served(&runtime), Arc::new(index));
            let found =
                ObjectEngine::find(runtime.clone(), drives, index, world.options.clone(), None, None).await.unwrap();
            runtime.sleep(Duration::from_secs(30)).await;
            assert_eq!(content(&world.drives), before, "seed {seed}");
            let (engine, _) = found.serve().await.unwrap();
            put(&engine.client(), BUCKET, "k", &bytes_of(1, 9000), commit("e")).await.unwrap();
            assert_ne!(content(&world.drives), before, "seed {seed}");
        });
    }
}
