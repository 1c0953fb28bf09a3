//! An array's owner: a thread that has all its drives, the array and the store on it.
//!
//! # Invariants
//! - SV-ARR-1: no drive of an array is given up silently: a drive that is missing, or cannot be opened, and that the array would then
//!   stop believing, is waited for, then named in the log and in the server's health. With `degraded = false` the array does not open.
//! - SV-ARR-2: a drive that is there and cannot be opened is as one that is missing: the array opens if parity makes up for it. One that hangs
//!   keeps no other from being opened. Only a drive that others have, or that is not for this server, keeps the array closed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use shingle_array_objects::{ArrayClient, ArrayEngine, NAMING};
use shingle_array_store::{ArrayDrive, ArrayStore, IndexPlace, Inspection, Options, RecoveryReport, inspect, patient};
use shingle_runtime::Runtime;
use shingle_runtime::memory::Memory;
use shingle_zoned_linux::OpenOptions;
use tokio::sync::oneshot;

use super::{room, scrub, thread, waiting};
use crate::config::ArrayConfig;
use crate::engines::device;
use crate::error::{Error, ErrorKind, Result};
use crate::inventory::DriveName;
use crate::reports::damage::Damage;
use crate::reports::gauges::Gauges;
use crate::reports::health::{Health, is_named};

/// Folder of arrays' indexes in the data directory.
pub(crate) const FOLDER: &str = "arrays";
/// Advice about a drive that comes back.
const TAKE_BACK: &str = "stop the server, take the drive back with `shingle array readmit`, and start the server again";
/// Memory for large objects being written to one array, beside bytes on their way to the drives.
const WRITERS_BYTES: u64 = 320 << 20;

/// The server's contributions to each of its engines.
#[derive(Clone)]
pub(crate) struct Given {
    /// Longest wait for missing drives; `None` = no wait.
    pub(crate) wait: Option<Duration>,
    /// Memory for objects whose bytes are still coming.
    pub(crate) memory: Arc<Memory>,
    /// Known damage of its objects.
    pub(crate) damage: Arc<Damage>,
}

/// An array whose owner runs.
pub(crate) struct Array {
    pub(crate) client: ArrayClient,
    /// Results of verifying it in the background.
    pub(crate) scrub: scrub::Shared,
    /// The commands of its drives, by their names in the configuration.
    pub(crate) gauges: Vec<(String, Arc<Gauges>)>,
    /// Report of opening it.
    pub(crate) report: RecoveryReport,
    /// It had been closed in order.
    pub(crate) was_clean: bool,
    /// Nodes and files of the present drives.
    pub(crate) nodes: Vec<PathBuf>,
}

/// An array that is open, in its owner's thread.
struct Opened {
    engine: ArrayEngine,
    report: RecoveryReport,
    was_clean: bool,
    nodes: Vec<PathBuf>,
}

/// Starts an array's owner and waits until the store on it is open. The receiver completes when the owner has ended: after
/// [`ArrayClient::close`], or because it failed.
///
/// # Errors
/// `Config`, `Denied`, `Drive`, `InUse`, `NewerVersion`, `Store`, `System`, with what to do.
pub(crate) async fn start(
    config: ArrayConfig,
    data: &Path,
    given: Given,
    health: Health,
) -> Result<(Array, oneshot::Receiver<()>)> {
    let (tell, told) = oneshot::channel();
    let name = config.name.clone();
    let folder = data.join(FOLDER);
    let label = name.clone();
    let gauges: Vec<_> =
        config.drives.iter().map(|path| (path.display().to_string(), Arc::new(Gauges::default()))).collect();
    let counted = gauges.clone();
    let figures = scrub::Shared::default();
    let scrub = figures.clone();
    let owner = move |runtime: Runtime| async move {
        match open(&runtime, &config, &folder, figures, given, &health, &counted).await {
            Err(error) => {
                let message = format!("array {label}: {}", error.message);
                drop(tell.send(Err(Error::new(error.kind, message))));
            }
            Ok(Opened { engine, report, was_clean, nodes }) => {
                if tell.send(Ok((engine.client(), report, was_clean, nodes))).is_err() {
                    return drop(engine.close().await);
                }
                if let Err(error) = engine.closed().await {
                    tracing::warn!(array = label, %error, "the array did not close in order; its next start takes longer");
                }
            }
        }
    };
    let ended = thread::start(&format!("array-{name}"), owner)?;
    let lost = |_| Error::new(ErrorKind::Store, format!("array {name}: its thread ended while it was opened"));
    let (client, report, was_clean, nodes) = told.await.map_err(lost)??;
    Ok((Array { client, scrub, gauges, report, was_clean, nodes }, ended))
}

async fn open(
    runtime: &Runtime,
    config: &ArrayConfig,
    folder: &Path,
    figures: scrub::Shared,
    given: Given,
    health: &Health,
    gauges: &[(String, Arc<Gauges>)],
) -> Result<Opened> {
    health.opening("opening the drives");
    let Drives { mut drives, away, nodes } = open_drives(runtime, &config.drives, given.wait, health).await?;
    for drive in &mut drives {
        if let Some((_, gauges)) = gauges.iter().find(|(name, _)| *name == drive.name) {
            drive.dev = gauges.count(runtime, drive.dev.clone());
        }
    }
    health.opening("opening the array");
    if drives.is_empty() {
        return Err(Error::new(ErrorKind::Drive, format!("none of its drives is there: {}", words_of(&away))));
    }
    let seen = inspect(&patient(runtime, &drives)).await.map_err(failed)?;
    check_missing(&seen, config.degraded, &away)?;
    std::fs::create_dir_all(folder).map_err(|error| Error::system(folder.display(), error))?;
    // By the array's identity: another array's files are never taken for this one's.
    let index = config.index.clone().unwrap_or_else(|| folder.join(format!("{}.index", seen.array)));
    // In the background it also rebuilds lost drives' data, as far as others have room.
    let mut options = Options {
        rebuild_rate: config.rebuild_rate,
        buffer: config.buffer.clone(),
        naming: NAMING,
        ..Options::default()
    };
    if let Some(seconds) = config.buffer_time_s {
        options.buffer_time = Duration::from_secs(seconds);
    }
    let opened = ArrayStore::open(runtime, &drives, &IndexPlace::File(index), options).await;
    let (store, report) = opened.map_err(failed)?;
    health.opened_without(called(&report.missing_drives, &away));
    for Away { name, why, .. } in &away {
        why.iter().for_each(|why| health.cannot_open(name, why));
    }
    for drive in &report.missing_drives {
        tracing::error!(
            array = config.name,
            "the array goes on without {drive}: the loss of one more drive may cost objects"
        );
    }
    for file in &report.buffer {
        tracing::warn!(array = config.name, "{file}");
    }
    for damage in &report.damage {
        tracing::error!(array = config.name, "damage: {damage}");
    }
    tracing::info!(
        array = config.name,
        code = %seen.code,
        drives = seen.drives.len(),
        objects = report.objects,
        index_taken = report.clean,
        sets_read = report.sets_examined,
        "array open"
    );
    let writers_max = (WRITERS_BYTES / u64::from(seen.segment_length).max(1)).clamp(4, 64) as usize;
    let options = shingle_array_objects::Options {
        writers_max,
        memory: given.memory,
        ..shingle_array_objects::Options::default()
    };
    let engine = ArrayEngine::open(runtime.clone(), store.clone(), options).await;
    match engine {
        Ok(engine) => {
            if let Some(interval) = config.scrub_interval {
                let file = folder.join(format!("{}.scrub", seen.array));
                let (array, damage, rate) = (config.name.clone(), given.damage, config.scrub_rate);
                let plan = scrub::Plan { array, damage, interval, rate, file };
                runtime.spawn_detached(plan.keep(runtime.clone(), store, figures));
            }
            let absent = away.into_iter().filter(|away| away.why.is_none()).map(|away| (away.name, away.known));
            let look_out = waiting::look_out(runtime.clone(), absent.collect(), health.clone(), TAKE_BACK);
            runtime.spawn_detached(look_out);
            Ok(Opened { engine, report, was_clean: seen.clean, nodes })
        }
        Err(error) => {
            // The array is sound; it is only in use by another.
            if let Err(error) = store.close().await {
                tracing::warn!(array = config.name, %error, "the array could not be closed in order");
            }
            Err(Error::new(ErrorKind::Store, error.message))
        }
    }
}

/// Missing drives by their names in the configuration, as far as known.
fn called(missing: &[String], away: &[Away]) -> Vec<String> {
    let called = |drive: &String| {
        let known = away.iter().find(|away| is_named(drive, &away.name));
        known.map_or_else(|| drive.clone(), |away| away.name.clone())
    };
    missing.iter().map(called).collect()
}

/// A drive that is not there, or cannot be opened.
pub(crate) struct Away {
    /// Its name in the configuration.
    name: String,
    known: DriveName,
    /// Reason why it cannot be opened although it is there.
    why: Option<String>,
}

/// Drives that are away, for people.
pub(crate) fn words_of(away: &[Away]) -> String {
    let words = away.iter().map(|away| match &away.why {
        Some(why) => format!("{} ({why})", away.name),
        None => away.name.clone(),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Drives of an array.
pub(crate) struct Drives {
    pub(crate) drives: Vec<ArrayDrive>,
    /// Missing drives, and those that cannot be opened.
    pub(crate) away: Vec<Away>,
    /// Nodes or files of the present drives.
    pub(crate) nodes: Vec<PathBuf>,
}

/// Opens the drives that are present, or come while they are waited for, all at once; others come back by name. (SV-WAIT-1, SV-ARR-2)
///
/// # Errors
/// `Config`, `Denied`, `InUse`, `NewerVersion`, `System`.
pub(crate) async fn open_drives(
    runtime: &Runtime,
    names: &[PathBuf],
    wait: Option<Duration>,
    health: &Health,
) -> Result<Drives> {
    let known = names.iter().map(|path| DriveName::of_path(path).map_err(|error| Error::new(ErrorKind::Config, error)));
    let known = known.collect::<Result<Vec<_>>>()?;
    let named = names.iter().map(|path| path.display().to_string());
    let opening = named.zip(known).map(|(name, known)| open_one(runtime, name, known, wait, health));
    let (mut drives, mut away, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
    for found in join_all(opening).await {
        match found? {
            Found::Open(drive, node) => {
                drives.push(drive);
                nodes.push(node);
            }
            Found::Away(drive) => away.push(drive),
        }
    }
    for short in room::short(nodes.iter().cloned()) {
        tracing::warn!("{short}");
    }
    Ok(Drives { drives, away, nodes })
}

/// A drive after an attempt to open it.
enum Found {
    /// With its node or file.
    Open(ArrayDrive, PathBuf),
    Away(Away),
}

/// Opens a drive, or finds out why not. One that cannot be opened is tried again for as long as a missing one is waited for.
async fn open_one(
    runtime: &Runtime,
    name: String,
    known: DriveName,
    wait: Option<Duration>,
    health: &Health,
) -> Result<Found> {
    let began = runtime.now();
    let left = || wait.map_or(Duration::ZERO, |wait| wait.saturating_sub(runtime.now().since(began)));
    loop {
        let node = match waiting::find(runtime, &known, Some(left()), health).await {
            Ok(Some(node)) => node,
            Ok(None) => return Ok(Found::Away(Away { name, known, why: None })),
            Err(error) => {
                tracing::warn!("{error}");
                return Ok(Found::Away(Away { name, known, why: None }));
            }
        };
        let opening = device::open_drive_in_time(&node, runtime, OpenOptions::default());
        let error = match waiting::named_if_late(runtime, health, &name, opening).await {
            Ok(dev) => return Ok(Found::Open(ArrayDrive { name, dev }, node)),
            Err(error) if error.kind == ErrorKind::Drive => error,
            Err(error) => return Err(error),
        };
        if left().is_zero() {
            tracing::error!(engine = health.name(), drive = name, "the drive cannot be opened: {error}");
            return Ok(Found::Away(Away { name, known, why: Some(error.message) }));
        }
        waiting::pause(runtime, left()).await;
    }
}

/// Refuses missing drives that the array uses (SV-ARR-1).
fn check_missing(seen: &Inspection, degraded: bool, away: &[Away]) -> Result<()> {
    let Some(absent) = seen.absent() else { return Ok(()) };
    let why: String = away.iter().filter_map(|away| away.why.as_ref()).map(|why| format!(". {why}")).collect();
    if let Some(words) = absent.too_many() {
        let message = format!("{words}. Attach the missing drives and start again; nothing was changed{why}");
        return Err(Error::new(ErrorKind::Drive, message));
    }
    if degraded {
        return Ok(());
    }
    let message = format!(
        "missing: {}. Attach it and start again. If it is lost, take degraded = false out of this [[array]] of the \
         configuration: everything is served without it, but it will not be used again as it is, should it come back{why}",
        absent.names.join(", ")
    );
    Err(Error::new(ErrorKind::Drive, message))
}

pub(crate) fn failed(error: shingle_array_store::Error) -> Error {
    use shingle_array_store::ErrorKind as Array;
    let kind = match error.kind {
        Array::Format if error.message.contains("newer") => ErrorKind::NewerVersion,
        Array::Format | Array::Invalid | Array::Device | Array::Corrupt => ErrorKind::Drive,
        _ => ErrorKind::Store,
    };
    Error::new(kind, error.message)
}
