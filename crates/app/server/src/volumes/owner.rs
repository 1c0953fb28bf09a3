//! Owner of a volume: a thread that has the drive and the volume to itself.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_runtime::owner::{Calls, Closing, Desk};
use shingle_store_api::{BlockStore, StoreError, StoreResult};
use shingle_translation::{Options, RecoveryReport, SnapshotView, Volume};
use shingle_translation_layers::Layer;
use shingle_zoned_linux::{OpenOptions, System};
use tokio::sync::oneshot;

use crate::drive_path;
use crate::engines::{device, thread};
use crate::error::{Error, ErrorKind, Result};
use crate::inventory::{self, DriveName};

/// Calls that wait for the owner.
const QUEUE_DEPTH: usize = 256;
/// Calls that are under way: the front end bounds them by connection, so these places only have to be enough.
const PLACES: usize = 4096;

/// State of the thread.
pub(super) struct Core {
    rt: Runtime,
    volume: Volume,
    closing: Closing,
}

/// State of a snapshot's desk.
pub(super) struct SnapshotCore {
    view: SnapshotView,
    closing: Closing,
}

impl SnapshotCore {
    pub(super) fn store(&self) -> &dyn BlockStore {
        &self.view
    }
}

impl Core {
    pub(super) fn store(&self) -> &dyn BlockStore {
        &self.volume
    }

    pub(super) fn runtime(&self) -> &Runtime {
        &self.rt
    }

    pub(super) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// A desk of its own for a snapshot, which is served until nobody has it.
    pub(super) fn snapshot(&self, name: &str) -> StoreResult<Desk<SnapshotCore>> {
        let core = Rc::new(SnapshotCore { view: self.volume.at_snapshot(name)?, closing: Closing::default() });
        let (desk, calls) = Desk::with_places(QUEUE_DEPTH, PLACES);
        let rt = self.rt.clone();
        self.rt.spawn_detached(async move { calls.serve(rt, core, |core| &core.closing).await });
        Ok(desk)
    }
}

/// A volume whose owner runs.
pub(super) struct Owner {
    /// For people: the drive's path, and another name of it.
    pub(super) called: String,
    /// The drive's node or file.
    pub(super) node: PathBuf,
    pub(super) desk: Desk<Core>,
    /// The drive is a disk that turns.
    pub(super) rotational: bool,
    pub(super) sector_bytes: u64,
    /// The result of closing.
    closed: oneshot::Receiver<std::result::Result<(), StoreError>>,
    /// Completes when the thread has let go of everything.
    ended: oneshot::Receiver<()>,
}

/// The owner's report once the volume is open.
struct Opened {
    called: String,
    node: PathBuf,
    rotational: bool,
    sector_bytes: u64,
}

impl Owner {
    /// Starts an owner, and waits until its volume is open; `layer` cleans it.
    ///
    /// # Errors
    /// `InUse`, `NewerVersion`, `Drive`, `System`.
    pub(super) async fn start(drive: PathBuf, options: Options, layer: Layer) -> Result<Self> {
        let (desk, calls) = Desk::with_places(QUEUE_DEPTH, PLACES);
        let ((tell, told), (end, closed)) = (oneshot::channel(), oneshot::channel());
        let path = drive.clone();
        let ended = thread::start("volume", move |rt| own(rt, drive, (options, layer), calls, tell, end))?;
        let lost = |_| {
            let words = format!("{}: the volume's thread ended while it was opened", path.display());
            Error::new(ErrorKind::Drive, words)
        };
        match told.await.map_err(lost)? {
            Ok(Opened { called, node, rotational, sector_bytes }) => {
                Ok(Self { called, node, desk, rotational, sector_bytes, closed, ended })
            }
            Err(error) => {
                // The drive is free again then.
                let _ = ended.await;
                Err(error)
            }
        }
    }

    /// Closes the volume in order: calls that were handed in are done first.
    ///
    /// # Errors
    /// `Store`.
    pub(super) async fn close(self) -> Result<()> {
        let Self { called, desk, closed, ended, .. } = self;
        // One that is gone needs no telling.
        let _ = desk.begin(|core: Rc<Core>| async move { core.closing.begin() }).await;
        drop(desk);
        let result = closed.await;
        let _ = ended.await;
        let failed = |why: &dyn std::fmt::Display| {
            let words = format!(
                "{called}: the volume could not be closed in order: {why}. What was acknowledged is safe; the next start reads it"
            );
            Error::new(ErrorKind::Store, words)
        };
        match result {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(failed(&error.message)),
            Err(_) => Err(failed(&"its thread is gone")),
        }
    }
}

async fn own(
    rt: Runtime,
    drive: PathBuf,
    (options, layer): (Options, Layer),
    calls: Calls<Core>,
    tell: oneshot::Sender<Result<Opened>>,
    end: oneshot::Sender<std::result::Result<(), StoreError>>,
) {
    let (volume, opened) = match open(&rt, &drive, options).await {
        Ok(opened) => opened,
        Err(error) => return drop(tell.send(Err(error))),
    };
    if tell.send(Ok(opened)).is_err() {
        return;
    }
    layer.begin(&rt, &volume);
    let core = Rc::new(Core { rt: rt.clone(), volume: volume.clone(), closing: Closing::default() });
    // A volume that has stopped fails all calls; its next opening goes on from what was durable.
    let (stopped, watched) = (volume.stopped(), Rc::downgrade(&core));
    rt.spawn_detached(async move {
        stopped.await;
        if let Some(core) = watched.upgrade() {
            core.closing.begin();
        }
    });
    calls.serve(rt, core, |core| &core.closing).await;
    // Nobody may be waiting.
    let _ = end.send(volume.close().await);
}

async fn open(rt: &Runtime, drive: &Path, options: Options) -> Result<(Volume, Opened)> {
    let name = DriveName::of_path(drive).map_err(|error| Error::new(ErrorKind::Config, error))?;
    let system = System::host();
    let node = inventory::locate(rt, &system, &name).await?;
    let called = inventory::called(&system, &name, &node);
    let device = device::open_drive_in_time(&node, rt, OpenOptions::default()).await?;
    let (volume, report) = Volume::open(rt, device, options).await.map_err(|error| {
        let kind = if error.message.contains("version") { ErrorKind::NewerVersion } else { ErrorKind::Drive };
        Error::new(kind, format!("{called}: {}", error.message))
    })?;
    tell_of(&called, &report);
    // A file is on a disk of some kind; clients that order their requests do no harm.
    let rotational = shingle_zoned_linux::describe(&drive_path::holder(&node)).is_ok_and(|drive| drive.rotational);
    let sector_bytes = volume.sector_bytes();
    Ok((volume, Opened { called, node, rotational, sector_bytes }))
}

fn tell_of(called: &str, report: &RecoveryReport) {
    let RecoveryReport { pairs, writes, moves, torn, damaged, unknown, sectors_lost, mended, .. } = report;
    tracing::info!(drive = called, pairs, writes, moves, torn = torn.len(), "the volume is open");
    for (zone, block) in mended {
        tracing::warn!(drive = called, "metadata at block {block} of {zone} are lost; others make up for them");
    }
    for (zone, block) in damaged {
        tracing::error!(
            drive = called,
            "the pair at block {block} of {zone} is damaged: some sectors may fail when they are read"
        );
    }
    for place in unknown {
        let (from, to) = (place.from, place.to.saturating_sub(1));
        tracing::error!(drive = called, "{}: what blocks {from} to {to} say is given up", place.zone);
    }
    if *sectors_lost > 0 {
        tracing::error!(drive = called, sectors_lost, "sectors are lost: they fail when they are read");
    }
}
