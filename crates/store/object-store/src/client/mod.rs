//! The store as front ends see it: calls from any thread, over bounded queues to the engine's.

pub(crate) mod direct;
pub(crate) mod reader;
pub(crate) mod writer;

use std::rc::Rc;
use std::sync::Arc;

use shingle_base::StoreId;
use shingle_buckets::{Client, Desks, Door, Entrance};
use shingle_runtime::memory::Memory;
use shingle_store_api::{ObjectStore, StoreError, StoreResult, forward};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::check::{CheckProgress, CheckReport, Depth};
use crate::client::direct::Direct;
use crate::drives::Standing;
use crate::engine::Core;
use crate::errors::unavailable;
use crate::files::pins::Release;
use crate::gc::Emptied;
use crate::options::Options;
use crate::stats::ObjectStats;

/// Callers of a store whose thread has ended are told this.
const STOPPED: &str = "the object store has stopped";

/// All that readers and writers share.
#[derive(Clone)]
pub(crate) struct Link {
    /// Takes what readers and writers let go when they are dropped: never waits, so that dropping never does.
    pub(crate) releases: mpsc::UnboundedSender<Release>,
    /// Bytes on their way to the drives.
    budget: Arc<Semaphore>,
    budget_bytes: u32,
    /// The short way past the engine.
    pub(crate) direct: Arc<Direct>,
    pub(crate) memory: Arc<Memory>,
}

impl Link {
    pub(crate) fn new(
        releases: mpsc::UnboundedSender<Release>,
        options: &Options,
        budget_bytes: u32,
        direct: Arc<Direct>,
    ) -> Self {
        let budget = Arc::new(Semaphore::new(budget_bytes as usize));
        Self { releases, budget, budget_bytes, direct, memory: options.memory.clone() }
    }

    /// Waits for a share of the budget for so many bytes: all of it at most, so that a longer write can go alone.
    pub(crate) async fn share(&self, bytes: u64) -> StoreResult<OwnedSemaphorePermit> {
        let share = bytes.clamp(1, u64::from(self.budget_bytes)) as u32;
        self.budget.clone().acquire_many_owned(share).await.map_err(|_| stopped())
    }
}

/// The store's thread has ended.
pub(crate) fn stopped() -> StoreError {
    unavailable(STOPPED)
}

/// An object store, from any thread. Cheap to clone. A full engine slows its callers.
#[derive(Clone)]
pub struct ObjectStoreClient(Client<Core>);

impl ObjectStoreClient {
    pub(crate) fn new(desks: Desks<Core>, link: Link) -> Self {
        Self(Client { door: Entrance::new(desks, STOPPED), link })
    }

    /// Counters and sizes.
    ///
    /// # Errors
    /// `Unavailable` if the store has stopped.
    pub async fn stats(&self) -> StoreResult<ObjectStats> {
        self.0.door.read(|core| async move { Ok(core.stats()) }).await
    }

    /// The drives that it was opened with, and the state of each.
    ///
    /// # Errors
    /// `Unavailable` if the store has stopped.
    pub async fn standings(&self) -> StoreResult<Vec<(StoreId, Standing)>> {
        self.0.door.read(|core| async move { Ok(core.standings()) }).await
    }

    /// Collects all garbage there is, at once. Returns the bytes of files deleted.
    ///
    /// # Errors
    /// `NoSpace` if there is no room for copies; `Device` or `Corrupt` if a drive fails.
    pub async fn collect_garbage(&self) -> StoreResult<u64> {
        self.0.door.read(|core| async move { core.collect_all().await }).await
    }

    /// Rewrites what can be read of the files that an opening with [`accept_loss`](crate::Options::accept_loss) could not read all of, and
    /// deletes them: the next opening finds nothing left to look for, unless files are [kept](Emptied::kept).
    ///
    /// # Errors
    /// `NoSpace` if there is no room for copies; `Device` or `Corrupt` if a drive fails.
    pub async fn empty_given_up(&self) -> StoreResult<Emptied> {
        self.0.door.read(|core| async move { core.empty_given_up().await }).await
    }

    /// Backs the index up to the drives now. Returns the backup's size in bytes.
    ///
    /// # Errors
    /// `Busy` if a backup is being written; `NoSpace`, `Device`.
    pub async fn back_up_index(&self) -> StoreResult<u64> {
        self.0.door.read(|core| async move { core.back_up().await }).await
    }

    /// Makes the index durable, so that the next start need scan nothing written before.
    ///
    /// # Errors
    /// `Unavailable` if the index fails.
    pub async fn persist_index(&self) -> StoreResult<()> {
        self.0.door.read(|core| async move { core.persist().await }).await
    }

    /// Compares index and drives. Changes by others meanwhile are no damage (OS-CHECK-1).
    ///
    /// # Errors
    /// `Unavailable` if the index fails or the store has stopped. Damage is no error; it is in the report.
    pub async fn check(&self, depth: Depth) -> StoreResult<CheckReport> {
        self.check_with(depth, |_| ()).await
    }

    /// The same, and `progress` is told how far it is.
    ///
    /// # Errors
    /// As [`ObjectStoreClient::check`].
    pub async fn check_with(
        &self,
        depth: Depth,
        mut progress: impl FnMut(CheckProgress) + Send + 'static,
    ) -> StoreResult<CheckReport> {
        self.0.door.read(move |core| async move { core.check(depth, false, &mut progress).await }).await
    }

    /// As [`ObjectStoreClient::check_with`], beside clients: it rests as long as it reads, and ends when its caller goes away.
    ///
    /// # Errors
    /// As [`ObjectStoreClient::check`].
    pub async fn check_gently(
        &self,
        depth: Depth,
        mut progress: impl FnMut(CheckProgress) + Send + 'static,
    ) -> StoreResult<CheckReport> {
        self.0.door.ask(move |core| async move { core.check(depth, true, &mut progress).await }).await
    }

    /// The store in words, a line at a time: files with their sizes, and every entry in them if `entries`.
    ///
    /// # Errors
    /// `Unavailable` if the store has stopped.
    pub async fn dump(&self, entries: bool, line: impl FnMut(String) + Send + 'static) -> StoreResult<()> {
        self.0.door.read(move |core| async move { core.dump(entries, line).await }).await
    }

    /// Stops the store once all calls so far have been answered; [`crate::ObjectEngine::closed`] then completes.
    pub async fn close(&self) {
        let close = |core: Rc<Core>| async move {
            core.begin_close();
            Ok(())
        };
        // An error means that it has stopped already.
        let _ = self.0.door.read(close).await;
    }
}

impl ObjectStore for ObjectStoreClient {
    forward!(by_reference |this| &this.0; all);
}

/// Front ends hold the store as a trait object.
impl From<ObjectStoreClient> for Arc<dyn ObjectStore> {
    fn from(client: ObjectStoreClient) -> Self {
        Arc::new(client)
    }
}
