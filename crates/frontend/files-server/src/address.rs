//! The name of a drive's socket. It has no file, so nothing is left of it when its process ends.

use std::io;
use std::os::linux::fs::MetadataExt;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::SocketAddr;
use std::path::Path;

/// A drive, and the partition of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub(crate) holder: &'a Path,
    pub(crate) partition: Option<&'a str>,
}

impl Named<'_> {
    pub(crate) fn address(self) -> io::Result<SocketAddr> {
        let found = std::fs::metadata(self.holder)?;
        let mut own = if found.file_type().is_block_device() {
            format!("shingle-files/block-{}", found.st_rdev())
        } else {
            format!("shingle-files/file-{}-{}", found.st_dev(), found.st_ino())
        };
        if let Some(name) = self.partition {
            own += "#";
            own += name;
        }
        SocketAddr::from_abstract_name(own)
    }
}
