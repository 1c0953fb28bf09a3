//! A place on the host's file system for a time.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

/// A directory that is gone with the value.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(folder: &Path) -> Outcome<Self> {
        let path = folder.join(format!("shingle-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
