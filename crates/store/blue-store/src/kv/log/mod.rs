//! A store of metadata in memory: a log of batches, and a table that takes the log's place when it has grown.
//!
//! Files: `kv/current` has the number of the table, and changes by a rename. `kv/table-N` has all keys as they were when the log `kv/log-N`
//! began; the batches since are in that log, and in later ones whose table was not finished. For simulations and drives with few objects:
//! all keys and values are in memory.
//!
//! # Invariants
//! - BLU-LOG-1: a batch is acknowledged when its record is synced, and so are all records before it, in whichever log. Batches that come
//!   while a sync is under way share the next one.
//! - BLU-LOG-2: a log is removed only when a table that has all of it is durable, and `current` says so durably.
//!
//! A table is of one moment (BLU-LOG-4): merges that are in it are not made again by the batches behind it. It begins as long as there is
//! room for it (BLU-LOG-5).

mod compact;
mod open;
mod record;
mod room;
mod snapshot;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::rc::Rc;

use bytes::Bytes;
use futures_util::FutureExt;
use shingle_runtime::{LocalBoxFuture, Runtime};
use shingle_zone_files::{CreateOptions, File, FileKind, FilesError, FilesErrorKind, FilesResult, ZoneFiles};
use shingle_zone_kit::Joint;
use tokio::sync::Notify;

use super::{
    Batch, Change, KeyValue, KvError, KvErrorKind, KvFuture, KvResult, MergeOperator, OpenKeyValue, Order, merged,
};

use snapshot::Snapshot;

pub use record::parse_record;

/// Parameters of a [`LogKv`].
#[derive(Clone, Copy, Debug)]
pub struct LogKvOptions {
    /// A log with fewer bytes on the drive is never replaced by a table. As many are kept free for it beside the table.
    pub log_bytes: u64,
}

impl Default for LogKvOptions {
    fn default() -> Self {
        Self { log_bytes: 4 << 20 }
    }
}

impl OpenKeyValue for LogKvOptions {
    fn open(
        &self,
        rt: &Runtime,
        files: ZoneFiles,
        operators: &'static [MergeOperator],
        read_only: bool,
    ) -> KvFuture<'static, Rc<dyn KeyValue>> {
        let (rt, options) = (rt.clone(), *self);
        Box::pin(async move {
            let log = LogKv::open(&rt, files, operators, options, read_only).await?;
            Ok(Rc::new(log) as Rc<dyn KeyValue>)
        })
    }
}

pub(crate) type Map = BTreeMap<Bytes, Bytes>;

/// A store of metadata in memory with a log.
#[derive(Clone)]
pub struct LogKv(Rc<Shared>);

struct Shared {
    rt: Runtime,
    files: ZoneFiles,
    operators: &'static [MergeOperator],
    options: LogKvOptions,
    state: RefCell<State>,
    syncs: Joint<KvResult<()>>,
    /// A table is being written.
    compacting: Cell<bool>,
    compacted: Notify,
    closing: Cell<bool>,
}

#[derive(Default)]
struct State {
    map: Map,
    /// Bytes of keys and values in a table.
    map_bytes: u64,
    /// The log that batches go to; `None` if the store was opened for reading alone.
    log: Option<Rc<File>>,
    /// Bytes on the drive of all logs that no table has taken the place of: each sync fills a block.
    log_bytes: u64,
    /// Bytes of records since the last sync.
    unsynced: u64,
    /// Bytes on the drive that syncs under way will take.
    syncing: u64,
    /// Logs before it that are not synced to their ends. (BLU-LOG-1)
    previous: Vec<Rc<File>>,
    /// While a table is written: bytes that logs may take meanwhile. And those that they took since it was begun. (BLU-LOG-5)
    slack: Option<u64>,
    beside: u64,
    /// Length of the logs from which on a table is tried again that found no room.
    rest_until: u64,
    /// The keys as the table has them that is being written. (BLU-LOG-4)
    snapshot: Option<Snapshot>,
    /// Number of the log.
    generation: u64,
    /// Number of the next batch.
    next: u64,
    stopped: Option<KvError>,
}

impl State {
    fn put(&mut self, key: Bytes, value: Bytes) {
        self.map_bytes += record::put_bytes_of(&key, &value);
        let old = self.map.insert(key.clone(), value);
        self.replaced(&key, old.as_ref());
    }

    fn delete(&mut self, key: &Bytes) {
        if let Some(old) = self.map.remove(key) {
            self.replaced(key, Some(&old));
        }
    }

    /// A key has not the value any more that it had.
    fn replaced(&mut self, key: &Bytes, old: Option<&Bytes>) {
        self.map_bytes -= old.map_or(0, |old| record::put_bytes_of(key, old));
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.note(key, old);
        }
    }

    /// Applies a batch to the map.
    fn apply(&mut self, operators: &[MergeOperator], changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(key, value) => self.put(key.clone(), value.clone()),
                Change::Delete(key) => self.delete(key),
                Change::DeleteRange(from, to) if from < to => {
                    let gone: Vec<Bytes> =
                        self.map.range(from.clone()..to.clone()).map(|(key, _)| key.clone()).collect();
                    gone.iter().for_each(|key| self.delete(key));
                }
                Change::DeleteRange(..) => {}
                Change::Merge(key, operand) => {
                    let value = self.map.get(key).map(AsRef::as_ref);
                    let value = merged(operators, key, value, operand);
                    self.put(key.clone(), value.into());
                }
            }
        }
    }
}

fn files_error(error: FilesError) -> KvError {
    let kind = match error.kind {
        FilesErrorKind::NoSpace => KvErrorKind::NoSpace,
        FilesErrorKind::Corrupt => KvErrorKind::Corrupt,
        FilesErrorKind::Device => KvErrorKind::Device,
        _ => KvErrorKind::Unavailable,
    };
    KvError::new(kind, format!("files of the metadata: {error}"))
}

impl Shared {
    fn running(&self) -> KvResult<()> {
        match &self.state.borrow().stopped {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Makes durable what the logs have. (BLU-LOG-1) A log that is gone by now has all its batches in a durable table.
    async fn sync(self: Rc<Self>) -> KvResult<()> {
        self.running()?;
        let (previous, log, bytes) = {
            let mut state = self.state.borrow_mut();
            let bytes = record::on_drive(std::mem::take(&mut state.unsynced));
            state.log_bytes += bytes;
            state.beside += bytes;
            state.syncing += bytes;
            (state.previous.clone(), state.log.clone(), bytes)
        };
        for file in previous.iter().chain(&log) {
            let synced = file.sync().await.map_err(files_error);
            synced.inspect_err(|error| self.stop(error))?;
        }
        let mut state = self.state.borrow_mut();
        state.syncing -= bytes;
        // Nothing is appended to them any more.
        state.previous.retain(|file| !previous.iter().any(|synced| Rc::ptr_eq(file, synced)));
        Ok(())
    }

    /// The store can take no more batches: one may be missing in the log.
    fn stop(&self, error: &KvError) {
        let mut state = self.state.borrow_mut();
        if state.stopped.is_none() {
            tracing::error!(%error, "the store of metadata has stopped");
            let text = format!("the store of metadata has stopped: {error}");
            state.stopped = Some(KvError::new(KvErrorKind::Unavailable, text));
        }
    }
}

fn path(kind: &str, generation: u64) -> String {
    format!("kv/{kind}-{generation:016x}")
}

/// The number of a log, by its name in its directory.
fn log_number(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("log-")?, 16).ok()
}

fn of_kind(kind: FileKind) -> CreateOptions {
    CreateOptions { kind, ..CreateOptions::default() }
}

impl KeyValue for LogKv {
    fn get(&self, key: &[u8]) -> KvFuture<'_, Option<Bytes>> {
        let found = self.0.running().map(|()| self.0.state.borrow().map.get(key).cloned());
        Box::pin(async move { found })
    }

    fn scan(&self, range: Range<Bytes>, order: Order, limit: usize) -> KvFuture<'_, Vec<(Bytes, Bytes)>> {
        let found = self.0.running().map(|()| {
            let state = self.0.state.borrow();
            if range.start >= range.end {
                return Vec::new();
            }
            let bounds = (Bound::Included(range.start), Bound::Excluded(range.end));
            let pairs = state.map.range::<Bytes, _>(bounds).map(|(key, value)| (key.clone(), value.clone()));
            match order {
                Order::Forward => pairs.take(limit).collect(),
                Order::Backward => pairs.rev().take(limit).collect(),
            }
        });
        Box::pin(async move { found })
    }

    fn write(&self, batch: Batch) -> KvFuture<'static, ()> {
        // All but the wait happens in the step of the call.
        let taken = self.take(batch).map(|paced| (paced, self.0.syncs.call()));
        let shared = self.0.clone();
        Box::pin(async move {
            let (paced, synced) = taken?;
            paced.await.map_err(files_error)?;
            synced.await?;
            shared.give_way().await;
            Ok(())
        })
    }

    fn room(&self) -> u64 {
        self.0.room()
    }

    fn win_room(&self) -> KvFuture<'_, ()> {
        Box::pin(self.0.win_room())
    }

    fn close(&self) -> KvFuture<'_, ()> {
        Box::pin(async move {
            self.0.closing.set(true);
            while self.0.compacting.get() {
                let ended = self.0.compacted.notified();
                if self.0.compacting.get() {
                    ended.await;
                }
            }
            self.0.running()?;
            let (previous, log) = {
                let state = self.0.state.borrow();
                (state.previous.clone(), state.log.clone())
            };
            for file in previous.into_iter().chain(log) {
                file.sync().await.map_err(files_error)?;
            }
            let closed = KvError::new(KvErrorKind::Unavailable, "the store of metadata was closed");
            self.0.state.borrow_mut().stopped.get_or_insert(closed);
            Ok(())
        })
    }
}

impl LogKv {
    /// Gives a batch its place: in the map, and in the log. The future waits until the log takes more.
    fn take(&self, batch: Batch) -> KvResult<LocalBoxFuture<'static, FilesResult<()>>> {
        self.0.running()?;
        let mut state = self.0.state.borrow_mut();
        let Some(log) = state.log.clone() else {
            return Err(KvError::new(KvErrorKind::Unavailable, "the metadata were opened for reading alone"));
        };
        let record = record::frame(state.next, &batch.changes).ok_or_else(record::too_long)?;
        state.next += 1;
        state.unsynced += record.len() as u64;
        state.apply(self.0.operators, &batch.changes);
        drop(state);
        let mut appended = log.append(vec![record.into()]).boxed_local();
        match (&mut appended).now_or_never() {
            Some(Ok(())) => appended = std::future::ready(Ok(())).boxed_local(),
            Some(Err(refused)) => {
                // Later batches would lie behind a gap.
                let error = files_error(refused);
                self.0.stop(&error);
                return Err(error);
            }
            None => {}
        }
        if self.0.wants_table() {
            self.0.begin_table();
        }
        Ok(appended)
    }
}
