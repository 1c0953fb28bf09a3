//! Drives as the Linux kernel has them.
//!
//! **Owns** the description of block devices ([`System`], [`Drive`]), the device that uses the zoned ones
//! ([`KernelDevice`]), and a ring for drives in files; and the other way round, disks of the kernel that this process serves
//! ([`UblkDisk`]). The only crate with unsafe code: its zone commands (`ioctl`), its ring (`ring`), the memory that the kernel
//! fills (`buffer`), memory that outlives the process (`mapped`), and the control and queue of disks (`ublk`). [`open_drive`] opens any drive. **Knows nothing of** records
//! or engines.

use std::io;
use std::path::Path;

mod any;
#[allow(unsafe_code)]
mod buffer;
mod device;
mod direct;
mod discover;
mod drive;
mod driver;
mod error;
mod file;
mod gate;
#[allow(unsafe_code)]
mod ioctl;
#[allow(unsafe_code)]
mod mapped;
mod node;
mod peek;
#[allow(unsafe_code)]
mod ring;
mod signature;
mod ublk;
mod zones;

pub use any::{CreateDrive, TakenDrive, create_drive, is_node, open_drive, take_drive};
pub use device::{KernelDevice, OpenOptions};
pub use direct::{DirectCommand, DirectDrive, DirectOp, DirectTimes};
pub use discover::System;
pub use drive::{Drive, WriteCache, ZonedModel};
pub use error::{MarkPlace, OpenError, OpenErrorKind};
pub use file::open_file;
pub use mapped::MappedFile;
pub use peek::{Peek, foreign_on_ordinary};
pub use ublk::{
    UBLK_TRANSFER_MAX, UBLK_ZONE_BYTES, UblkCommand, UblkDisk, UblkError, UblkErrorKind, UblkRequest, UblkRequests,
    UblkShape, UblkZones, ublk_check, ublk_stop, ublk_zone,
};

/// All drives of this machine: [`System::discover`].
///
/// # Errors
/// There is no `/sys/block`, or it cannot be read.
pub fn discover() -> io::Result<Vec<Drive>> {
    System::host().discover()
}

/// The drive or partition of this machine whose node is at `path`: [`System::describe`].
///
/// # Errors
/// Nothing there, no block device, or one that sysfs does not know.
pub fn describe(path: &Path) -> io::Result<Drive> {
    System::host().describe(path)
}

/// True if the kernel is of this version or a later one; `false` if its version cannot be read.
fn kernel_at_least(major: u32, minor: u32) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release_at_least(&release, major, minor)
}

fn release_at_least(release: &str, major: u32, minor: u32) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(found), Some(minor_found)) => (found, minor_found) >= (major, minor),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions_are_compared_as_numbers() {
        assert!(release_at_least("6.10.3-amd64\n", 6, 10) && release_at_least("7.0", 6, 10));
        assert!(!release_at_least("6.1.0-32-amd64", 6, 10) && !release_at_least("5.19", 6, 10));
        assert!(!release_at_least("", 6, 10));
    }
}
