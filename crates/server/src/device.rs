//! Drives by their paths: the one place that knows which kind of device is behind one.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_zoned::{FileDevice, FileDeviceError, FileDeviceErrorKind, PeekDevice, ZonedDevice};
use shingle_zoned_linux::{KernelDevice, OpenError, OpenErrorKind, OpenOptions};

use crate::error::{Error, ErrorKind, Result};

/// Whether a block device is at `path`, or nothing is that could be anything else below `/dev`.
fn is_node(path: &Path) -> bool {
    std::fs::metadata(path).map_or(path.starts_with("/dev"), |metadata| metadata.file_type().is_block_device())
}

/// Opens the drive at `path`: a zoned block device, or the file of an emulated one. Nobody else has it then. With `force`
/// it is opened although it holds a partition table or somebody else's data; one that is mounted is refused all the same.
///
/// # Errors
/// `Drive`, `InUse`, `NewerVersion`.
pub fn open_drive(path: &Path, runtime: &Runtime, force: bool) -> Result<Rc<dyn ZonedDevice>> {
    if is_node(path) {
        return Ok(Rc::new(KernelDevice::open(path, runtime, OpenOptions { force }).map_err(of_node)?));
    }
    Ok(Rc::new(FileDevice::open(path, runtime).map_err(of_file)?))
}

/// Looks at the drive at `path`, which somebody else may have open; changes nothing.
///
/// # Errors
/// `Drive`, `NewerVersion`.
pub fn look_at_drive(path: &Path, runtime: &Runtime) -> Result<PeekDevice> {
    if is_node(path) {
        return Ok(KernelDevice::peek(path, runtime).map_err(of_node)?.device);
    }
    FileDevice::peek(path, runtime).map_err(of_file)
}

pub(crate) fn of_file(error: FileDeviceError) -> Error {
    let kind = match &error.kind {
        FileDeviceErrorKind::NewerVersion(_) => ErrorKind::NewerVersion,
        FileDeviceErrorKind::InUse => ErrorKind::InUse,
        _ => ErrorKind::Drive,
    };
    Error::new(kind, error.to_string())
}

fn of_node(error: OpenError) -> Error {
    let kind = match &error.kind {
        OpenErrorKind::InUse | OpenErrorKind::Mounted(_) | OpenErrorKind::Held(_) => ErrorKind::InUse,
        _ => ErrorKind::Drive,
    };
    Error::new(kind, error.to_string())
}
