//! A store of metadata that counts its calls, and fails when it is told to.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use shingle_blue_store::kv::{
    Batch, KeyValue, KvError, KvErrorKind, KvFuture, LogKvOptions, MergeOperator, OpenKeyValue, Order,
};
use shingle_runtime::Runtime;
use shingle_zone_files::ZoneFiles;

/// Counts, and faults that are asked for.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) gets: Cell<u64>,
    /// Gets fail.
    pub(crate) fails: Cell<bool>,
    /// Scans do not show this key, and show that one.
    pub(crate) hidden: RefCell<Bytes>,
    pub(crate) added: RefCell<Bytes>,
}

/// Opens a log that is watched.
pub(crate) struct Watched(pub(crate) LogKvOptions, pub(crate) Rc<Watch>);

struct WatchedKv(Rc<dyn KeyValue>, Rc<Watch>);

impl OpenKeyValue for Watched {
    fn open(
        &self,
        rt: &Runtime,
        files: ZoneFiles,
        operators: &'static [MergeOperator],
        read_only: bool,
    ) -> KvFuture<'static, Rc<dyn KeyValue>> {
        let (opened, watch) = (self.0.open(rt, files, operators, read_only), self.1.clone());
        Box::pin(async move { Ok(Rc::new(WatchedKv(opened.await?, watch)) as Rc<dyn KeyValue>) })
    }
}

impl KeyValue for WatchedKv {
    fn get(&self, key: &[u8]) -> KvFuture<'_, Option<Bytes>> {
        self.1.gets.set(self.1.gets.get() + 1);
        if self.1.fails.get() {
            return Box::pin(async { Err(KvError::new(KvErrorKind::Device, "the drive of the metadata fails")) });
        }
        self.0.get(key)
    }

    fn scan(&self, range: Range<Bytes>, order: Order, limit: usize) -> KvFuture<'_, Vec<(Bytes, Bytes)>> {
        let (hidden, added) = (self.1.hidden.borrow().clone(), self.1.added.borrow().clone());
        if hidden.is_empty() && added.is_empty() {
            return self.0.scan(range, order, limit);
        }
        Box::pin(async move {
            let mut found = self.0.scan(range.clone(), order, usize::MAX).await?;
            found.retain(|(key, _)| *key != hidden);
            if range.contains(&added) {
                found.push((added, Bytes::new()));
                found.sort();
            }
            assert_eq!(order, Order::Forward, "it shows others in this order alone");
            found.truncate(limit);
            Ok(found)
        })
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
