//! Scans of metadata, counted; and the count of objects that goes by them.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_blue_objects::BlueEngine;
use shingle_blue_store::Store;
use shingle_blue_store::kv::{
    Batch, KeyValue, KvError, KvErrorKind, KvFuture, LogKvOptions, MergeOperator, OpenKeyValue, Order,
};
use shingle_runtime::Runtime;
use shingle_sim::clients::{bytes_of, commit, put};
use shingle_sim::{Sim, SimDevice};
use shingle_store_api::ObjectStore;
use shingle_zone_files::ZoneFiles;
use shingle_zoned::Geometry;

use crate::scene::{blue_options, formatted, options};

/// Scans so far, and the error that those from now on have.
#[derive(Default)]
pub(crate) struct Scans {
    pub(crate) count: Cell<u64>,
    failing: Cell<Option<KvErrorKind>>,
}

/// A log of metadata whose scans are counted.
pub(crate) struct Counted(pub(crate) Rc<Scans>);

struct CountedKv(Rc<dyn KeyValue>, Rc<Scans>);

impl OpenKeyValue for Counted {
    fn open(
        &self,
        rt: &Runtime,
        files: ZoneFiles,
        operators: &'static [MergeOperator],
        read_only: bool,
    ) -> KvFuture<'static, Rc<dyn KeyValue>> {
        let (opened, scans) = (LogKvOptions::default().open(rt, files, operators, read_only), self.0.clone());
        Box::pin(async move { Ok(Rc::new(CountedKv(opened.await?, scans)) as Rc<dyn KeyValue>) })
    }
}

impl KeyValue for CountedKv {
    fn get(&self, key: &[u8]) -> KvFuture<'_, Option<Bytes>> {
        self.0.get(key)
    }

    fn scan(&self, range: Range<Bytes>, order: Order, limit: usize) -> KvFuture<'_, Vec<(Bytes, Bytes)>> {
        self.1.count.set(self.1.count.get() + 1);
        match self.1.failing.get() {
            Some(kind) => Box::pin(async move { Err(KvError::new(kind, "a scan fails")) }),
            None => self.0.scan(range, order, limit),
        }
    }

    fn write(&self, batch: Batch) -> KvFuture<'static, ()> {
        self.0.write(batch)
    }

    fn room(&self) -> u64 {
        self.0.room()
    }

    fn close(&self) -> KvFuture<'_, ()> {
        self.0.close()
    }
}

async fn open(rt: &Runtime, device: &SimDevice, scans: &Rc<Scans>) -> BlueEngine {
    let below = shingle_blue_store::Options { log: Rc::new(Counted(scans.clone())), ..blue_options() };
    let (store, _) = Store::open(rt, Rc::new(device.clone()), below).await.unwrap();
    BlueEngine::open(rt.clone(), store, options()).await.unwrap()
}

/// Names that cannot be read for hours, or are spoilt, are read again seldom, or not.
#[test]
fn names_that_cannot_be_read_are_counted_later_or_not() {
    for kind in [KvErrorKind::Device, KvErrorKind::Corrupt] {
        Sim::new(1).run(move |rt| async move {
            let device = formatted(&rt, &Geometry::hm_smr(Blocks(256), 40, 0, 16)).await;
            let scans = Rc::new(Scans::default());
            let client = open(&rt, &device, &scans).await.client();
            client.create_bucket("b").await.unwrap();
            put(&client, "b", "k", &bytes_of(1, 9_000), commit("e")).await.unwrap();
            client.close().await;
            let device = SimDevice::resume(&rt, device.kill());
            let client = open(&rt, &device, &scans).await.client();
            scans.failing.set(Some(kind));
            rt.sleep(Duration::from_secs(10)).await;
            let before = scans.count.get();
            rt.sleep(Duration::from_secs(20 * 3600)).await;
            let (later, again) = (scans.count.get() - before, kind == KvErrorKind::Device);
            assert!(if again { (10..40).contains(&later) } else { later == 0 }, "{kind:?}: {later} scans");
            scans.failing.set(None);
            put(&client, "b", "l", &bytes_of(2, 9_000), commit("e")).await.unwrap();
            rt.sleep(Duration::from_secs(2 * 3600)).await;
            assert_eq!(client.figures().await.unwrap().objects, if again { 2 } else { 0 }, "{kind:?}");
            client.close().await;
        });
    }
}
