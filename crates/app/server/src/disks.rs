//! Emulated drives, and partitions of drives, as zoned disks of the kernel, each served by a process of its own.
//!
//! # Invariants
//! - SV-DSK-1: after any end of the process the drive is as the commands left it that were answered; the next start takes away what a
//!   killed process left of its disk in the kernel. (`test_ublk.py`)

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use shingle_runtime::{Runtime, real};
use shingle_ublk_server::{Disk, ZonedDisk};
use shingle_zoned_linux::{OpenOptions, System, UblkError, UblkErrorKind, ZonedModel, ublk_check};

use crate::drive_path::split;
use crate::engines::device;
use crate::error::{Error, ErrorKind, Result};
use crate::inventory::{self, DriveName};
use crate::reports::notify::Manager;
use crate::server::start_log;
use crate::signals::Signals;

/// Longest time for an orderly end: what the kernel holds in memory is written.
const STOP_PATIENCE: Duration = Duration::from_mins(5);

/// An emulated drive that is to be a zoned disk.
#[derive(Clone, Debug)]
pub struct AttachDrive {
    /// The drive: a path, or a name that stays.
    pub drive: PathBuf,
    /// The disk takes no writes.
    pub read_only: bool,
    /// Level of the log, or levels by module.
    pub log: String,
}

/// Serves a drive as a zoned disk, until a signal or until the disk is taken away. `ready` is called with its node.
///
/// # Errors
/// `Config` for a drive that can be no disk, `System` where the kernel has no ublk or refuses, `Drive`, `InUse`, `NewerVersion`.
pub fn attach_drive(wanted: AttachDrive, ready: impl FnOnce(&Path)) -> Result<()> {
    start_log(&wanted.log)?;
    real::run(|rt| serve(rt, wanted, ready)).map_err(|error| Error::system("no executor", error))?
}

async fn serve(rt: Runtime, wanted: AttachDrive, ready: impl FnOnce(&Path)) -> Result<()> {
    let manager = Manager::from_environment();
    let mut signals = Signals::new()?;
    // Before the drive is touched.
    ublk_check(true).map_err(of_ublk)?;
    let name = DriveName::of_path(&wanted.drive).map_err(|words| Error::new(ErrorKind::Config, words))?;
    let system = System::host();
    let node = inventory::locate(&rt, &system, &name).await?;
    let called = inventory::called(&system, &name, &node);
    let (holder, partition) = split(&node);
    let under = shingle_zoned_linux::describe(&holder).ok();
    if partition.is_none() && under.as_ref().is_some_and(|drive| drive.zoned != ZonedModel::None) {
        let words = format!("{called}: this drive is a zoned disk of the kernel already: use it as it is");
        return Err(Error::new(ErrorKind::Config, words));
    }
    let options = OpenOptions { keep_open: true, ..OpenOptions::default() };
    let device = device::open_drive(&node, &rt, options)?;
    let backend = ZonedDisk::new(device, under.is_some_and(|drive| drive.rotational), wanted.read_only);
    let in_drive = |error: UblkError| {
        let error = of_ublk(error);
        Error::new(error.kind, format!("{called}: {}", error.message))
    };
    let disk = Disk::begin(&rt, Rc::new(backend), called.clone()).await.map_err(in_drive)?;
    ready(&disk.node());
    manager.ready();
    manager.status(&disk.node().display().to_string());
    tokio::select! {
        () = signals.any() => {}
        () = disk.ended() => {}
    }
    manager.stopping(STOP_PATIENCE);
    tracing::info!("stopping; a second signal stops at once");
    tokio::select! {
        ended = disk.end() => ended.map_err(in_drive),
        () = signals.any() => Ok(()),
    }
}

pub(crate) fn of_ublk(error: UblkError) -> Error {
    let kind = match error.kind {
        UblkErrorKind::Shape(_) => ErrorKind::Config,
        _ => ErrorKind::System,
    };
    Error::new(kind, error.to_string())
}
