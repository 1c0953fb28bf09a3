//! Drives of this machine and their contents, read-only.
//!
//! **Owns** the names by which a drive is found again at any port ([`DriveName`]).
//!
//! # Invariants
//! - SV-INV-1: nothing is written to a drive, and none is taken from its owner.
//! - SV-INV-2: a name never leads to a drive by chance: if two drives have it, or two paths lead to one drive and nothing
//!   joins them, it leads to none.

mod content;
mod found;
mod name;
mod paths;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_zoned::{FileDevice, ZonedDevice};
use shingle_zoned_linux::{Drive, System, ZonedModel};

pub use content::Content;
pub use found::Found;
pub use name::DriveName;
pub use paths::{Candidate, relation, same_drive, the_one};

use crate::drive_path;
use crate::engines::device::{Look, look_at_drive};
use crate::error::{Error, ErrorKind, Result};

/// The block devices of `system`: zoned ones, with `all` the others too.
///
/// # Errors
/// `System` if the kernel lists none.
pub async fn block_devices(runtime: &Runtime, system: &System, all: bool) -> Result<Vec<Found>> {
    let drives = system.discover().map_err(|error| Error::system(system.sys.join("block").display(), error))?;
    let mut found = Vec::new();
    for drive in drives.into_iter().filter(|drive| all || drive.zoned != ZonedModel::None) {
        let drive = of_drive(runtime, drive).await;
        found.extend(with_partitions(runtime, drive).await);
    }
    Ok(found)
}

/// The drive, and its partitions behind it: those that can be read.
pub async fn with_partitions(runtime: &Runtime, drive: Found) -> Vec<Found> {
    let mut found = vec![drive];
    if let Content::Partitions(_) = found[0].content
        && let Ok(whole) = look_at_drive(&found[0].path, runtime).await
        && let Ok(partitions) = shingle_partitions::look(runtime, &whole.device).await
    {
        for partition in partitions {
            let path = drive_path::joined(&found[0].path, &partition.name);
            let Ok(Look { device: view, .. }) = look_at_drive(&path, runtime).await else { continue };
            let (geometry, content) = (Some(view.geometry().clone()), content::of_zones(&view).await);
            found.push(Found { path, geometry, content, partition: Some(partition), ..found[0].clone() });
        }
    }
    found
}

/// The drive at `path`: a node, or the file of an emulated drive; or a partition of one.
///
/// # Errors
/// `Drive` if it is neither.
pub async fn at(runtime: &Runtime, system: &System, path: &Path) -> Result<Found> {
    if let (drive, Some(name)) = drive_path::split(path) {
        let drive = Box::pin(at(runtime, system, &drive)).await?;
        let device = look_at_drive(path, runtime).await?.device;
        let (geometry, content) = (Some(device.geometry().clone()), content::of_zones(&device).await);
        let whole = look_at_drive(&drive.path, runtime).await?.device;
        let partitions = shingle_partitions::look(runtime, &whole).await.unwrap_or_default();
        let partition = partitions.into_iter().find(|partition| partition.name == name);
        return Ok(Found { path: path.to_owned(), geometry, content, partition, ..drive });
    }
    let failed = |error: &dyn std::fmt::Display| Error::new(ErrorKind::Drive, format!("{}: {error}", path.display()));
    let metadata = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(failed(&"no such drive: `shingle drive ls --all` lists those of this machine"));
        }
        metadata => metadata.map_err(|error| failed(&error))?,
    };
    if metadata.is_file() || metadata.is_dir() {
        let device =
            FileDevice::peek(path, runtime).map_err(|error| Error::new(ErrorKind::Drive, error.to_string()))?;
        let device: Rc<dyn ZonedDevice> = Rc::new(device);
        let (geometry, content) = (Some(device.geometry().clone()), content::of_zones(&device).await);
        return Ok(Found { path: path.to_owned(), drive: None, geometry, emulated: true, content, partition: None });
    }
    let drive = system.describe(path).map_err(|error| failed(&error))?;
    Ok(of_drive(runtime, drive).await)
}

/// A drive as messages name it: as the configuration does, and by the serial number that is on its label, or by its present node.
pub fn called(system: &System, name: &DriveName, node: &Path) -> String {
    let serial = || system.describe(&drive_path::holder(node)).ok()?.serial;
    match name {
        DriveName::Path(path) => match serial() {
            Some(serial) => format!("{} (serial {})", path.display(), serial.trim()),
            None => path.display().to_string(),
        },
        other => format!("{other} ({})", node.display()),
    }
}

/// Contents of an open drive.
pub async fn content(device: &Rc<dyn ZonedDevice>) -> Content {
    content::of_zones(device).await
}

/// Contents of a block device.
pub async fn of_drive(runtime: &Runtime, drive: Drive) -> Found {
    let path = drive.node.clone();
    let (geometry, emulates, content) = content::of_block_device(runtime, &drive).await;
    Found { path, drive: Some(drive), geometry, emulated: emulates, content, partition: None }
}

/// Present node of the drive called `name`.
///
/// # Errors
/// `Drive` if no block device has the name, or several have.
pub async fn locate(runtime: &Runtime, system: &System, name: &DriveName) -> Result<PathBuf> {
    if let DriveName::Path(path) = name {
        return Ok(path.clone());
    }
    if let Some((drive, partition)) = name.split() {
        let node = Box::pin(locate(runtime, system, &drive)).await?;
        return Ok(drive_path::joined(&node, partition));
    }
    let failed = |text: String| Err(Error::new(ErrorKind::Drive, format!("{name}: {text}")));
    let drives = system.discover().map_err(|error| Error::system(system.sys.join("block").display(), error))?;
    let mut candidates = Vec::new();
    for drive in drives {
        match name {
            DriveName::Store(_) => {
                let found = of_drive(runtime, drive).await;
                candidates
                    .extend(with_partitions(runtime, found).await.into_iter().filter(|found| found.is_called(name)));
            }
            _ if name.is_of(&drive) => candidates.push(Found::unread(drive)),
            _ => {}
        }
    }
    match the_one(candidates) {
        Ok(Some(found)) => Ok(found.path),
        Ok(None) => {
            failed(format!("no block device of this machine {}: `shingle drive ls --all` lists them", name.has()))
        }
        Err(several) => failed(several),
    }
}
