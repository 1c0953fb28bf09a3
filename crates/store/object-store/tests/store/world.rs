//! Drives and an index that outlive the simulations in which a store runs on them.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use shingle_base::StoreId;
use shingle_object_store::{
    BackupOptions, Drive, GcOptions, MemoryIndex, ObjectEngine, ObjectStoreClient, OpenReport, Options,
};
use shingle_runtime::Runtime;
use shingle_runtime::memory::Memory;
pub(crate) use shingle_sim::clients::{bytes_of, commit, get, put};
use shingle_store_api::StoreResult;

use crate::chunks::{MemoryChunks, Power};

/// Drives and an index.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) drives: Vec<MemoryChunks>,
    pub(crate) index: MemoryIndex,
    pub(crate) options: Options,
    pub(crate) power: Rc<Power>,
    /// The drive that is not there.
    pub(crate) away: Option<usize>,
}

impl World {
    pub(crate) fn new(seed: u64, drives: usize, capacity: u64, chunk_limit: u64) -> Self {
        let power = Rc::<Power>::default();
        let drives = (0..drives)
            .map(|drive| MemoryChunks::new(seed * 31 + drive as u64, capacity, chunk_limit, power.clone()))
            .collect();
        Self { drives, index: MemoryIndex::new(), options: small_options(), power, away: None }
    }

    /// A copy that shares nothing with this one.
    pub(crate) fn fork(&self) -> Self {
        let power = Rc::<Power>::default();
        let drives = self.drives.iter().map(|drive| drive.fork(power.clone())).collect();
        Self { drives, index: self.index.fork(), options: self.options.clone(), power, away: self.away }
    }

    pub(crate) fn served(&self, runtime: &Runtime) -> Vec<Drive> {
        let serve = |(number, drive): (usize, &MemoryChunks)| Drive {
            client: drive.serve(runtime),
            store: StoreId(0xd0 + number as u64),
            hides: drive.hides(),
        };
        self.drives.iter().enumerate().filter(|(number, _)| Some(*number) != self.away).map(serve).collect()
    }

    pub(crate) async fn try_open(&self, runtime: &Runtime) -> StoreResult<(ObjectEngine, OpenReport)> {
        let index = Arc::new(self.index.clone());
        ObjectEngine::open(runtime.clone(), self.served(runtime), index, self.options.clone(), None).await
    }

    pub(crate) async fn open(&self, runtime: &Runtime) -> (ObjectEngine, ObjectStoreClient, OpenReport) {
        let (engine, report) = self.try_open(runtime).await.expect("the store opens");
        let client = engine.client();
        (engine, client, report)
    }
}

/// Everything small, so that little data makes many files, and nothing in the background.
pub(crate) fn small_options() -> Options {
    Options {
        segment_bytes: 4 << 10,
        file_bytes: Some(48 << 10),
        files_open_max: 2,
        reserve_bytes: Some(32 << 10),
        write_budget_bytes: Some(64 << 10),
        memory: Memory::unbounded(),
        // So few that rows come and go.
        row_cache_bytes: 64 << 10,
        queue_depth: 16,
        part_bytes_min: 1,
        persist_interval: Duration::from_secs(3600),
        gc: GcOptions { enabled: false, interval: Duration::from_millis(1), ..GcOptions::default() },
        backup: BackupOptions { enabled: false, ..BackupOptions::default() },
        known_drives: Vec::new(),
        names: (0..4).map(|drive| (StoreId(0xd0 + drive), format!("drive{drive}"))).collect(),
        accept_loss: std::collections::BTreeMap::new(),
        allow_missing_drives: false,
    }
}
