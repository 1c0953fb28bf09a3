//! The block layer under the file system, and the journal's way through it.

use std::collections::BTreeSet;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::{AlignedBuf, Blocks};
use shingle_store_api::{BlockStore, Durability, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::machine::PAGE;
use crate::baseline::ext4::journal::Medium;
use crate::rig::target::{TargetError, TargetFuture};

/// Blocks of the longest I/O.
pub(super) const BIO_MAX: u64 = 256;

/// I/Os at the drive.
const REQUESTS: usize = 128;

/// A block store behind a queue of requests.
pub(super) struct Drive {
    store: Rc<dyn BlockStore>,
    zeros: Bytes,
    requests: Arc<Semaphore>,
}

fn failed(error: StoreError) -> TargetError {
    TargetError::Failed(error.to_string())
}

/// A run of blocks as I/Os.
fn cut((at, blocks): (u64, u64)) -> impl Iterator<Item = (u64, u64)> {
    (0..blocks).step_by(BIO_MAX as usize).map(move |from| (at + from, BIO_MAX.min(blocks - from)))
}

impl Drive {
    pub(super) fn new(store: Rc<dyn BlockStore>) -> Self {
        let zeros = AlignedBuf::zeroed(Blocks(BIO_MAX)).freeze();
        Self { store, zeros, requests: Arc::new(Semaphore::new(REQUESTS)) }
    }

    pub(super) fn blocks(&self) -> u64 {
        self.store.size_bytes() / PAGE
    }

    /// Waits for a place in the queue.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        // Never closed, so that there is one in the end.
        self.requests.clone().acquire_owned().await.ok()
    }

    /// Writes at most [`BIO_MAX`] blocks; its caller has a place.
    pub(super) async fn write(&self, at: u64, blocks: u64, durability: Durability) -> Result<(), TargetError> {
        let data = self.zeros.slice(..(blocks * PAGE) as usize);
        self.store.write(at * PAGE, vec![data], durability).await.map_err(failed)
    }

    async fn write_placed(&self, at: u64, blocks: u64, durability: Durability) -> Result<(), TargetError> {
        let _place = self.place().await;
        self.write(at, blocks, durability).await
    }

    async fn write_runs(&self, runs: Vec<(u64, u64)>, durability: Durability) -> Result<(), TargetError> {
        let bios = runs.into_iter().flat_map(cut);
        let written = join_all(bios.map(|(at, blocks)| self.write_placed(at, blocks, durability))).await;
        written.into_iter().collect()
    }

    /// Reads runs of blocks, all at once as far as the queue takes them.
    pub(super) async fn read_runs(&self, runs: Vec<(u64, u64)>) -> Result<(), TargetError> {
        let read = |(at, blocks): (u64, u64)| async move {
            let _place = self.place().await;
            self.store.read(at * PAGE, blocks * PAGE).await.map(drop).map_err(failed)
        };
        join_all(runs.into_iter().flat_map(cut).map(read)).await.into_iter().collect()
    }

    pub(super) async fn flush(&self) -> Result<(), TargetError> {
        self.store.flush().await.map_err(failed)
    }
}

/// Files whose data goes to the drive before a commit.
pub(super) trait Ordered {
    /// Writes pages of files that have places already, and waits for those that are on their way.
    fn write_ordered(self: Rc<Self>, files: BTreeSet<u64>) -> TargetFuture<'static, ()>;
}

/// The journal's way to the drive.
pub(super) struct Way {
    pub(super) drive: Rc<Drive>,
    pub(super) files: Weak<dyn Ordered>,
}

impl Medium for Way {
    fn write_runs(&self, runs: Vec<(u64, u64)>) -> TargetFuture<'_, ()> {
        Box::pin(self.drive.write_runs(runs, Durability::Cached))
    }

    fn write_record(&self, runs: Vec<(u64, u64)>) -> TargetFuture<'_, ()> {
        Box::pin(async move {
            self.drive.flush().await?;
            self.drive.write_runs(runs, Durability::Durable).await
        })
    }

    fn write_data(&self, files: BTreeSet<u64>) -> TargetFuture<'_, ()> {
        Box::pin(async move {
            match self.files.upgrade() {
                Some(all) => all.write_ordered(files).await,
                None => Ok(()),
            }
        })
    }
}
