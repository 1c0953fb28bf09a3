//! A store of metadata that counts its calls, and fails when it is told to.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

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
    /// Of the reads that begin with a key of this prefix, so many succeed; the next one fails, and no other.
    pub(crate) failing: RefCell<Option<(&'static [u8], u64, KvErrorKind)>>,
    /// Batches are seen, and durable, so much later: the contract allows it, and a database on threads does it.
    pub(crate) late: Cell<Duration>,
}

impl Watch {
    /// The error of a read, if it is the one that fails.
    fn fault(&self, key: &[u8]) -> Option<KvError> {
        let fails = |(prefix, left, _): &mut (&[u8], u64, KvErrorKind)| {
            let meant = key.starts_with(prefix);
            let fails = meant && *left == 0;
            *left = left.saturating_sub(u64::from(meant));
            fails
        };
        let (.., kind) = self.failing.borrow_mut().take_if(fails)?;
        Some(KvError::new(kind, "the metadata cannot be read"))
    }
}

/// Opens a log that is watched.
pub(crate) struct Watched(pub(crate) LogKvOptions, pub(crate) Rc<Watch>);

struct WatchedKv {
    rt: Runtime,
    kv: Rc<dyn KeyValue>,
    watch: Rc<Watch>,
    late: Rc<RefCell<VecDeque<Batch>>>,
}

impl OpenKeyValue for Watched {
    fn open(
        &self,
        rt: &Runtime,
        files: ZoneFiles,
        operators: &'static [MergeOperator],
        read_only: bool,
    ) -> KvFuture<'static, Rc<dyn KeyValue>> {
        let (opened, rt, watch) = (self.0.open(rt, files, operators, read_only), rt.clone(), self.1.clone());
        Box::pin(async move {
            let kv = opened.await?;
            Ok(Rc::new(WatchedKv { rt, kv, watch, late: Rc::default() }) as Rc<dyn KeyValue>)
        })
    }
}

impl KeyValue for WatchedKv {
    fn get(&self, key: &[u8]) -> KvFuture<'_, Option<Bytes>> {
        self.watch.gets.set(self.watch.gets.get() + 1);
        if self.watch.fails.get() {
            return Box::pin(async { Err(KvError::new(KvErrorKind::Device, "the drive of the metadata fails")) });
        }
        if let Some(error) = self.watch.fault(key) {
            return Box::pin(async { Err(error) });
        }
        self.kv.get(key)
    }

    fn scan(&self, range: Range<Bytes>, order: Order, limit: usize) -> KvFuture<'_, Vec<(Bytes, Bytes)>> {
        if let Some(error) = self.watch.fault(&range.start) {
            return Box::pin(async { Err(error) });
        }
        let (hidden, added) = (self.watch.hidden.borrow().clone(), self.watch.added.borrow().clone());
        if hidden.is_empty() && added.is_empty() {
            return self.kv.scan(range, order, limit);
        }
        Box::pin(async move {
            let mut found = self.kv.scan(range.clone(), order, usize::MAX).await?;
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
        if self.watch.late.get().is_zero() && self.late.borrow().is_empty() {
            return self.kv.write(batch);
        }
        self.late.borrow_mut().push_back(batch);
        let (kv, late) = (self.kv.clone(), self.late.clone());
        let (rt, time) = (self.rt.clone(), self.watch.late.get());
        let written = self.rt.spawn(async move {
            rt.sleep(time).await;
            let next = late.borrow_mut().pop_front();
            kv.write(next.expect("each of them writes one")).await
        });
        Box::pin(async move { written.await.expect("it ends") })
    }

    fn room(&self) -> u64 {
        self.kv.room()
    }

    fn close(&self) -> KvFuture<'_, ()> {
        self.kv.close()
    }
}
