//! Errors of making or using a file as a drive.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use shingle_base::{ByteSize, ZoneId};

use crate::file::format::VERSION;
use crate::geometry::GeometryError;

/// Reason why a file could not be made or used as a drive. Its text says what to do next.
#[derive(Debug)]
pub struct FileDeviceError {
    /// Kind of the error.
    pub kind: FileDeviceErrorKind,
    /// The file.
    pub path: PathBuf,
}

/// Fault of a drive's file.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileDeviceErrorKind {
    /// There is no such file.
    NotFound,
    /// There is such a file already.
    Exists,
    /// The file is something else.
    NotADrive,
    /// It is a directory.
    Directory,
    /// This user may not.
    Permission,
    /// The drive was made by a newer version of Shingle; the number is its format version.
    NewerVersion(u32),
    /// The file is shorter than its header says.
    Truncated {
        /// Its length in bytes.
        length: u64,
        /// The length it needs.
        needed: u64,
    },
    /// The header fails its check, or describes a drive that cannot be.
    CorruptHeader,
    /// This zone's entry in the zone table fails its check, or describes an impossible state.
    CorruptTable(ZoneId),
    /// The drive is in use, by another process or by this one.
    InUse,
    /// The file system has no room for the zone table, or allows no file of that size.
    NoSpace,
    /// The block device has not as many bytes as the drive needs.
    TooSmall {
        /// Its length in bytes.
        length: u64,
        /// The length it needs.
        needed: u64,
    },
    /// No drive can have the geometry asked for.
    Geometry(GeometryError),
    /// The operating system refused for another reason.
    System(io::Error),
}

impl FileDeviceError {
    pub(crate) fn new(kind: FileDeviceErrorKind, path: &Path) -> Self {
        Self { kind, path: path.to_owned() }
    }

    pub(crate) fn from_io(error: io::Error, path: &Path) -> Self {
        Self::new(
            match error.kind() {
                io::ErrorKind::NotFound => FileDeviceErrorKind::NotFound,
                io::ErrorKind::AlreadyExists => FileDeviceErrorKind::Exists,
                io::ErrorKind::ResourceBusy => FileDeviceErrorKind::InUse,
                io::ErrorKind::IsADirectory => FileDeviceErrorKind::Directory,
                io::ErrorKind::PermissionDenied => FileDeviceErrorKind::Permission,
                io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge | io::ErrorKind::QuotaExceeded => {
                    FileDeviceErrorKind::NoSpace
                }
                _ => FileDeviceErrorKind::System(error),
            },
            path,
        )
    }
}

impl fmt::Display for FileDeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.kind {
            FileDeviceErrorKind::NotFound => f.write_str("no such file; `shingle drive create` makes a drive"),
            FileDeviceErrorKind::Exists => {
                f.write_str(
                    "there is such a file already: choose another name, or replace it if it is an emulated drive that is not \
                     needed (`--overwrite`)",
                )
            }
            FileDeviceErrorKind::NotADrive => f.write_str(
                "this is not a Shingle drive: name a zoned block device, or a file that `shingle drive create` made",
            ),
            FileDeviceErrorKind::Directory => f.write_str(
                "this is a directory: name a zoned block device, or a file that `shingle drive create` made",
            ),
            FileDeviceErrorKind::Permission => write!(
                f,
                "permission denied: `ls -l` shows whose it is; run as that user or as root, or let this one in (`chown`, \
                 `chmod`)"
            ),
            FileDeviceErrorKind::NewerVersion(version) => write!(
                f,
                "this drive has format version {version}, but this version of Shingle knows only versions up to \
                 {VERSION}: use a newer Shingle"
            ),
            FileDeviceErrorKind::Truncated { length, needed } => write!(
                f,
                "the file has been cut short: {} of at least {} are left ({length} of {needed} bytes)",
                ByteSize(*length),
                ByteSize(*needed)
            ),
            FileDeviceErrorKind::CorruptHeader => f.write_str("the drive's header is damaged"),
            FileDeviceErrorKind::CorruptTable(zone) => write!(f, "the zone table is damaged at {zone}"),
            FileDeviceErrorKind::InUse => {
                f.write_str("the drive is in use: stop the other process that has it open, or use another drive")
            }
            FileDeviceErrorKind::NoSpace => {
                f.write_str("no space left on the file system, or the file would be too large")
            }
            FileDeviceErrorKind::TooSmall { length, needed } => write!(
                f,
                "the block device has {length} bytes, but such a drive needs {needed}: make it of fewer zones"
            ),
            FileDeviceErrorKind::Geometry(error) => error.fmt(f),
            FileDeviceErrorKind::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FileDeviceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            FileDeviceErrorKind::Geometry(error) => Some(error),
            FileDeviceErrorKind::System(error) => Some(error),
            _ => None,
        }
    }
}
