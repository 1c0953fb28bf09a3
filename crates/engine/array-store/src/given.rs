//! Resources given to an array: drives, and a place for its index.

use std::path::PathBuf;
use std::rc::Rc;

use shingle_zoned::ZonedDevice;

use crate::error::{Error, Result};
use crate::index::Index;

/// A drive, and what its owner calls it.
#[derive(Clone)]
pub struct ArrayDrive {
    /// A serial number or path, for messages.
    pub name: String,
    /// The drive.
    pub dev: Rc<dyn ZonedDevice>,
}

/// Place of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexPlace {
    /// In memory: built from the drives each time the array is opened.
    Memory,
    /// In a file, on flash; believed only after a clean close.
    File(PathBuf),
}

impl IndexPlace {
    /// An empty index there.
    pub(crate) fn fresh(&self) -> Result<Index> {
        match self {
            Self::Memory => Index::memory(),
            Self::File(path) => Index::create(path),
        }
        .map_err(Error::index)
    }
}
