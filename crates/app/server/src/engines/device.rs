//! Drives by their paths, with errors as the server has them.

use std::path::Path;
use std::rc::Rc;

use shingle_base::ZoneId;
use shingle_runtime::Runtime;
use shingle_zoned::{FileDevice, FileDeviceError, FileDeviceErrorKind, PeekDevice, ZoneRange, ZonedDevice};
use shingle_zoned_linux::{KernelDevice, OpenError, OpenErrorKind, OpenOptions, ZonedModel};

use super::partition;
use crate::error::{Error, ErrorKind, Result};
use crate::inventory::partition::split;

/// Opens the drive at `path`: a zoned block device, an emulated drive on an ordinary one or in a file, or a partition of one of these
/// (`PATH#NAME`), beside other partitions that this process has. Locks it against others. One that is mounted is refused with any
/// options.
///
/// # Errors
/// `Drive`, `InUse`, `NewerVersion`.
pub fn open_drive(path: &Path, runtime: &Runtime, options: OpenOptions) -> Result<Rc<dyn ZonedDevice>> {
    match split(path) {
        (path, None) => open_whole(&path, runtime, options),
        (path, Some(name)) => partition::open(&path, &name, options),
    }
}

/// As [`open_drive`], for a path that names a drive and no partition.
pub(super) fn open_whole(path: &Path, runtime: &Runtime, options: OpenOptions) -> Result<Rc<dyn ZonedDevice>> {
    shingle_zoned_linux::open_drive(path, runtime, options).map_err(of_any)
}

/// A drive or partition that may be open elsewhere, to be read.
pub struct Look {
    /// It.
    pub device: Rc<dyn ZonedDevice>,
    drive: Rc<PeekDevice>,
}

impl Look {
    /// As [`PeekDevice::hold`], of the whole drive.
    pub fn hold(&self) -> bool {
        self.drive.hold()
    }
}

/// Looks at the drive or partition at `path`, which may be open elsewhere; changes nothing.
///
/// # Errors
/// `Drive`, `NewerVersion`.
pub async fn look_at_drive(path: &Path, runtime: &Runtime) -> Result<Look> {
    let (path, name) = split(path);
    let drive = Rc::new(look_at_whole(&path, runtime)?);
    let whole: Rc<dyn ZonedDevice> = drive.clone();
    let Some(name) = name else { return Ok(Look { device: whole, drive }) };
    let failed = |error: &dyn std::fmt::Display| Error::new(ErrorKind::Drive, format!("{}: {error}", path.display()));
    let there = shingle_partitions::look(runtime, &whole).await.map_err(|error| failed(&error))?;
    let found = there.into_iter().find(|partition| partition.name == name);
    let found = found.ok_or_else(|| failed(&format_args!("the drive has no partition `{name}`")))?;
    let count = found.zones.end - found.zones.start;
    let view = ZoneRange::new(whole, ZoneId(found.zones.start), count, found.share).await;
    Ok(Look { device: Rc::new(view.map_err(|error| failed(&error))?), drive })
}

fn look_at_whole(path: &Path, runtime: &Runtime) -> Result<PeekDevice> {
    let zoned = shingle_zoned_linux::describe(path).is_ok_and(|drive| drive.zoned != ZonedModel::None);
    if zoned {
        return Ok(KernelDevice::peek(path, runtime).map_err(of_any)?.device);
    }
    FileDevice::peek(path, runtime).map_err(of_emulated)
}

pub(crate) fn of_emulated(error: FileDeviceError) -> Error {
    Error::new(kind_of_emulated(&error), error.to_string())
}

fn kind_of_emulated(error: &FileDeviceError) -> ErrorKind {
    match &error.kind {
        FileDeviceErrorKind::NewerVersion(_) => ErrorKind::NewerVersion,
        FileDeviceErrorKind::InUse => ErrorKind::InUse,
        _ => ErrorKind::Drive,
    }
}

fn of_any(error: OpenError) -> Error {
    let kind = match &error.kind {
        OpenErrorKind::Emulated(error) => kind_of_emulated(error),
        OpenErrorKind::InUse | OpenErrorKind::Mounted(_) | OpenErrorKind::Held(_) => ErrorKind::InUse,
        _ => ErrorKind::Drive,
    };
    Error::new(kind, error.to_string())
}
