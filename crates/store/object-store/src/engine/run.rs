//! The engine's life: opening, serving calls, closing.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use shingle_buckets::Desks;
use shingle_chunk_store::ChunkClient;
use shingle_runtime::{Runtime, Task};
use shingle_store_api::StoreResult;
use tokio::sync::mpsc;

use crate::client::direct::Direct;
use crate::client::{Link, ObjectStoreClient};
use crate::drives::Class;
use crate::engine::Core;
use crate::files::pins::Release;
use crate::format::Body;
use crate::index::{Index, Recent};
use crate::options::{Drive, Options};
use crate::recovery::{self, OpenReport, ProgressFn, Rebuild};

/// A running object store: the owner's side. It lives on one thread; front ends use [`ObjectEngine::client`].
///
/// Dropping it stops nothing: call [`ObjectEngine::close`], or let the executor end, which is as safe as a power cut.
pub struct ObjectEngine {
    core: Rc<Core>,
    client: ObjectStoreClient,
    closed: Task<()>,
}

impl ObjectEngine {
    /// Opens the store on `drives`: makes one if they are empty, brings the index up to date, and starts serving.
    ///
    /// An empty index is filled from the newest backup and the log. `progress` hears of long scans.
    ///
    /// # Errors
    /// `Invalid` if the drives are not of one store or the index is another store's; `Device` if a drive is missing;
    /// `Unavailable` if the index fails; `Corrupt` or `Device` if a drive's chunk list cannot be read.
    pub async fn open(
        runtime: Runtime,
        drives: Vec<Drive>,
        index: Arc<dyn Index>,
        options: Options,
        progress: Option<ProgressFn>,
    ) -> StoreResult<(Self, OpenReport)> {
        Self::start(runtime, drives, index, options, None, progress).await
    }

    /// As [`ObjectEngine::open`], but empties the index first: it is made again from the newest backup, if
    /// `use_backup` and there is one, and the log.
    ///
    /// # Errors
    /// As [`ObjectEngine::open`].
    pub async fn rebuild_index(
        runtime: Runtime,
        drives: Vec<Drive>,
        index: Arc<dyn Index>,
        options: Options,
        use_backup: bool,
        progress: Option<ProgressFn>,
    ) -> StoreResult<(Self, OpenReport)> {
        Self::start(runtime, drives, index, options, Some(Rebuild { use_backup }), progress).await
    }

    async fn start(
        runtime: Runtime,
        drives: Vec<Drive>,
        index: Arc<dyn Index>,
        options: Options,
        rebuild: Option<Rebuild>,
        progress: Option<ProgressFn>,
    ) -> StoreResult<(Self, OpenReport)> {
        Found::look(runtime, drives, index, options, rebuild, progress).await?.serve().await
    }

    /// The first half of opening: looks at the drives, and brings the index up to date. With `rebuild` the index is made again: from
    /// the newest backup if that is `Some(true)`.
    ///
    /// # Errors
    /// As [`ObjectEngine::open`].
    pub async fn find(
        runtime: Runtime,
        drives: Vec<Drive>,
        index: Arc<dyn Index>,
        options: Options,
        rebuild: Option<bool>,
        progress: Option<ProgressFn>,
    ) -> StoreResult<Found> {
        let rebuild = rebuild.map(|use_backup| Rebuild { use_backup });
        Found::look(runtime, drives, index, options, rebuild, progress).await
    }

    /// A handle for front ends, from any thread.
    pub fn client(&self) -> ObjectStoreClient {
        self.client.clone()
    }

    /// Completes once the store has been closed by [`ObjectStoreClient::close`] or has failed, and all calls have been answered.
    pub async fn closed(self) {
        let Self { core, client, closed } = self;
        drop((core, client));
        let _ = closed.await;
    }

    /// Answers what has been asked, and stops.
    pub async fn close(self) {
        self.core.begin_close();
        self.closed().await;
    }
}

/// A store whose drives and index belong together and are up to date. Nothing has been written to a drive yet, and nothing is
/// before [`Found::serve`]: drives that are not its own would not be used. (OS-REC-6)
pub struct Found {
    runtime: Runtime,
    options: Options,
    index: Arc<Recent>,
    clients: Vec<ChunkClient>,
    opened: recovery::Opened,
}

impl Found {
    async fn look(
        runtime: Runtime,
        drives: Vec<Drive>,
        index: Arc<dyn Index>,
        options: Options,
        rebuild: Option<Rebuild>,
        progress: Option<ProgressFn>,
    ) -> StoreResult<Self> {
        let index = Recent::new(index, options.row_cache_bytes);
        let clients = drives.iter().map(|drive| drive.client.clone()).collect();
        let opened = recovery::open(&runtime, drives, index.clone(), &options, rebuild, progress).await?;
        Ok(Self { runtime, options, index, clients, opened })
    }

    /// The second half of opening: the store serves, and its background work begins.
    ///
    /// # Errors
    /// `Unavailable` if the index fails.
    pub async fn serve(self) -> StoreResult<(ObjectEngine, OpenReport)> {
        let Self { runtime, options, index, clients, opened } = self;
        let count = clients.len();
        let (indexing, submissions) = mpsc::unbounded_channel();
        let (desks, jobs) = Desks::new(options.queue_depth, options.queue_depth);
        let (releases, released) = mpsc::unbounded_channel();
        let budget_bytes = options.write_budget(count);
        let direct = Arc::new(Direct {
            rows: index.rows(),
            files: opened.recovered.files.pinnables.clone(),
            drives: clients,
            set: opened.recovered.set,
            buckets: opened.recovered.names.buckets(),
            sequence: AtomicU64::new(opened.recovered.sequence),
            segment_bytes: AtomicU32::new(0),
            failed: AtomicBool::new(false),
            opens: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
        });
        let link = Link::new(releases, &options, budget_bytes, direct.clone());
        let client = ObjectStoreClient::new(desks, link);
        let core = Core::new(runtime.clone(), options, index, opened.recovered, indexing, direct);

        core.refresh_drives().await;
        let indexer = core.clone().run_indexer(opened.indexer, submissions);
        drop(runtime.spawn(indexer));
        for (file, ordinal) in opened.to_close {
            core.close_chunk(file, ordinal, false).await;
        }
        for bucket in &opened.report.implied_buckets {
            // Until it has an entry of its own, the bucket stands on its objects alone.
            let created_unix_ns = core.require_bucket(bucket)?;
            let body = Body::BucketCreate { bucket: bucket.clone(), created_unix_ns };
            // No newer than it was created first: objects of it may turn up that are not seen now (OS-INX-5).
            let version = core.bucket_version(bucket).await?.saturating_add(1);
            if let Err(failed) = core.log(Class::System, version, body).await {
                tracing::warn!(error = %failed.error, bucket, "a bucket that was lost could not be written again");
            }
        }
        drop(runtime.spawn(core.clone().run_purge()));
        drop(runtime.spawn(core.clone().run_persist()));
        if core.options.gc.enabled {
            for drive in 0..count {
                drop(runtime.spawn(core.clone().run_gc(drive)));
            }
        }
        if core.options.backup.enabled {
            drop(runtime.spawn(core.clone().run_backups()));
        }
        drop(runtime.spawn(run_releases(core.clone(), released)));
        let serving = jobs.map(|calls| runtime.spawn(calls.serve(runtime.clone(), core.clone(), |core| &core.closing)));
        let closing = core.clone();
        let closed = runtime.spawn(async move {
            for task in serving {
                let _ = task.await;
            }
            // Entries in the log are durable without this; it only spares the next start a scan.
            if let Err(error) = closing.persist().await {
                tracing::warn!(%error, "the index could not be made durable");
            }
        });
        Ok((ObjectEngine { core, client, closed }, opened.report))
    }
}

async fn run_releases(core: Rc<Core>, mut released: mpsc::UnboundedReceiver<Release>) {
    while let Some(release) = released.recv().await {
        core.release(release);
    }
}

impl Core {
    pub(crate) fn begin_close(&self) {
        self.closing.begin();
        self.purge_wanted.notify_one();
        self.wake_gc();
        self.changed.notify_waiters();
    }

    /// Makes the index durable now and then.
    async fn run_persist(self: Rc<Self>) {
        let mut persisted = 0;
        loop {
            self.runtime.sleep(self.options.persist_interval).await;
            if self.closing.get() || self.working().is_err() {
                return;
            }
            let batches = self.stats.borrow().index_batches;
            if batches == persisted {
                continue;
            }
            match self.persist().await {
                Ok(()) => persisted = batches,
                // Entries in the log are durable without it. If the index takes no changes any more, the next one shows
                // it.
                Err(error) => tracing::warn!(%error, "the index could not be made durable; it is tried again"),
            }
        }
    }
}
