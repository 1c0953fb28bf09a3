//! The owner of a blue store: a thread that has its drive, the store and the buckets on it.
//!
//! The server never formats a drive for it: one that holds no blue store does not open, and says so.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use shingle_base::StoreId;
use shingle_blue_objects::{BlueClient, BlueEngine, from_blue};
use shingle_blue_store::{BlueError, BlueErrorKind, OpenReport, Store};
use shingle_rocksdb_keys::with_rocksdb;
use shingle_runtime::Runtime;
use shingle_runtime::memory::Memory;
use shingle_zoned_linux::OpenOptions;
use tokio::sync::oneshot;

use super::{room, thread, waiting};
use crate::config::BlueConfig;
use crate::engines::device;
use crate::error::{Error, ErrorKind, Result};
use crate::inventory::DriveName;
use crate::reports::gauges::Gauges;
use crate::reports::health::Health;

/// Objects whose extents and attributes are in memory, and data that were read, unless the configuration says otherwise.
pub(crate) const CACHE_BYTES: u64 = 256 << 20;

/// A blue store whose owner runs.
pub(crate) struct Blue {
    pub(crate) client: BlueClient,
    /// Its drive's name in the configuration, and the drive's commands.
    pub(crate) gauges: (String, Arc<Gauges>),
}

/// The server's contributions.
#[derive(Clone)]
pub(crate) struct Given {
    /// Longest wait for a missing drive; `None` = no wait.
    pub(crate) wait: Option<Duration>,
    /// Memory for bodies that are still coming.
    pub(crate) memory: Arc<Memory>,
}

/// Starts the owner and waits until the store is open. The receiver completes when the owner has ended: after [`BlueClient::close`], or
/// because it failed.
///
/// # Errors
/// `Config`, `Drive`, `InUse`, `NewerVersion`, `Store`, `System`, with what to do.
pub(crate) async fn start(config: BlueConfig, given: Given, health: Health) -> Result<(Blue, oneshot::Receiver<()>)> {
    let (tell, told) = oneshot::channel();
    let (name, drive) = (config.name.clone(), config.drive.display().to_string());
    let gauges = Arc::new(Gauges::default());
    let (label, counted) = (name.clone(), gauges.clone());
    let owner = move |runtime: Runtime| async move {
        match open(&runtime, &config, given, &health, &counted).await {
            Err(error) => {
                let message = format!("blue store {label}: {}", error.message);
                drop(tell.send(Err(Error::new(error.kind, message))));
            }
            Ok(engine) => {
                if tell.send(Ok(engine.client())).is_err() {
                    return drop(engine.close().await);
                }
                if let Err(error) = engine.closed().await {
                    tracing::warn!(blue = label, %error, "the store did not close in order; its next start takes longer");
                }
            }
        }
    };
    let ended = thread::start(&format!("blue-{name}"), owner)?;
    let lost = |_| Error::new(ErrorKind::Store, format!("blue store {name}: its thread ended while it was opened"));
    let client = told.await.map_err(lost)??;
    Ok((Blue { client, gauges: (drive, gauges) }, ended))
}

/// Waits for the drive, and finds its node.
async fn node_of(runtime: &Runtime, config: &BlueConfig, wait: Option<Duration>, health: &Health) -> Result<PathBuf> {
    let name = DriveName::of_path(&config.drive).map_err(|error| Error::new(ErrorKind::Config, error))?;
    let absent = || Error::new(ErrorKind::Drive, format!("its drive {} is not there", config.drive.display()));
    waiting::find(runtime, &name, wait, health).await?.ok_or_else(absent)
}

async fn open(
    runtime: &Runtime,
    config: &BlueConfig,
    given: Given,
    health: &Health,
    gauges: &Arc<Gauges>,
) -> Result<BlueEngine> {
    health.opening("opening the drive");
    let node = node_of(runtime, config, given.wait, health).await?;
    for short in room::short([node.clone()]) {
        tracing::warn!("{short}");
    }
    let label = node.display().to_string();
    let opening = device::open_drive_in_time(&node, runtime, OpenOptions::default());
    let dev = waiting::named_if_late(runtime, health, &label, opening).await?;
    health.opening("opening the blue store");
    let opened = Store::open(runtime, gauges.count(runtime, dev), blue_options(config)).await;
    let (store, report) = opened.map_err(|error| failed(config, &error))?;
    tell(config, store.id(), &report);
    let engine = BlueEngine::open(runtime.clone(), store.clone(), objects_options(config, given.memory)).await;
    match engine {
        Ok(engine) => Ok(engine),
        Err(error) => {
            // The store is sound; it is only in use by another.
            if let Err(error) = store.close().await.map_err(from_blue) {
                tracing::warn!(blue = config.name, %error, "the store could not be closed in order");
            }
            Err(Error::new(ErrorKind::Store, error.message))
        }
    }
}

fn blue_options(config: &BlueConfig) -> shingle_blue_store::Options {
    let cache_bytes = config.cache.unwrap_or(CACHE_BYTES);
    with_rocksdb(shingle_blue_store::Options { cache_bytes, ..shingle_blue_store::Options::default() })
}

fn objects_options(config: &BlueConfig, memory: Arc<Memory>) -> shingle_blue_objects::Options {
    let compression = config.compression.into();
    shingle_blue_objects::Options { memory, compression, ..shingle_blue_objects::Options::default() }
}

/// Tells what an opening has found.
fn tell(config: &BlueConfig, store: StoreId, report: &OpenReport) {
    for short in &report.short {
        let (zone, written, named) = (short.zone, short.written, short.named);
        tracing::error!(
            blue = config.name,
            "damage: data zone {zone} has {written} blocks, and {named} were written, of {}; `shingle blue check` tells more",
            short.holders.join(", ")
        );
    }
    tracing::info!(blue = config.name, %store, deferred = report.deferred, "blue store open");
}

/// A store opened for reading alone, by a command while no server runs.
///
/// # Errors
/// As [`start`].
pub(crate) async fn open_to_read(
    runtime: &Runtime,
    config: &BlueConfig,
    health: &Health,
) -> Result<(Store, BlueEngine)> {
    let named = |error: Error| Error::new(error.kind, format!("blue store {}: {}", config.name, error.message));
    let node = node_of(runtime, config, None, health).await.map_err(named)?;
    let dev = device::open_drive_in_time(&node, runtime, OpenOptions::default()).await.map_err(named)?;
    let opened = Store::examine(runtime, dev, blue_options(config)).await;
    let (store, _) = opened.map_err(|error| named(failed(config, &error)))?;
    let options = objects_options(config, Memory::unbounded());
    let engine = BlueEngine::open_to_read(runtime.clone(), store.clone(), options).await;
    let engine = engine.map_err(|error| named(Error::new(ErrorKind::Store, error.message)))?;
    Ok((store, engine))
}

fn failed(config: &BlueConfig, error: &BlueError) -> Error {
    let kind = match error.kind {
        BlueErrorKind::Invalid if error.message.contains("newer") => ErrorKind::NewerVersion,
        BlueErrorKind::Invalid | BlueErrorKind::Device | BlueErrorKind::Corrupt => ErrorKind::Drive,
        _ => ErrorKind::Store,
    };
    Error::new(kind, format!("{}: {}", config.drive.display(), error.message))
}
