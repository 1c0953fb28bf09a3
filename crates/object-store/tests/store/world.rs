//! Drives and an index that outlive the simulations in which a store runs on them.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use shingle_base::StoreId;
use shingle_object_store::{
    BackupOptions, Drive, GcOptions, MemoryIndex, ObjectEngine, ObjectStoreClient, OpenReport, Options,
};
use shingle_runtime::Runtime;
use shingle_store_api::{Commit, Metadata, ObjectInfo, ObjectStore, StoreResult};

use crate::chunks::{MemoryChunks, Power};

/// Drives and an index.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) drives: Vec<MemoryChunks>,
    pub(crate) index: MemoryIndex,
    pub(crate) options: Options,
    pub(crate) power: Rc<Power>,
}

impl World {
    pub(crate) fn new(seed: u64, drives: usize, capacity: u64, chunk_limit: u64) -> Self {
        let power = Rc::<Power>::default();
        let drives = (0..drives)
            .map(|drive| MemoryChunks::new(seed * 31 + drive as u64, capacity, chunk_limit, power.clone()))
            .collect();
        Self { drives, index: MemoryIndex::new(), options: small_options(), power }
    }

    /// A copy that shares nothing with this one.
    pub(crate) fn fork(&self) -> Self {
        let power = Rc::<Power>::default();
        let drives = self.drives.iter().map(|drive| drive.fork(power.clone())).collect();
        Self { drives, index: self.index.fork(), options: self.options.clone(), power }
    }

    pub(crate) fn served(&self, runtime: &Runtime) -> Vec<Drive> {
        let serve = |(number, drive): (usize, &MemoryChunks)| Drive {
            client: drive.serve(runtime),
            store: StoreId(0xd0 + number as u64),
        };
        self.drives.iter().enumerate().map(serve).collect()
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
        write_budget_bytes: 64 << 10,
        queue_depth: 16,
        part_bytes_min: 1,
        persist_interval: Duration::from_secs(3600),
        gc: GcOptions { enabled: false, interval: Duration::from_millis(1), ..GcOptions::default() },
        backup: BackupOptions { enabled: false, ..BackupOptions::default() },
        allow_missing_drives: false,
    }
}

/// The bytes of a value: they differ with its number, and from place to place.
pub(crate) fn bytes_of(number: u64, size: usize) -> bytes::Bytes {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut data = Vec::with_capacity(size + 8);
    while data.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data.extend_from_slice(&state.to_le_bytes());
    }
    data.truncate(size);
    data.into()
}

pub(crate) fn commit(etag: &str) -> Commit {
    let metadata = Metadata::from([("x-amz-meta-tag".to_owned(), format!("of {etag}"))]);
    Commit { etag: etag.to_owned(), metadata, ..Commit::default() }
}

/// Puts an object, in pieces of odd sizes.
pub(crate) async fn put(
    store: &dyn ObjectStore,
    bucket: &str,
    key: &str,
    data: &bytes::Bytes,
    commit: Commit,
) -> StoreResult<ObjectInfo> {
    let mut writer = store.begin_put(bucket, key).await?;
    for piece in pieces(data) {
        writer.write(piece).await?;
    }
    writer.commit(commit).await
}

/// `data` in pieces of odd sizes.
pub(crate) fn pieces(data: &bytes::Bytes) -> Vec<bytes::Bytes> {
    let mut rest = data.clone();
    let mut out = Vec::new();
    while !rest.is_empty() {
        let take = rest.len().min(1 + (rest.len() * 7919) % 3001);
        out.push(rest.split_to(take));
    }
    out
}

/// Reads all of an object.
pub(crate) async fn get(store: &dyn ObjectStore, bucket: &str, key: &str) -> StoreResult<bytes::Bytes> {
    let reader = store.open(bucket, key).await?;
    reader.read(0, reader.info().size).await
}
