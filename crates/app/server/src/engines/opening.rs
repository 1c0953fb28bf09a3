//! Opening drives, then their objects: drives and stores that belong together are opened, others are refused.
//!
//! **Owns** SV-SRV-2, with `drive`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use shingle_base::StoreId;
use shingle_chunk_store::Unread;
use shingle_object_store::{Drive as ObjectDrive, Options as ObjectOptions, Place};
use shingle_runtime::memory::Memory;

use crate::config::Config;
use crate::data_dir::{DataDir, KnownDrive};
use crate::engines::drive::{self, Blank, Drive, Manner};
use crate::engines::objects::{self, Objects, Setup};
use crate::engines::room;
use crate::error::{Error, ErrorKind, Result};
use crate::inventory::DriveName;
use crate::reports::health::Health;

/// Time that an engine with `objects` objects, then its drives together, have to close in order. After it the process ends all
/// the same, which is as safe as a power cut. An index of 35 million objects took more than 20 seconds.
pub(crate) fn close_patience(objects: u64) -> Duration {
    DRIVE_CLOSE_PATIENCE.saturating_add(Duration::from_secs(objects / OBJECTS_A_SECOND))
}

/// Time that drives have to close, however many.
pub(crate) const DRIVE_CLOSE_PATIENCE: Duration = Duration::from_secs(20);
/// Lowest number of objects whose index is closed in a second.
const OBJECTS_A_SECOND: u64 = 200_000;

/// Purpose of opening a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To serve requests.
    Serve,
    /// To look after the objects: no drive is made, and no background work runs, which a check would take for damage.
    /// With `rebuild` the index is made again from the drives: `Some(true)` begins with its newest backup.
    Inspect { rebuild: Option<bool> },
    /// As to inspect, and these places are given up.
    AcceptLoss(Shown),
}

/// Places that drives did not give, as somebody was shown them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Of files, by the drives' stores.
    pub(crate) places: BTreeMap<StoreId, Vec<Place>>,
    /// Of zones, by the drives' paths.
    pub(crate) blocks: BTreeMap<PathBuf, Vec<Unread>>,
}

impl Purpose {
    fn options(&self, config: &Config) -> ObjectOptions {
        let mut options =
            ObjectOptions { allow_missing_drives: config.allow_missing_drives, ..ObjectOptions::default() };
        let background = *self == Self::Serve;
        (options.gc.enabled, options.backup.enabled) = (background, background);
        if let Self::AcceptLoss(shown) = self {
            options.accept_loss.clone_from(&shown.places);
        }
        options
    }

    fn rebuild(&self) -> Option<bool> {
        match self {
            Self::Serve | Self::AcceptLoss(_) => None,
            Self::Inspect { rebuild } => *rebuild,
        }
    }
}

/// Opens the drives, which are left in `drives` even if it fails, and the object store on them; `None` if there are
/// none. `health` gets the progress, and the missing drives.
///
/// # Errors
/// `Denied`, `Drive`, `NotMade`, `NewerVersion`, `InUse`, `Store`, `System`.
pub(crate) async fn open(
    config: &Config,
    directory: &mut DataDir,
    drives: &mut Vec<Drive>,
    purpose: &Purpose,
    memory: Arc<Memory>,
    health: &Health,
) -> Result<Option<Objects>> {
    health.opening("opening the drives");
    start_drives(config, directory, drives, purpose, health).await?;
    for short in room::short(drives.iter().map(|drive| drive.path.clone())) {
        tracing::warn!("{short}");
    }
    if drives.is_empty() {
        // Everything lives on arrays.
        return Ok(None);
    }
    let known: Vec<_> =
        drives.iter().map(|drive| KnownDrive { store: drive.store, path: drive.path.clone() }).collect();
    let object_drives: Vec<_> = drives
        .iter_mut()
        .filter_map(|drive| {
            let client = drive.client.take()?;
            Some(ObjectDrive { client, store: drive.store, hides: drive.report.hidden })
        })
        .collect();
    let known_drives = directory.drives().iter().map(|known| known.store).collect();
    let names = directory.drives().iter().map(|known| (known.store, known.path.display().to_string()));
    let names = names.chain(drives.iter().map(|drive| (drive.store, drive.name.clone()))).collect();
    let missing: Vec<_> = directory.drives().iter().filter(|known| !is_open(drives, known)).collect();
    let away = missing.iter().filter_map(|known| Some((named(known), DriveName::of_path(&known.path).ok()?)));
    health.opened_without(missing.iter().map(|known| named(known)));
    let setup = Setup {
        index: directory.path().join("index"),
        index_cache_bytes: config.index_cache,
        drives: object_drives,
        options: ObjectOptions { known_drives, names, memory, ..purpose.options(config) },
        rebuild: purpose.rebuild(),
        health: health.clone(),
        away: away.collect(),
    };
    // Drives that do not belong together are noted for none; and nothing is on a new one before it is noted, or the next start would
    // take it for somebody else's.
    let found = objects::find(setup).await?;
    if *purpose == Purpose::Serve {
        directory.note_drives(&known)?;
    }
    found.serve().await.map(Some)
}

/// Ends the drives' owners, all at once, and waits until they have ended.
pub(crate) async fn close_drives(drives: Vec<Drive>) {
    let close = |Drive { stop, ended, path, .. }: Drive| async move {
        // One that has ended by itself hears nothing.
        let _ = stop.send(());
        if tokio::time::timeout(DRIVE_CLOSE_PATIENCE, ended).await.is_err() {
            tracing::warn!(drive = %path.display(), "the drive did not close in time; its next start takes longer");
        }
    };
    join_all(drives.into_iter().map(close)).await;
}

/// Starts the drives' owners, all at once, and checks that they belong together. A drive is made, or formatted, only if
/// no drive is missing that this data directory has used: it could be that one.
async fn start_drives(
    config: &Config,
    directory: &DataDir,
    drives: &mut Vec<Drive>,
    purpose: &Purpose,
    health: &Health,
) -> Result<()> {
    let (configured, wait) = (config.drives(), config.drive_wait);
    let memory = config.limits.memory / configured.len().max(1) as u64;
    let ours: Vec<_> = directory.drives().iter().map(|known| known.store).collect();
    let start = |number: usize, blank| {
        let config = configured[number].clone();
        // An absent drive that was here once, or that cannot be made, is missing: it is waited for, once. (SV-WAIT-1)
        let known = directory.drives().iter().any(|known| known.path == config.path);
        let waits = *purpose == Purpose::Serve && blank == Blank::Leave && (known || config.create.is_none());
        let (ours, health) = (ours.clone(), health.clone());
        let wait = wait.filter(|_| waits);
        let accept_loss = match purpose {
            Purpose::AcceptLoss(shown) => shown.blocks.get(&config.path).cloned().unwrap_or_default(),
            _ => Vec::new(),
        };
        drive::start(config, number, Manner { ours, wait, blank, health, memory, accept_loss })
    };
    let mut unmade = Vec::new();
    let mut failed = Vec::new();
    let started = join_all((0..configured.len()).map(|number| start(number, Blank::Leave))).await;
    for (number, result) in started.into_iter().enumerate() {
        match result {
            // Kept in any case: the caller closes opened drives.
            Ok(drive) => drives.push(drive),
            Err(error) if error.kind == ErrorKind::NotMade => unmade.push((number, error)),
            Err(error) => failed.push(error),
        }
    }
    are_no_copies(drives)?;
    let absent: Vec<_> = directory.drives().iter().filter(|known| !is_open(drives, known)).collect();
    // Without the missing drives it goes on if the configuration says so, even if they are no longer in it.
    let goes_on = config.allow_missing_drives && !absent.is_empty() && !drives.is_empty();
    for error in failed {
        if !goes_on || !matches!(error.kind, ErrorKind::Drive | ErrorKind::Denied | ErrorKind::System) {
            return Err(error);
        }
        tracing::error!("{error}: going on without it, as allow_missing_drives says");
    }
    if !absent.is_empty() && !goes_on {
        return Err(away(directory, &absent, unmade.first().map(|(_, error)| error)));
    }
    for (number, error) in unmade {
        if !absent.is_empty() {
            tracing::error!("{error}: it may be one of those that are missing, so it is not made anew");
        } else if *purpose == Purpose::Serve {
            drives.push(start(number, Blank::Make).await?);
        } else {
            let message = format!("{error}; commands that only look make no drives and no stores");
            return Err(Error::new(ErrorKind::NotMade, message));
        }
    }
    Ok(())
}

fn is_open(drives: &[Drive], known: &KnownDrive) -> bool {
    drives.iter().any(|drive| drive.store == known.store)
}

/// Name of a drive for people.
pub(crate) fn named(known: &KnownDrive) -> String {
    format!("{} (store {})", known.path.display(), known.store)
}

fn are_no_copies(drives: &[Drive]) -> Result<()> {
    for (number, drive) in drives.iter().enumerate() {
        if let Some(other) = drives[..number].iter().find(|other| other.store == drive.store) {
            let (path, other) = (drive.path.display(), other.path.display());
            let message = format!("{path} and {other} are copies of one drive: name only one of them");
            return Err(Error::new(ErrorKind::Drive, message));
        }
    }
    Ok(())
}

/// Error about missing drives that this data directory has used.
fn away(directory: &DataDir, absent: &[&KnownDrive], unmade: Option<&Error>) -> Error {
    let names: Vec<_> = absent.iter().map(|known| named(known)).collect();
    let unmade = unmade.map(|error| format!("{error} (nothing is made in its place, since it may be one of those); "));
    Error::new(
        ErrorKind::Drive,
        format!(
            "objects of {} lie on drives that are not there: {}; {}bring them back and name them in the configuration, or set \
             allow_missing_drives = true to go on without the objects on them",
            directory.path().display(),
            names.join(", "),
            unmade.unwrap_or_default(),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_chunk_store::RecoveryReport;
    use tokio::sync::oneshot;

    /// As long as `stop_patience` reckons with.
    #[tokio::test(start_paused = true)]
    async fn several_drives_that_hang_take_no_longer_to_close_than_one() {
        let mut hang = Vec::new();
        let drives = (0..5).map(|number| {
            let ((stop, stopped), (end, ended)) = (oneshot::channel(), oneshot::channel());
            hang.push((stopped, end));
            Drive {
                path: PathBuf::from(format!("d{number}")),
                name: String::new(),
                store: StoreId(number),
                report: RecoveryReport::default(),
                client: None,
                stop,
                sample: drive::DriveView::for_test(0, Default::default()).sample,
                gauges: Arc::default(),
                ended,
            }
        });
        let (drives, began) = (drives.collect(), tokio::time::Instant::now());
        close_drives(drives).await;
        assert!(began.elapsed() <= DRIVE_CLOSE_PATIENCE + Duration::from_millis(1), "{:?}", began.elapsed());
        assert!(hang.iter_mut().all(|(stopped, _)| stopped.try_recv().is_ok()), "one was not told to end");
    }
}
