//! A drive that was found.

use std::path::{Path, PathBuf};

use shingle_partitions::Partition;
use shingle_zoned::Geometry;
use shingle_zoned_linux::Drive;

use super::content::Content;
use super::name::DriveName;
use crate::drive_path::{holder, split};

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
    /// The partition that this is, of the drive.
    pub partition: Option<Partition>,
}

impl Found {
    /// A drive that nobody has looked at.
    pub(super) fn unread(drive: Drive) -> Self {
        let content = Content::Unknown("it was not looked at".to_owned());
        Self { path: drive.node.clone(), drive: Some(drive), geometry: None, emulated: false, content, partition: None }
    }

    /// True if `name` is one of its names.
    pub fn is_called(&self, name: &DriveName) -> bool {
        match name {
            DriveName::Path(path) => {
                let there = |path: &Path| holder(path).canonicalize().ok().map(|drive| (drive, split(path).1));
                there(path).is_some_and(|path| there(&self.path) == Some(path))
            }
            DriveName::Store(store) => self.content.store() == Some(*store),
            // A partition is found by its drive.
            DriveName::Serial(_) | DriveName::Wwn(_) if self.partition.is_some() => false,
            DriveName::Serial(_) | DriveName::Wwn(_) => self.drive.as_ref().is_some_and(|drive| name.is_of(drive)),
        }
    }

    /// Stable names for a configuration, the best first.
    pub fn names(&self) -> Vec<DriveName> {
        let Some(drive) = &self.drive else { return vec![DriveName::Path(self.path.clone())] };
        let part = |name: String| match &self.partition {
            Some(partition) => format!("{name}#{}", partition.name),
            None => name,
        };
        let serial = drive.serial.clone().map(|name| DriveName::Serial(part(name)));
        let wwn = drive.wwn.clone().map(|name| DriveName::Wwn(part(name)));
        let store = self.content.store().map(DriveName::Store);
        [serial, wwn, store].into_iter().flatten().collect()
    }
}
