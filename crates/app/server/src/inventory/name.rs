//! Names of a drive.

use std::fmt;
use std::path::{Path, PathBuf};

use shingle_base::StoreId;
use shingle_zoned_linux::Drive;

use crate::drive_path::split_text;

/// A way to name a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveName {
    /// By its node or file. A node may be another drive after the next start.
    Path(PathBuf),
    /// By its serial number: `serial:ZL2XXXXX`.
    Serial(String),
    /// By its world-wide name: `wwn:naa.5000c500a1b2c3d4`.
    Wwn(String),
    /// By the store that is on it: `uuid:33bdca533fae8b2d`.
    Store(StoreId),
}

impl DriveName {
    /// Meaning of `text` in a configuration or a command. A file whose name begins like another kind of name is written
    /// `./serial:1`.
    ///
    /// # Errors
    /// The reason why it is no name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let given = |text: &str, what: &str| {
            let text = text.trim();
            if text.is_empty() { Err(format!("`{what}:` without a {what}")) } else { Ok(text.to_owned()) }
        };
        match text.split_once(':') {
            Some(("serial", rest)) => Ok(Self::Serial(given(rest, "serial")?)),
            Some(("wwn", rest)) => Ok(Self::Wwn(given(rest, "wwn")?)),
            Some(("uuid", rest)) => rest.trim().parse().map(Self::Store).map_err(|error| error.to_string()),
            _ => Ok(Self::Path(PathBuf::from(text))),
        }
    }

    /// As [`parse`](Self::parse), for a path that need not be text.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn of_path(path: &Path) -> Result<Self, String> {
        path.to_str().map_or_else(|| Ok(Self::Path(path.to_owned())), Self::parse)
    }

    /// The drive's own name, and the partition, of a name that has both.
    pub(super) fn split(&self) -> Option<(Self, &str)> {
        match self {
            Self::Serial(text) => split_text(text).map(|(drive, name)| (Self::Serial(drive.to_owned()), name)),
            Self::Wwn(text) => split_text(text).map(|(drive, name)| (Self::Wwn(drive.to_owned()), name)),
            // Paths keep theirs, and a store has its own identity.
            Self::Path(_) | Self::Store(_) => None,
        }
    }

    /// True if the kernel's description of a drive has this serial number or world-wide name.
    pub(crate) fn is_of(&self, drive: &Drive) -> bool {
        let same = |own: &Option<String>, name: &str, bare: fn(&str) -> String| {
            own.as_ref().is_some_and(|own| bare(own) == bare(name))
        };
        match self {
            Self::Serial(serial) => same(&drive.serial, serial, |text| text.trim().to_owned()),
            Self::Wwn(wwn) => same(&drive.wwn, wwn, bare_wwn),
            Self::Path(_) | Self::Store(_) => false,
        }
    }

    /// For messages: "no drive has the serial number X".
    pub(crate) fn has(&self) -> String {
        match self {
            Self::Path(path) => format!("is {}", path.display()),
            Self::Serial(serial) => format!("has the serial number {serial}"),
            Self::Wwn(wwn) => format!("has the world-wide name {wwn}"),
            Self::Store(store) => format!("holds store {store} and can be read"),
        }
    }
}

impl fmt::Display for DriveName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Serial(serial) => write!(f, "serial:{serial}"),
            Self::Wwn(wwn) => write!(f, "wwn:{wwn}"),
            Self::Store(store) => write!(f, "uuid:{store}"),
        }
    }
}

/// The kernel, `lsblk` and labels write world-wide names with different heads.
pub(super) fn bare_wwn(text: &str) -> String {
    let text = text.trim().to_ascii_lowercase();
    let heads = ["wwn-", "naa.", "eui.", "nvme-", "0x"];
    let mut bare = text.as_str();
    while let Some(rest) = heads.iter().find_map(|head| bare.strip_prefix(head)) {
        bare = rest;
    }
    bare.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_paths() {
        assert_eq!(DriveName::parse("/dev/sdb"), Ok(DriveName::Path("/dev/sdb".into())));
        assert_eq!(DriveName::parse("./serial:1"), Ok(DriveName::Path("./serial:1".into())));
        assert_eq!(DriveName::parse("serial: ZL2 "), Ok(DriveName::Serial("ZL2".into())));
        assert_eq!(DriveName::parse("uuid:33bdca533fae8b2d"), Ok(DriveName::Store(StoreId(0x33bd_ca53_3fae_8b2d))));
        for text in ["serial:", "wwn: ", "uuid:", "uuid:33", "uuid:x3bdca533fae8b2d"] {
            assert!(DriveName::parse(text).is_err(), "{text}");
        }
        for text in ["/dev/sdb", "serial:ZL2", "wwn:naa.5000c500a1b2c3d4", "uuid:33bdca533fae8b2d"] {
            assert_eq!(DriveName::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn world_wide_names_are_the_same_whoever_writes_them() {
        for text in ["naa.5000c500a1b2c3d4", "0x5000C500A1B2C3D4", "wwn-0x5000c500a1b2c3d4", " 5000c500a1b2c3d4"] {
            assert_eq!(bare_wwn(text), "5000c500a1b2c3d4");
        }
    }
}
