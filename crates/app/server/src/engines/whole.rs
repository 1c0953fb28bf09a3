//! Whole drives by their paths, with errors as the server has them.

use std::path::Path;
use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_zoned::{FileDevice, FileDeviceError, FileDeviceErrorKind, PeekDevice, ZonedDevice};
use shingle_zoned_linux::{KernelDevice, OpenError, OpenErrorKind, OpenOptions, TakenDrive, ZonedModel};

use crate::error::{Error, ErrorKind, Result};

/// Opens the drive at `path`, and locks it against others.
///
/// # Errors
/// `Denied`, `Drive`, `InUse`, `NewerVersion`, `System`.
pub(super) fn open(path: &Path, runtime: &Runtime, options: OpenOptions) -> Result<Rc<dyn ZonedDevice>> {
    start(take(path, options)?, runtime)
}

/// The half of [`open`] that may block.
pub(super) fn take(path: &Path, options: OpenOptions) -> Result<TakenDrive> {
    shingle_zoned_linux::take_drive(path, options).map_err(of_any)
}

/// The other half of [`open`].
pub(super) fn start(taken: TakenDrive, runtime: &Runtime) -> Result<Rc<dyn ZonedDevice>> {
    taken.start(runtime).map_err(of_any)
}

/// Looks at the drive at `path`, beside its owner.
///
/// # Errors
/// `Drive`, `NewerVersion`.
pub(super) fn look(path: &Path, runtime: &Runtime) -> Result<PeekDevice> {
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
        FileDeviceErrorKind::Permission => ErrorKind::Denied,
        FileDeviceErrorKind::NoSpace => ErrorKind::System,
        FileDeviceErrorKind::System(error) => kind_of_system(error),
        _ => ErrorKind::Drive,
    }
}

/// A want of this process or machine is no fault of the drive: no array may give up a drive for it.
fn kind_of_system(error: &std::io::Error) -> ErrorKind {
    use rustix::io::Errno;
    let wants = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS].map(|errno| Some(errno.raw_os_error()));
    if wants.contains(&error.raw_os_error()) { ErrorKind::System } else { ErrorKind::Drive }
}

fn of_any(error: OpenError) -> Error {
    let kind = match &error.kind {
        OpenErrorKind::Emulated(error) => kind_of_emulated(error),
        OpenErrorKind::InUse | OpenErrorKind::Mounted(_) | OpenErrorKind::Held(_) => ErrorKind::InUse,
        OpenErrorKind::Permission | OpenErrorKind::Foreign { .. } | OpenErrorKind::Partitioned(_) => ErrorKind::Denied,
        OpenErrorKind::NoRing(_) => ErrorKind::System,
        OpenErrorKind::System(error) => kind_of_system(error),
        _ => ErrorKind::Drive,
    };
    Error::new(kind, error.to_string())
}
