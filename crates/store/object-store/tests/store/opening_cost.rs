//! The cost of an opening, in records of the index that it reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use shingle_object_store::index::{Batch, IndexResult, Space, Step, View};
use shingle_object_store::{Index, MemoryIndex, ObjectEngine, ObjectStoreClient};
use shingle_sim::Sim;
use shingle_sim::clients::{bytes_of, commit, put};
use shingle_store_api::{CompletedPart, Metadata, ObjectStore, UploadId};

use crate::recovery::with_store;
use crate::world::World;

const BUCKET: &str = "bucket";

/// Records that were read of each keyspace.
type Counts = Arc<Mutex<BTreeMap<Space, u64>>>;

/// An index, or a moment of one, whose reads are counted.
struct Counted<V>(V, Counts);

impl<V> Counted<V> {
    fn note(&self, space: Space) {
        *self.1.lock().unwrap().entry(space).or_default() += 1;
    }

    fn get_of(&self, view: &dyn View, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>> {
        self.note(space);
        view.get(space, key)
    }

    fn scan_of(
        &self,
        view: &dyn View,
        space: Space,
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], Bytes) -> Step,
    ) -> IndexResult<()> {
        view.scan(space, from, &mut |key, value| {
            self.note(space);
            visit(key, value)
        })
    }
}

impl View for Counted<MemoryIndex> {
    fn get(&self, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>> {
        self.get_of(&self.0, space, key)
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) -> IndexResult<()> {
        self.scan_of(&self.0, space, from, visit)
    }
}

impl View for Counted<Box<dyn View>> {
    fn get(&self, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>> {
        self.get_of(self.0.as_ref(), space, key)
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) -> IndexResult<()> {
        self.scan_of(self.0.as_ref(), space, from, visit)
    }
}

impl Index for Counted<MemoryIndex> {
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
        self.0.clear()
    }

    fn snapshot(&self) -> IndexResult<Box<dyn View>> {
        Ok(Box::new(Counted(self.0.snapshot()?, self.1.clone())))
    }

    fn blocks(&self) -> bool {
        self.0.blocks()
    }
}

/// An upload with parts of several segments.
async fn upload(store: &ObjectStoreClient, key: &str, parts: u32) -> UploadId {
    let id = store.begin_upload(BUCKET, key, Metadata::new()).await.unwrap().id;
    for number in 1..=parts {
        let mut part = store.begin_part(BUCKET, key, id, number).await.unwrap();
        part.write(bytes_of(1, 9000)).await.unwrap();
        part.commit(commit("1")).await.unwrap();
    }
    id
}

/// Records of the index, but for those of files, that an opening reads where there are `objects` of each kind, and uploads that are open.
fn reads(objects: u64) -> BTreeMap<Space, u64> {
    const PARTS: u32 = 4;
    let world = World::new(1, 1, 64 << 20, 1 << 20);
    with_store(&world, move |store, _| async move {
        store.create_bucket(BUCKET).await.unwrap();
        for number in 0..objects {
            put(&store, BUCKET, &format!("small{number}"), &bytes_of(number, 300), commit("e")).await.unwrap();
            put(&store, BUCKET, &format!("large{number}"), &bytes_of(number, 9000), commit("e")).await.unwrap();
            let key = format!("multipart{number}");
            let id = upload(&store, &key, PARTS).await;
            let parts = (1..=PARTS).map(|number| CompletedPart { number, etag: "1".to_owned() }).collect();
            store.complete_upload(BUCKET, &key, id, parts, commit("e")).await.unwrap();
        }
        upload(&store, "open1", PARTS).await;
        upload(&store, "open2", PARTS).await;
    });
    let counts = Counts::default();
    let index = Arc::new(Counted(world.index.clone(), counts.clone()));
    let mut found = Sim::new(1).run(move |runtime| async move {
        let opened = ObjectEngine::open(runtime.clone(), world.served(&runtime), index, world.options.clone(), None);
        let (engine, _) = opened.await.unwrap();
        // Behind the opening, more is read by those who work.
        let found = counts.lock().unwrap().clone();
        engine.close().await;
        found
    });
    found.remove(&Space::Files);
    found
}

/// OS-INX-7.
#[test]
fn an_opening_reads_of_the_index_what_is_open() {
    let (few, many) = (reads(10), reads(60));
    assert_eq!(few, many);
    // One part of each upload that is open.
    assert_eq!(few.get(&Space::Parts), Some(&2), "{few:?}");
    assert!(few.values().sum::<u64>() < 20, "{few:?}");
}
