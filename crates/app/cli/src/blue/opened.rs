//! The store of a drive, for commands.

use std::path::Path;

use shingle_base::printable;
use shingle_blue_objects::{BlueClient, BlueEngine};
use shingle_blue_store::{BlueError, BlueErrorKind, OpenReport, Options, Store};
use shingle_rocksdb_keys::with_rocksdb;
use shingle_runtime::Runtime;
use shingle_store_api::StoreError;

use crate::device;
use crate::failure::{Failure, Outcome};

/// The store of a drive, for reading alone.
pub(super) async fn examined(drive: &Path, rt: &Runtime) -> Outcome<(Store, OpenReport)> {
    let device = device::open(drive, rt).await?;
    Store::examine(rt, device, with_rocksdb(Options::default())).await.map_err(|error| named(drive, &error).not_run())
}

/// Runs `work` with the buckets of a drive, for reading alone or to be changed, and closes them even if it failed.
pub(super) fn with_buckets<T>(
    drive: &Path,
    write: bool,
    work: impl AsyncFnOnce(&Runtime, &BlueClient) -> Outcome<T>,
) -> Outcome<T> {
    shingle_runtime::real::run(|rt| async move {
        let engine = if write {
            let device = device::open(drive, &rt).await?;
            let opened = Store::open(&rt, device, with_rocksdb(Options::default())).await;
            let (store, _) = opened.map_err(|error| named(drive, &error).not_run())?;
            BlueEngine::open(rt.clone(), store, shingle_blue_objects::Options::default()).await
        } else {
            let (store, _) = examined(drive, &rt).await?;
            BlueEngine::open_to_read(rt.clone(), store, shingle_blue_objects::Options::default()).await
        };
        let engine = engine.map_err(|error| of_drive(drive, &error).not_run())?;
        let result = work(&rt, &engine.client()).await;
        let closed = engine.close().await.map_err(|error| of_drive(drive, &error));
        let value = result?;
        closed.map(|()| value)
    })?
}

/// An error of a drive, with advice.
pub(super) fn named(drive: &Path, error: &BlueError) -> Failure {
    let advice = match error.kind {
        BlueErrorKind::Corrupt => " (`shingle blue check` tells more)",
        _ => "",
    };
    Failure::new(format!("{}: {}{advice}", drive.display(), error.message))
}

fn of_drive(drive: &Path, error: &StoreError) -> Failure {
    Failure::new(format!("{}: {error}", drive.display()))
}

/// The drive holds no bucket of that name.
pub(super) fn no_bucket(bucket: &str) -> Failure {
    let bucket = printable(bucket.as_bytes());
    Failure::new(format!("the drive has no bucket `{bucket}`: `shingle blue ls` lists those there are"))
}
