//! Errors of opening a block device as a drive.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use shingle_zoned::{FileDeviceError, GeometryError};

/// Reason why a block device could not be used as a drive. Its text says what to do next.
#[derive(Debug)]
pub struct OpenError {
    /// Kind of the error.
    pub kind: OpenErrorKind,
    /// The node.
    pub path: PathBuf,
}

/// Fault of a drive.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenErrorKind {
    /// There is no such file.
    NotFound,
    /// It is no block device.
    NotABlockDevice,
    /// It is an ordinary drive, without zones that must be written in order.
    NotZoned,
    /// It is a zoned drive: nothing is to be emulated.
    Zoned,
    /// It is an ordinary drive on which no emulated one has been made yet.
    NotCreated,
    /// This user may not.
    Permission,
    /// Another process, or the kernel, has it for itself.
    InUse,
    /// It is mounted there.
    Mounted(PathBuf),
    /// It has these partitions.
    Partitioned(Vec<String>),
    /// These devices are made of it.
    Held(Vec<String>),
    /// It holds this: a file system, a partition table, a volume.
    Foreign {
        /// Its kind, with an article.
        what: &'static str,
        /// The place of its mark.
        place: MarkPlace,
    },
    /// The kernel takes no writes for it.
    ReadOnly,
    /// Its zones are of a shape that Shingle cannot use.
    Unsupported(String),
    /// The kernel reports limits or sizes that no drive can have.
    Geometry(GeometryError),
    /// The kernel grants no io_uring.
    NoRing(io::Error),
    /// It is an ordinary drive, and the emulated one on it cannot be used.
    Emulated(FileDeviceError),
    /// The operating system refused for another reason.
    System(io::Error),
}

/// Places of the marks of other software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkPlace {
    /// A drive without zones.
    Ordinary,
    /// A zone that takes writes anywhere.
    Conventional,
    /// A zone that must be written in order.
    Sequential,
}

impl OpenError {
    pub(crate) fn new(kind: OpenErrorKind, path: &Path) -> Self {
        Self { kind, path: path.to_owned() }
    }

    pub(crate) fn from_io(error: io::Error, path: &Path) -> Self {
        Self::new(
            match (error.kind(), error.raw_os_error()) {
                (io::ErrorKind::NotFound, _) | (_, Some(libc::ENXIO | libc::ENODEV)) => OpenErrorKind::NotFound,
                (io::ErrorKind::PermissionDenied, _) => OpenErrorKind::Permission,
                (_, Some(libc::EBUSY)) => OpenErrorKind::InUse,
                _ => OpenErrorKind::System(error),
            },
            path,
        )
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its text begins with the path.
        if let OpenErrorKind::Emulated(error) = &self.kind {
            return error.fmt(f);
        }
        let path = self.path.display();
        write!(f, "{path}: ")?;
        match &self.kind {
            OpenErrorKind::NotFound => f.write_str("no such drive: `shingle drive ls` lists those there are"),
            OpenErrorKind::NotABlockDevice => {
                f.write_str("this is no block device: `shingle drive ls --all` lists those there are")
            }
            OpenErrorKind::NotZoned => f.write_str("this drive has no zones that must be written in order"),
            OpenErrorKind::Zoned => f.write_str(
                "this drive has zones of its own, so none are to be emulated: use it as it is (`shingle chunk format`)",
            ),
            OpenErrorKind::NotCreated => write!(
                f,
                "this is an ordinary drive without zones: `shingle drive create {path}` makes an emulated zoned one on it, \
                 and what it holds is lost"
            ),
            OpenErrorKind::Permission => write!(
                f,
                "permission denied: run as root, or let the user in (`chown` the node, or add the user to the group that \
                 `ls -l {path}` shows)"
            ),
            OpenErrorKind::InUse => f.write_str(
                "the drive is in use: stop the other process or unmount what is on it (`lsblk` and `fuser -v` show what \
                 has it), or use another drive",
            ),
            OpenErrorKind::Mounted(at) => write!(
                f,
                "the drive is in use at {}: unmount it first (`umount`, `swapoff`), or use another drive",
                at.display()
            ),
            OpenErrorKind::Partitioned(names) => write!(
                f,
                "the drive has partitions ({}): if nothing on them is needed, remove them (`wipefs --all {path}`), or use \
                 another drive",
                names.join(", ")
            ),
            OpenErrorKind::Held(names) => write!(
                f,
                "other devices are made of this drive ({}): use those (where they join several paths to it), or take them \
                 down first (`dmsetup`, `mdadm --stop`)",
                names.join(", ")
            ),
            OpenErrorKind::Foreign { what, place } => {
                write!(f, "the drive holds {what}: if that is not needed, ")?;
                match place {
                    MarkPlace::Ordinary => write!(
                        f,
                        "clear it (`wipefs --all {path}`), or use the `--force` of `shingle drive create`, which overwrites it"
                    ),
                    // No reset, and no store, writes there.
                    MarkPlace::Conventional => write!(f, "clear it (`wipefs --all {path}`)"),
                    // wipefs writes where the mark is, which such a zone does not take.
                    MarkPlace::Sequential => write!(
                        f,
                        "clear it (`blkzone reset {path}`), or use the `--force` of `shingle chunk format`, which overwrites it"
                    ),
                }
            }
            OpenErrorKind::ReadOnly => {
                write!(f, "the drive takes no writes: `blockdev --setrw {path}` if it may, or look at its medium")
            }
            OpenErrorKind::Unsupported(why) => f.write_str(why),
            OpenErrorKind::Geometry(error) => error.fmt(f),
            OpenErrorKind::NoRing(error) => write!(
                f,
                "the kernel grants no io_uring ({error}): it needs Linux 5.6 or newer, `sysctl kernel.io_uring_disabled=0`, \
                 and in a container a seccomp profile that allows it"
            ),
            OpenErrorKind::Emulated(error) => error.fmt(f),
            OpenErrorKind::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            OpenErrorKind::Geometry(error) => Some(error),
            OpenErrorKind::Emulated(error) => Some(error),
            OpenErrorKind::NoRing(error) | OpenErrorKind::System(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing of Shingle's writes to a conventional zone before its stores do, so a mark there would stay.
    #[test]
    fn force_is_advised_only_where_it_overwrites_the_mark() {
        let said = |place| {
            let kind = OpenErrorKind::Foreign { what: "an XFS file system", place };
            OpenError::new(kind, Path::new("/dev/sdz")).to_string()
        };
        assert!(
            said(MarkPlace::Ordinary).contains("drive create") && said(MarkPlace::Sequential).contains("blkzone reset")
        );
        let conventional = said(MarkPlace::Conventional);
        assert!(conventional.contains("wipefs --all /dev/sdz") && !conventional.contains("--force"), "{conventional}");
    }
}
