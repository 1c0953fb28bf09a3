//! A place on the host's file system for a time.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

const PREFIX: &str = "shingle-";

/// A directory that is gone with the value.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(folder: &Path) -> Outcome<Self> {
        let path = folder.join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Ok(Self(path))
    }

    /// True if a directory has the name of such a place.
    pub(crate) fn is_one(path: &Path) -> bool {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
