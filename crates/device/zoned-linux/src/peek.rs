//! Looking at a drive beside its owner: its zones as they are now, marks in its first zones, and reads.
//!
//! **Owns** nothing, and changes nothing.

use std::fs::{File, OpenOptions as FileOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use shingle_base::{Blocks, ZoneId};
use shingle_runtime::Runtime;
use shingle_zoned::{Machine, PeekDevice, ZoneInfo, ZoneState};

use crate::device::KernelDevice;
use crate::drive::Drive;
use crate::error::{OpenError, OpenErrorKind};
use crate::{node, signature};

/// A drive that is looked at.
pub struct Peek {
    /// The kernel's description of it.
    pub drive: Drive,
    /// Its zones, to be read.
    pub device: PeekDevice,
    /// The mark of other software on it.
    pub foreign: Option<&'static str>,
}

impl KernelDevice {
    /// Looks at the zoned drive at `path`.
    ///
    /// # Errors
    /// As [`KernelDevice::look`].
    pub fn peek(path: &Path, runtime: &Runtime) -> Result<Peek, OpenError> {
        let failed = |error| OpenError::from_io(error, path);
        let (drive, geometry, zones) = Self::look(path)?;
        // Past the page cache, where bytes from before a reset may be.
        let direct = FileOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
        let file = direct.map_err(failed)?;
        let foreign = foreign_in(&file, &zones);
        let mut machine =
            Machine::new(geometry.clone()).map_err(|error| OpenError::new(OpenErrorKind::Geometry(error), path))?;
        for zone in zones {
            // A state from a report is one that the zone can have.
            let _ = machine.set(zone.zone, zone.state, zone.written);
        }
        let place = |zone| Some(geometry.start_of(zone).byte_offset());
        Ok(Peek { drive, device: PeekDevice::new(runtime, file, machine, place), foreign })
    }
}

/// Looks for marks of others, as opening does: zoned btrfs writes its superblocks in turn to the first two zones.
fn foreign_in(file: &File, zones: &[ZoneInfo]) -> Option<&'static str> {
    let seen_in = |zone: &ZoneInfo| {
        let readable = match zone.state {
            ZoneState::Offline => Blocks::ZERO,
            ZoneState::NotWritePointer => zone.capacity,
            _ => zone.written,
        };
        signature::in_zone(file, zone.start.byte_offset(), readable.bytes())
    };
    zones.iter().filter(|zone| zone.zone <= ZoneId(1)).find_map(seen_in)
}

/// The mark of other software on an ordinary drive.
///
/// # Errors
/// The drive cannot be read.
pub fn foreign_on_ordinary(drive: &Drive) -> io::Result<Option<&'static str>> {
    signature::on_ordinary(&node::look(&drive.node)?, drive.size_bytes)
}
