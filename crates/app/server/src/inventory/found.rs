//! A drive that was found.

use std::path::PathBuf;

use shingle_zoned::Geometry;
use shingle_zoned_linux::Drive;

use super::content::Content;
use super::name::DriveName;

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
