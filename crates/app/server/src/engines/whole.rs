//! Whole drives by their paths, with errors as the server has them.

use std::path::Path;
use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_zoned::{FileDevice, FileDeviceError, FileDeviceErrorKind, PeekDevice, ZonedDevice};
use shingle_zoned_linux::{KernelDevice, OpenError, OpenErrorKind, OpenOptions, ZonedModel};

use crate::error::{Error, ErrorKind, Result};

/// Opens the drive at `path`, and locks it against others.
///
/// # Errors
/// `Drive`, `InUse`, `NewerVersion`.
pub(super) fn open(path: &Path, runtime: &Runtime, options: OpenOptions) -> Result<Rc<dyn ZonedDevice>> {
    shingle_zoned_linux::open_drive(path, runtime, options).map_err(of_any)
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
