//! Metadata of an object backend: keys, values and operands of all batches that a store wrote, and its drive.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_blue_objects::BlueEngine;
use shingle_blue_store::kv::{
    Batch, Change, KeyValue, KvFuture, LogKvOptions, MergeOperator, OpenKeyValue, Order, merged,
};
use shingle_blue_store::{CollectionId, CollectionInfo, FormatOptions, ObjectId, Options, Store, Transaction, parse};
use shingle_runtime::Runtime;
use shingle_sim::clients::{bytes_of, commit, put};
use shingle_sim::{Sim, SimDevice};
use shingle_store_api::ObjectStore;
use shingle_zone_files::ZoneFiles;
use shingle_zoned::{Geometry, MemoryDevice};

/// Bytes that batches brought.
#[derive(Default)]
struct Seen {
    found: Vec<Vec<u8>>,
    values: BTreeMap<Bytes, Vec<u8>>,
}

impl Seen {
    fn see(&mut self, batch: &Batch, operators: &[MergeOperator]) {
        for change in &batch.changes {
            match change {
                Change::Put(key, value) => {
                    self.found.extend([key.to_vec(), value.to_vec()]);
                    if key.first() == Some(&b'M') {
                        // Names of omaps come behind the number of their object.
                        self.found.extend(key.get(9..).map(<[u8]>::to_vec));
                    }
                    // Shards' numbers come before their values.
                    self.found.extend((0..8).map(|number| [&[number][..], value].concat()));
                    self.values.insert(key.clone(), value.to_vec());
                }
                Change::Merge(key, operand) => {
                    let value = self.values.get(key).cloned().unwrap_or_default();
                    self.found.push([&value[..], operand].concat());
                    let next = merged(operators, key, self.values.get(key).map(Vec::as_slice), operand);
                    self.values.insert(key.clone(), next);
                }
                Change::Delete(key) => drop(self.values.remove(key)),
                Change::DeleteRange(from, _) => self.found.push(from.to_vec()),
            }
        }
    }
}

/// Opens a store of keys whose batches are seen.
struct Watched(Rc<RefCell<Seen>>);

struct Watching {
    inner: Rc<dyn KeyValue>,
    operators: &'static [MergeOperator],
    seen: Rc<RefCell<Seen>>,
}

impl OpenKeyValue for Watched {
    fn open(
        &self,
        rt: &Runtime,
        files: ZoneFiles,
        operators: &'static [MergeOperator],
        read_only: bool,
    ) -> KvFuture<'static, Rc<dyn KeyValue>> {
        let (opened, seen) = (LogKvOptions::default().open(rt, files, operators, read_only), self.0.clone());
        Box::pin(async move { Ok(Rc::new(Watching { inner: opened.await?, operators, seen }) as Rc<dyn KeyValue>) })
    }
}

impl KeyValue for Watching {
    fn get(&self, key: &[u8]) -> KvFuture<'_, Option<Bytes>> {
        self.inner.get(key)
    }

    fn scan(&self, range: Range<Bytes>, order: Order, limit: usize) -> KvFuture<'_, Vec<(Bytes, Bytes)>> {
        self.inner.scan(range, order, limit)
    }

    fn write(&self, batch: Batch) -> KvFuture<'static, ()> {
        self.seen.borrow_mut().see(&batch, self.operators);
        self.inner.write(batch)
    }

    fn room(&self) -> u64 {
        self.inner.room()
    }

    fn close(&self) -> KvFuture<'_, ()> {
        self.inner.close()
    }
}

/// The metadata of buckets with objects, an upload in parts, and bytes that go.
pub(crate) fn buckets() -> Vec<Vec<u8>> {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let options = Options { log: Rc::new(Watched(seen.clone())), ..Options::default() };
    Sim::new(7).run(|rt| async move {
        let device = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(128), 60, 0, 16)));
        Store::format(&rt, Rc::new(device.clone()), FormatOptions::default()).await.unwrap();
        let (store, _) = Store::open(&rt, Rc::new(device.clone()), options).await.unwrap();
        let options = shingle_blue_objects::Options { segment_bytes: 5000, ..Default::default() };
        let engine = BlueEngine::open(rt.clone(), store, options).await.unwrap();
        let client = engine.client();
        client.create_bucket("bucket").await.unwrap();
        for number in 0..9 {
            put(&client, "bucket", &format!("k/{number}"), &bytes_of(number, 900 * number as usize), commit("e"))
                .await
                .unwrap();
        }
        let id = client.begin_upload("bucket", "parts", Default::default()).await.unwrap().id;
        for number in 1..=3 {
            let mut part = client.begin_part("bucket", "parts", id, number).await.unwrap();
            part.write(bytes_of(u64::from(number), 7000)).await.unwrap();
            part.commit(commit("part")).await.unwrap();
        }
        engine.close().await.unwrap();
    });
    seen.take().found
}

/// The drive of a store with objects of all kinds, and the bytes of its metadata.
pub(crate) fn store() -> (MemoryDevice, Vec<Vec<u8>>) {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let options = Options { log: Rc::new(Watched(seen.clone())), ..Options::default() };
    let image = Sim::new(6).run(|rt| async move {
        let device = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(128), 60, 0, 16)));
        let format = FormatOptions { small_bytes: Some(8 << 10), ..FormatOptions::default() };
        Store::format(&rt, Rc::new(device.clone()), format).await.unwrap();
        let (store, _) = Store::open(&rt, Rc::new(device.clone()), options).await.unwrap();
        let id = CollectionId { pool: 1, seed: 0 };
        store.create_collection(CollectionInfo { id, bits: 0 }).await.unwrap();
        for number in 0..12_u64 {
            let (object, copy) =
                (ObjectId::new(1, format!("object/{number}")), ObjectId::new(1, format!("object/{number}")));
            let copy = copy.at_generation(7);
            let mut transaction = Transaction::new();
            transaction.create(&object).write(&object, 0, bytes_of(number, 20_000)).write(
                &object,
                300_000,
                bytes_of(number, 900),
            );
            transaction.set_attribute(&object, "name", "value").omap_set(&object, "key", "value");
            store.submit(id, transaction).await.unwrap();
            let mut transaction = Transaction::new();
            transaction
                .clone_object(&object, &copy)
                .write(&object, 4000, bytes_of(number, 9000))
                .zero(&object, 12_000, 500);
            store.submit(id, transaction).await.unwrap();
            if number % 3 == 0 {
                let mut transaction = Transaction::new();
                transaction.truncate(&object, 10_000).remove(&copy);
                store.submit(id, transaction).await.unwrap();
            }
        }
        // One whose extents are in shards.
        let object = ObjectId::new(1, "large");
        let mut create = Transaction::new();
        create.create(&object);
        store.submit(id, create).await.unwrap();
        for at in 0..150 {
            let mut transaction = Transaction::new();
            transaction.write(&object, at * 20_000, bytes_of(at, 9000));
            store.submit(id, transaction).await.unwrap();
        }
        store.flush_deferred().await.unwrap();
        store.split(id, 2).await.unwrap();
        store.close().await.unwrap();
        device.image()
    });
    let mut found = std::mem::take(&mut seen.borrow_mut().found);
    found.extend(parse::packed_forms(&[b'x'; 10_000]));
    found.extend(parse::packed_forms(&(0..10_000).map(|at| (at / 90) as u8).collect::<Vec<_>>()));
    (image, found)
}
