//! The object store's owner: a thread for the engine, on top of the drives' owners.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shingle_object_store::{
    Drive, FjallIndex, Found, IndexErrorKind, IndexOrigin, ObjectEngine, ObjectStoreClient, OpenReport, Options,
    Progress,
};
use shingle_runtime::Runtime;
use tokio::sync::oneshot;

use super::{thread, waiting};
use crate::error::{Error, ErrorKind, Result};
use crate::inventory::DriveName;
use crate::reports::health::Health;

/// An object store whose owner runs.
pub(crate) struct Objects {
    pub(crate) client: ObjectStoreClient,
    pub(crate) report: OpenReport,
    /// Completes when the owner has ended: after [`ObjectStoreClient::close`], or because it failed.
    pub(crate) ended: oneshot::Receiver<()>,
}

/// Parameters of opening the engine.
pub(crate) struct Setup {
    pub(crate) index: PathBuf,
    pub(crate) index_cache_bytes: u64,
    pub(crate) drives: Vec<Drive>,
    pub(crate) options: Options,
    /// Make the index again: with the newest backup, or without.
    pub(crate) rebuild: Option<bool>,
    /// Hears how far it is.
    pub(crate) health: Health,
    /// Missing drives, to look out for.
    pub(crate) away: Vec<(String, DriveName)>,
}

/// An object store whose owner has found that its drives belong together, and has written nothing to them yet.
pub(crate) struct FoundObjects {
    /// Dropped, it ends the owner.
    go_on: oneshot::Sender<()>,
    opened: oneshot::Receiver<Result<(ObjectStoreClient, OpenReport)>>,
    ended: oneshot::Receiver<()>,
}

/// Starts the owner and waits until it has looked at the drives.
///
/// # Errors
/// `Store`, with what to do; `System`.
pub(crate) async fn find(setup: Setup) -> Result<FoundObjects> {
    let (tell, told) = oneshot::channel();
    let (go_on, goes_on) = oneshot::channel();
    let (open, opened) = oneshot::channel();
    let owner = move |runtime: Runtime| async move {
        let (away, health) = (setup.away.clone(), setup.health.clone());
        let found = match look(runtime.clone(), setup).await {
            Ok(found) => found,
            Err(error) => return drop(tell.send(Err(error))),
        };
        if tell.send(Ok(())).is_err() || goes_on.await.is_err() {
            return;
        }
        match found.serve().await {
            Err(error) => drop(open.send(Err(Error::new(ErrorKind::Store, error.message)))),
            Ok((engine, report)) => {
                runtime.spawn_detached(waiting::look_out(
                    runtime.clone(),
                    away,
                    health,
                    "restart the server to take it back",
                ));
                if open.send(Ok((engine.client(), report))).is_ok() {
                    engine.closed().await;
                }
            }
        }
    };
    let ended = thread::start("objects", owner)?;
    told.await.map_err(lost)??;
    Ok(FoundObjects { go_on, opened, ended })
}

impl FoundObjects {
    /// Waits until the store serves.
    ///
    /// # Errors
    /// `Store`.
    pub(crate) async fn serve(self) -> Result<Objects> {
        let Self { go_on, opened, ended } = self;
        // An owner that has ended has dropped the other end, too.
        let _ = go_on.send(());
        let (client, report) = opened.await.map_err(lost)??;
        Ok(Objects { client, report, ended })
    }
}

fn lost(_: oneshot::error::RecvError) -> Error {
    Error::new(ErrorKind::Store, "the object store's thread ended while it was opened")
}

async fn look(runtime: Runtime, setup: Setup) -> Result<Found> {
    let Setup { index, index_cache_bytes, drives, mut options, rebuild, health, away: _ } = setup;
    // A part of what the index may have for reading goes to the rows that were used last.
    options.row_cache_bytes = index_cache_bytes / 4;
    let index_cache_bytes = index_cache_bytes - options.row_cache_bytes;
    let failed = |error: &dyn std::fmt::Display| {
        let advice = "nothing is lost with the index: it can be removed, and is made again from the drives";
        Error::new(ErrorKind::Store, format!("{error} ({advice})"))
    };
    let index = match FjallIndex::open(&index, index_cache_bytes) {
        Ok(index) => index,
        // Only a damaged index is put aside: one that cannot be reached now, or lacks room, is as good as it was.
        Err(error) if error.kind() != IndexErrorKind::Damaged => {
            let advice = match error.kind() {
                IndexErrorKind::Full => "make room on its file system, and start again",
                _ => "make it readable and writable, and start again",
            };
            return Err(Error::new(ErrorKind::Store, format!("{error} ({advice}; nothing is lost)")));
        }
        Err(error) => {
            let aside = set_aside(&index).map_err(|error| failed(&error))?;
            tracing::warn!(%error, moved_to = %aside.display(), "the index is damaged; it is made again from the drives");
            FjallIndex::open(&index, index_cache_bytes).map_err(|error| failed(&error))?
        }
    };
    health.opening("opening the index");
    let mut told = 0;
    let progress = move |progress: Progress| {
        let percent = (progress.bytes_done * 100).checked_div(progress.bytes).unwrap_or(100);
        if percent >= told + 10 {
            told = percent;
            health.opening(format!("rebuilding the index, {percent} %"));
            tracing::info!(files = progress.files, files_done = progress.files_done, "reading the drives: {percent} %");
        }
    };
    let (index, progress) = (Arc::new(index), Some(Box::new(progress) as _));
    let found = ObjectEngine::find(runtime, drives, index, options, rebuild, progress).await;
    found.map_err(|error| Error::new(ErrorKind::Store, error.message))
}

/// Moves a damaged index out of the way, for a person to look at, and returns its new path. One that was put there
/// before is deleted: the disk has room for one.
fn set_aside(index: &Path) -> std::io::Result<PathBuf> {
    let aside = index.with_extension("damaged");
    if aside.exists() {
        std::fs::remove_dir_all(&aside)?;
    }
    std::fs::rename(index, &aside)?;
    Ok(aside)
}

/// Writes the report of opening to the log.
pub(crate) fn log_report(report: &OpenReport) {
    if let Some(why) = &report.index_refused {
        tracing::warn!("the index was not used: {why}");
    }
    let origin = match report.index {
        IndexOrigin::New => "new",
        IndexOrigin::Kept => "kept",
        IndexOrigin::Backup => "from its backup",
        IndexOrigin::Scan => "from the drives",
    };
    tracing::info!(files = report.files, entries_read = report.entries, bytes_read = report.bytes, "index {origin}");
    for store in &report.missing_drives {
        tracing::error!("the drive with store {store} is missing: its objects give errors until it is back");
    }
    for damage in &report.damage {
        tracing::error!("damage: {damage}");
    }
    if report.incomplete {
        tracing::warn!(
            "parts of the drives could not be read: data that seems unneeded is kept until a start that reads all"
        );
    }
    for bucket in &report.implied_buckets {
        tracing::warn!(bucket, "the bucket's own entry was lost; it was made again because it holds objects");
    }
}
