//! The engine: state shared by the tasks of one owner thread, and the ways they get at index and drives.
//!
//! No borrow of a cell is held across an `await`: clippy's `await_holding_refcell_ref` holds that.
//!
//! # Invariants
//! - OS-ENG-2: a change is acknowledged only when its entries are durable and the index has them.
//! - OS-ENG-3: an engine that can go on no more ends, whoever still reads or writes: its owner can open it again.
//!   `an_engine_whose_index_is_lost_ends_though_clients_stay`.

pub(crate) mod append;
mod catalog;
pub(crate) mod indexing;
mod listing;
mod log;
pub(crate) mod objects;
mod patience;
pub(crate) mod purge;
pub(crate) mod reading;
mod reserve;
pub(crate) mod run;
mod submission;
mod uploads;
pub(crate) mod writers;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shingle_base::StoreId;
use shingle_buckets::Names;
use shingle_runtime::Runtime;
use shingle_runtime::owner::Closing;
use shingle_store_api::{StoreError, StoreResult, StoreUsage};
use tokio::sync::{Notify, mpsc};

use crate::backup::BackupState;
use crate::client::direct::Direct;
use crate::drives::{DriveState, Standing};
use crate::engine::submission::Submission;
use crate::engine::writers::Writers;
use crate::errors::{from_index, lost, unavailable};
use crate::files::Files;
use crate::gc::GcState;
use crate::index::{Index, IndexResult, Recent};
use crate::indexer::Totals;
use crate::options::Options;
use crate::stats::ObjectStats;

/// Longest time, in simulations, until a thread begins its work.
const THREAD_NS: u64 = 30_000;

/// State shared by the engine's tasks.
pub(crate) struct Core {
    pub(crate) runtime: Runtime,
    pub(crate) options: Options,
    /// The store set, as chunk ids name it.
    pub(crate) set: u32,
    pub(crate) index: Arc<Recent>,
    /// The part that callers see without a question to the engine.
    pub(crate) direct: Arc<Direct>,
    pub(crate) drives: RefCell<Vec<DriveState>>,
    pub(crate) files: RefCell<Files>,
    pub(crate) totals: Cell<Totals>,
    pub(crate) stats: RefCell<ObjectStats>,
    pub(crate) names: Names,
    pub(crate) indexing: mpsc::UnboundedSender<Submission>,
    /// Blobs that readers have open.
    pub(crate) blob_pins: RefCell<BTreeMap<u64, u32>>,
    /// Blobs being written.
    pub(crate) writers: RefCell<Writers>,
    pub(crate) dead_blobs: RefCell<BTreeSet<u64>>,
    pub(crate) purge_wanted: Notify,
    /// A pin was released, a chunk closed, or space came free: whoever waits for one looks again.
    pub(crate) changed: Notify,
    pub(crate) gc: GcState,
    pub(crate) backup: RefCell<BackupState>,
    /// The log may hold entries that the index does not know (OS-APP-3).
    pub(crate) unsure: Cell<bool>,
    /// Uploads whose completion may have happened: their parts stay as they are until it is tried again, or the store
    /// is opened again.
    pub(crate) half_ended: RefCell<BTreeSet<u64>>,
    /// Reason why nothing is written now: the index takes no changes. Reads go on (OS-IDXG-1).
    paused: RefCell<Option<StoreError>>,
    /// Reason why the engine no longer works.
    failed: RefCell<Option<String>>,
    pub(crate) closing: Closing,
}

/// Parts of a new [`Core`] from recovery.
pub(crate) struct Recovered {
    pub(crate) set: u32,
    pub(crate) drives: Vec<DriveState>,
    pub(crate) files: Files,
    pub(crate) totals: Totals,
    pub(crate) sequence: u64,
    pub(crate) names: Names,
    pub(crate) dead_blobs: BTreeSet<u64>,
    pub(crate) backup: BackupState,
    /// Something that is on the drives may not have been seen (OS-REC-4).
    pub(crate) incomplete: bool,
}

impl Core {
    pub(crate) fn new(
        runtime: Runtime,
        options: Options,
        index: Arc<Recent>,
        recovered: Recovered,
        indexing: mpsc::UnboundedSender<Submission>,
        direct: Arc<Direct>,
    ) -> Rc<Self> {
        Rc::new(Self {
            runtime,
            options,
            set: recovered.set,
            index,
            direct,
            drives: RefCell::new(recovered.drives),
            files: RefCell::new(recovered.files),
            totals: Cell::new(recovered.totals),
            stats: RefCell::default(),
            names: recovered.names,
            indexing,
            blob_pins: RefCell::default(),
            writers: RefCell::default(),
            dead_blobs: RefCell::new(recovered.dead_blobs),
            purge_wanted: Notify::new(),
            changed: Notify::new(),
            gc: GcState::default(),
            backup: RefCell::new(recovered.backup),
            unsure: Cell::new(recovered.incomplete),
            half_ended: RefCell::default(),
            paused: RefCell::new(None),
            failed: RefCell::new(None),
            closing: Closing::default(),
        })
    }

    /// A number no version, file, blob or upload has had.
    pub(crate) fn next_number(&self) -> u64 {
        self.direct.next_number()
    }

    /// A number above all handed out so far.
    pub(crate) fn sequence(&self) -> u64 {
        self.direct.sequence.load(Ordering::Acquire)
    }

    /// The engine can go on no more: calls that it has get this, and it ends. (OS-ENG-3)
    pub(crate) fn fail(&self, message: &str) {
        if self.failed.borrow().is_some() {
            return;
        }
        tracing::error!(message, "the object store has stopped working");
        *self.failed.borrow_mut() = Some(message.to_owned());
        self.direct.failed.store(true, Ordering::Release);
        self.begin_close();
    }

    /// Fails if the engine has stopped.
    pub(crate) fn working(&self) -> StoreResult<()> {
        match &*self.failed.borrow() {
            Some(message) => Err(unavailable(format!("the object store has stopped working: {message}"))),
            None => Ok(()),
        }
    }

    /// Fails if nothing can be written now.
    pub(crate) fn writable(&self) -> StoreResult<()> {
        self.working()?;
        match &*self.paused.borrow() {
            Some(error) => Err(StoreError::new(error.kind, error.message.clone())),
            None => Ok(()),
        }
    }

    /// Runs `work` on the index, where it may block.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Index) -> IndexResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        if !self.index.blocks() {
            self.elsewhere().await;
            let result = work(self.index.as_ref()).map_err(from_index);
            self.elsewhere().await;
            return result;
        }
        let index = self.index.clone();
        self.runtime.blocking(move || work(index.as_ref())).await.map_err(lost)?.map_err(from_index)
    }

    /// Takes the time that work on a thread takes to begin or to be heard of, for an index that needs no thread: others
    /// run meanwhile all the same, so that simulations meet what threads bring about.
    async fn elsewhere(&self) {
        self.runtime.sleep(Duration::from_nanos(self.runtime.random() % THREAD_NS)).await;
    }

    /// Fails unless the bucket exists. It exists until its gate is released.
    pub(crate) fn require_bucket(&self, bucket: &str) -> StoreResult<u64> {
        self.names.require(bucket)
    }

    /// Fill level of the store.
    fn room(&self) -> StoreUsage {
        let totals = self.totals.get();
        let mut usage =
            StoreUsage { live_bytes: totals.object_bytes, objects: totals.objects, ..StoreUsage::default() };
        for drive in self.drives.borrow().iter() {
            usage.capacity_bytes += drive.stat().capacity_bytes;
            usage.available_bytes += drive.free().saturating_sub(drive.reserved());
        }
        usage.available_bytes += self.files.borrow().sums().garbage_bytes;
        usage.available_bytes = usage.available_bytes.min(usage.capacity_bytes);
        usage
    }

    /// The drives, and the state of each.
    pub(crate) fn standings(&self) -> Vec<(StoreId, Standing)> {
        let now = self.runtime.now();
        self.drives.borrow().iter().map(|drive| (drive.store, drive.standing(now))).collect()
    }

    pub(crate) fn stats(&self) -> ObjectStats {
        let totals = self.totals.get();
        let mut stats = *self.stats.borrow();
        let sums = self.files.borrow().sums();
        (stats.files, stats.file_bytes, stats.live_bytes) = (sums.files, sums.bytes, sums.live_bytes);
        stats.read_bytes = self.direct.read_bytes.load(Ordering::Relaxed);
        stats.opens += self.direct.opens.load(Ordering::Relaxed);
        stats.objects = totals.objects;
        stats.object_bytes = totals.object_bytes;
        stats
    }
}
