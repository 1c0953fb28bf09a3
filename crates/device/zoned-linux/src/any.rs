//! Opening a path as a drive: the one place that chooses the kind of device.
//!
//! | the path names                   | the drive is                                                  |
//! |----------------------------------|---------------------------------------------------------------|
//! | a zoned block device             | that drive: [`KernelDevice`]                                  |
//! | an ordinary block device         | an emulated one, in the format of files, on it: [`FileDevice`] |
//! | a file                           | an emulated one in it: [`FileDevice`]                         |

use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_zoned::{
    CreateOptions, FileDevice, FileDeviceError, FileDeviceErrorKind, Geometry, GeometrySpec, TakenFile, ZonedDevice,
};

use crate::device::{self, KernelDevice, OpenOptions};
use crate::drive::{Drive, ZonedModel};
use crate::error::{MarkPlace, OpenError, OpenErrorKind};
use crate::file::{start_file, take_file};
use crate::{ioctl, node, signature};

/// Opens the drive that `path` names: a zoned block device, or an emulated drive on an ordinary one or in a file.
///
/// # Errors
/// As [`KernelDevice::open`]; `Emulated` with the error of [`FileDevice::open`].
///
/// # Panics
/// As [`KernelDevice::open`].
pub fn open_drive(path: &Path, runtime: &Runtime, options: OpenOptions) -> Result<Rc<dyn ZonedDevice>, OpenError> {
    take_drive(path, options)?.start(runtime)
}

/// A drive that was taken and has no runtime yet: made by a thread that may hang, for the owner's thread to start.
pub struct TakenDrive {
    path: PathBuf,
    alone: bool,
    taken: Taken,
}

enum Taken {
    Kernel(Box<device::Opened>),
    File(Box<TakenFile>),
}

/// The half of [`open_drive`] that may block, for as long as the drive takes to answer.
///
/// # Errors
/// As [`open_drive`], but for `NoRing`.
pub fn take_drive(path: &Path, options: OpenOptions) -> Result<TakenDrive, OpenError> {
    let emulated = |error| OpenError::new(OpenErrorKind::Emulated(error), path);
    let taken = |taken| TakenDrive { path: path.to_owned(), alone: options.alone, taken };
    if !is_node(path) {
        return Ok(taken(Taken::File(Box::new(take_file(path).map_err(emulated)?))));
    }
    let drive = device::describe(path)?;
    if drive.zoned != ZonedModel::None {
        return Ok(taken(Taken::Kernel(Box::new(device::take(path, options)?))));
    }
    device::refuse_used(path, &drive, options)?;
    match take_file(path) {
        Ok(file) => Ok(taken(Taken::File(Box::new(file)))),
        Err(FileDeviceError { kind: FileDeviceErrorKind::NotADrive, .. }) => {
            let found = look_for_others(path, &drive)?;
            Err(OpenError::new(found.map_or(OpenErrorKind::NotCreated, foreign), path))
        }
        Err(error) => Err(emulated(error)),
    }
}

impl TakenDrive {
    /// The other half of [`open_drive`].
    ///
    /// # Errors
    /// `NoRing`.
    ///
    /// # Panics
    /// As [`KernelDevice::open`].
    pub fn start(self, runtime: &Runtime) -> Result<Rc<dyn ZonedDevice>, OpenError> {
        let Self { path, alone, taken } = self;
        match taken {
            Taken::File(file) => Ok(Rc::new(start_file(*file, &path, runtime, alone))),
            Taken::Kernel(opened) => {
                let device = KernelDevice::start(*opened, runtime);
                Ok(Rc::new(device.map_err(|error| OpenError::new(OpenErrorKind::NoRing(error), &path))?))
            }
        }
    }
}

/// Options for making an emulated drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateDrive {
    /// Put it in place of an emulated drive that is there, whose data is lost.
    pub overwrite: bool,
    /// Put it on a block device although that is partitioned or holds a file system or the like, which is lost: their
    /// marks are wiped.
    pub force: bool,
}

/// Makes an emulated drive of shape `spec`, in a file or on an ordinary block device, and returns its shape. On a block
/// device `spec.size` counts only as far as there is room; there, `None` as size takes all of it.
///
/// # Errors
/// As [`open_drive`]; `Zoned` for a block device that needs no emulation; `Emulated` with the error of
/// [`FileDevice::create`].
pub fn create_drive(
    path: &Path,
    spec: impl FnOnce(Option<u64>) -> GeometrySpec,
    options: CreateDrive,
) -> Result<Geometry, OpenError> {
    let emulated = |error| OpenError::new(OpenErrorKind::Emulated(error), path);
    let impossible = |error| OpenError::new(OpenErrorKind::Geometry(error), path);
    let create = CreateOptions { overwrite: options.overwrite };
    if !is_node(path) {
        let geometry = spec(None).build().map_err(impossible)?;
        FileDevice::create(path, &geometry, create).map_err(emulated)?;
        return Ok(geometry);
    }
    let drive = device::describe(path)?;
    if drive.zoned != ZonedModel::None {
        return Err(OpenError::new(OpenErrorKind::Zoned, path));
    }
    device::refuse_used(path, &drive, OpenOptions { force: options.force, keep_open: false, alone: false })?;
    if drive.read_only {
        return Err(OpenError::new(OpenErrorKind::ReadOnly, path));
    }
    if !options.force
        && let Some(what) = look_for_others(path, &drive)?
    {
        return Err(OpenError::new(foreign(what), path));
    }
    let mut geometry = spec(Some(drive.size_bytes)).build().map_err(impossible)?;
    geometry.zone_count = geometry.zone_count.min(FileDevice::zones_that_fit(drive.size_bytes, geometry.zone_size));
    FileDevice::create_on_node(path, &geometry, create).map_err(emulated)?;
    if !drive.partitions.is_empty()
        && let Err(error) = node::look(path).and_then(|file| ioctl::reread_partitions(&file))
    {
        // The table is gone; if the kernel still has the old partitions, the next opening reports them.
        tracing::warn!(path = %path.display(), %error, "the kernel still has partitions of this drive");
    }
    Ok(geometry)
}

fn foreign(what: &'static str) -> OpenErrorKind {
    OpenErrorKind::Foreign { what, place: MarkPlace::Ordinary }
}

/// True if `path` names a block device.
pub fn is_node(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Finds a mark of other software on an ordinary drive.
fn look_for_others(path: &Path, drive: &Drive) -> Result<Option<&'static str>, OpenError> {
    let failed = |error| OpenError::from_io(error, path);
    let file = File::open(path).map_err(failed)?;
    signature::on_ordinary(&file, drive.size_bytes).map_err(failed)
}
