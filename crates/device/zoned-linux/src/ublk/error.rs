//! Reasons why the kernel does not have a disk of ours.

use std::fmt;
use std::io;

/// A disk could not be had. Its text says what to do next.
#[derive(Debug)]
pub struct UblkError {
    /// Kind of the error.
    pub kind: UblkErrorKind,
}

/// Fault of a disk.
#[derive(Debug)]
#[non_exhaustive]
pub enum UblkErrorKind {
    /// The kernel has no ublk driver, or its module is not loaded.
    NoDriver,
    /// The driver is too old for this.
    TooOld {
        /// The lack.
        lacks: &'static str,
        /// The first kernel that has it.
        since: &'static str,
    },
    /// This user may not.
    Permission,
    /// The kernel grants no io_uring.
    NoRing(io::Error),
    /// Linux has no disks of this shape.
    Shape(String),
    /// There is no such disk, or it is not one of Shingle's.
    NotOurs,
    /// The kernel refused for another reason.
    System(&'static str, io::Error),
}

impl UblkError {
    pub(super) fn new(kind: UblkErrorKind) -> Self {
        Self { kind }
    }

    /// The kernel's refusal of `step`.
    pub(super) fn refused(step: &'static str, error: io::Error) -> Self {
        Self::new(match error.kind() {
            io::ErrorKind::PermissionDenied => UblkErrorKind::Permission,
            _ => UblkErrorKind::System(step, error),
        })
    }

    /// True if another way to a disk may work where this one does not.
    pub fn is_lack(&self) -> bool {
        matches!(self.kind, UblkErrorKind::NoDriver | UblkErrorKind::TooOld { .. } | UblkErrorKind::NoRing(_))
    }
}

impl fmt::Display for UblkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            UblkErrorKind::NoDriver => f.write_str(
                "this kernel has no ublk driver, or it is not loaded: `modprobe ublk_drv`; it is in Linux 6.0 and newer where \
                 CONFIG_BLK_DEV_UBLK is set (on Debian 12, in the kernel of bookworm-backports)",
            ),
            UblkErrorKind::TooOld { lacks, since } => {
                write!(f, "this kernel's ublk driver has no {lacks}: that came with Linux {since} (on Debian 12, take the kernel of bookworm-backports)")
            }
            UblkErrorKind::Permission => f.write_str("permission denied: making a disk of the kernel needs root"),
            UblkErrorKind::NoRing(error) => write!(
                f,
                "the kernel grants no io_uring ({error}): `sysctl kernel.io_uring_disabled=0`, and in a container a seccomp profile \
                 that allows it"
            ),
            UblkErrorKind::Shape(why) => f.write_str(why),
            UblkErrorKind::NotOurs => f.write_str("this is no disk that Shingle made by ublk (`lsblk` shows all disks)"),
            UblkErrorKind::System(step, error) => write!(f, "the kernel's ublk driver: {step}: {error}"),
        }
    }
}

impl std::error::Error for UblkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            UblkErrorKind::NoRing(error) | UblkErrorKind::System(_, error) => Some(error),
            _ => None,
        }
    }
}
