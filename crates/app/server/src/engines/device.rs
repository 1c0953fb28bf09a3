//! Drives and partitions by their paths.

use std::path::Path;
use std::rc::Rc;

use shingle_base::ZoneId;
use shingle_runtime::Runtime;
use shingle_zoned::{PeekDevice, ZoneRange, ZonedDevice};
use shingle_zoned_linux::OpenOptions;

use super::{partition, whole};
use crate::drive_path::split;
use crate::error::{Error, ErrorKind, Result};

/// Opens the drive at `path`: a zoned block device, an emulated drive on an ordinary one or in a file, or a partition of one of these
/// (`PATH#NAME`), beside other partitions that this process has. Locks it against others. One that is mounted is refused with any
/// options.
///
/// # Errors
/// `Drive`, `InUse`, `NewerVersion`.
pub fn open_drive(path: &Path, runtime: &Runtime, options: OpenOptions) -> Result<Rc<dyn ZonedDevice>> {
    match split(path) {
        (path, None) => whole::open(&path, runtime, options),
        (path, Some(name)) => partition::open(&path, &name, options),
    }
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
    let drive = Rc::new(whole::look(&path, runtime)?);
    let all: Rc<dyn ZonedDevice> = drive.clone();
    let Some(name) = name else { return Ok(Look { device: all, drive }) };
    let failed = |error: &dyn std::fmt::Display| Error::new(ErrorKind::Drive, format!("{}: {error}", path.display()));
    let there = shingle_partitions::look(runtime, &all).await.map_err(|error| failed(&error))?;
    let found = there.into_iter().find(|partition| partition.name == name);
    let found = found.ok_or_else(|| failed(&format_args!("the drive has no partition `{name}`")))?;
    let count = found.zones.end - found.zones.start;
    let view = ZoneRange::new(all, ZoneId(found.zones.start), count, found.share).await;
    Ok(Look { device: Rc::new(view.map_err(|error| failed(&error))?), drive })
}
