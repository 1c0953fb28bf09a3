//! Drives of this machine and their contents, read-only.
//!
//! **Owns** the names by which a drive is found again at any port ([`DriveName`]).
//!
//! # Invariants
//! - SV-INV-1: nothing is written to a drive, and none is taken from its owner.
//! - SV-INV-2: a name never leads to a drive by chance: if two drives have it, or two paths lead to one drive and nothing
//!   joins them, it leads to none.

mod content;
mod name;
mod paths;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_zoned::{FileDevice, Geometry, ZonedDevice};
use shingle_zoned_linux::{Drive, System, ZonedModel};

pub use content::Content;
pub use name::DriveName;
pub use paths::{Candidate, relation, same_drive, the_one};

use crate::error::{Error, ErrorKind, Result};

/// A drive, and its contents.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its node, or its file.
    pub path: PathBuf,
    /// The kernel's description of it; `None` for a file.
    pub drive: Option<Drive>,
    /// Its shape, if it has or emulates zones and could be read.
    pub geometry: Option<Geometry>,
    /// Its zones are emulated, in a file or on an ordinary drive.
    pub emulated: bool,
    /// Its contents.
    pub content: Content,
}

impl Found {
    /// True if `name` is one of its names.
    pub fn is_called(&self, name: &DriveName) -> bool {
        match name {
            DriveName::Path(path) => {
                path.canonicalize().is_ok_and(|path| self.path.canonicalize().is_ok_and(|own| own == path))
            }
            DriveName::Store(store) => self.content.store() == Some(*store),
            DriveName::Serial(_) | DriveName::Wwn(_) => self.drive.as_ref().is_some_and(|drive| name.is_of(drive)),
        }
    }

    /// Stable names for a configuration, the best first.
    pub fn names(&self) -> Vec<DriveName> {
        let Some(drive) = &self.drive else { return vec![DriveName::Path(self.path.clone())] };
        let serial = drive.serial.clone().map(DriveName::Serial);
        let wwn = drive.wwn.clone().map(DriveName::Wwn);
        let store = self.content.store().map(DriveName::Store);
        [serial, wwn, store].into_iter().flatten().collect()
    }
}

/// The block devices of `system`: zoned ones, with `all` the others too.
///
/// # Errors
/// `System` if the kernel lists none.
pub async fn block_devices(runtime: &Runtime, system: &System, all: bool) -> Result<Vec<Found>> {
    let drives = system.discover().map_err(|error| Error::system(system.sys.join("block").display(), error))?;
    let mut found = Vec::new();
    for drive in drives.into_iter().filter(|drive| all || drive.zoned != ZonedModel::None) {
        found.push(of_drive(runtime, drive).await);
    }
    Ok(found)
}

/// The drive at `path`: a node, or the file of an emulated drive.
///
/// # Errors
/// `Drive` if it is neither.
pub async fn at(runtime: &Runtime, system: &System, path: &Path) -> Result<Found> {
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
        return Ok(Found { path: path.to_owned(), drive: None, geometry, emulated: true, content });
    }
    let drive = system.describe(path).map_err(|error| failed(&error))?;
    Ok(of_drive(runtime, drive).await)
}

/// Contents of an open drive.
pub async fn content(device: &Rc<dyn ZonedDevice>) -> Content {
    content::of_zones(device).await
}

/// Contents of a block device.
pub async fn of_drive(runtime: &Runtime, drive: Drive) -> Found {
    let path = drive.node.clone();
    let (geometry, emulates, content) = content::of_block_device(runtime, &drive).await;
    Found { path, drive: Some(drive), geometry, emulated: emulates, content }
}

/// Present node of the drive called `name`.
///
/// # Errors
/// `Drive` if no block device has the name, or several have.
pub async fn locate(runtime: &Runtime, system: &System, name: &DriveName) -> Result<PathBuf> {
    if let DriveName::Path(path) = name {
        return Ok(path.clone());
    }
    let failed = |text: String| Err(Error::new(ErrorKind::Drive, format!("{name}: {text}")));
    let drives = system.discover().map_err(|error| Error::system(system.sys.join("block").display(), error))?;
    let mut candidates = Vec::new();
    for drive in drives {
        let called = match name {
            DriveName::Store(_) => of_drive(runtime, drive.clone()).await.is_called(name),
            _ => name.is_of(&drive),
        };
        if called {
            candidates.push(drive);
        }
    }
    match the_one(candidates) {
        Ok(Some(drive)) => Ok(drive.node),
        Ok(None) => {
            failed(format!("no block device of this machine {}: `shingle drive ls --all` lists them", name.has()))
        }
        Err(several) => failed(several),
    }
}
