//! Errors of files: an error's kind is what its caller does next.

use std::fmt;
use std::sync::Arc;

use shingle_record::MetaLogError;
use shingle_store_api::{StoreError, StoreErrorKind};
use shingle_zoned::{DeviceError, DeviceErrorKind};

/// The result of a call on files.
pub type FilesResult<T> = Result<T, FilesError>;

/// The caller's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FilesErrorKind {
    /// There is no file or directory of that name.
    NotFound,
    /// The name is taken.
    Exists,
    /// A directory has that name, and the call is for files.
    IsDirectory,
    /// A part of the path is a file.
    NotDirectory,
    /// The directory has entries; remove them first.
    NotEmpty,
    /// There is no room. Bytes that were appended wait for it: remove files, and sync again.
    NoSpace,
    /// Stored bytes failed their check. Reading again will not help.
    Corrupt,
    /// The drive failed the command; other files may be fine.
    Device,
    /// Another holds the lock.
    Locked,
    /// The files were opened for reading alone.
    ReadOnly,
    /// The call makes no sense; the message says why.
    Invalid,
    /// The files were closed, or have stopped after an error of the drive; nothing that was synced is lost.
    Unavailable,
}

/// A failed call: what to do next, and the words for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesError {
    /// The caller's next action.
    pub kind: FilesErrorKind,
    /// Description for a person, with the place.
    pub message: Arc<str>,
}

impl FilesError {
    /// An error of `kind` that says `message`.
    pub fn new(kind: FilesErrorKind, message: impl Into<Arc<str>>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The files were closed while the call was under way.
    pub(crate) fn closed() -> Self {
        Self::new(FilesErrorKind::Unavailable, "the files were closed")
    }

    /// No zone is free, and none will be.
    pub(crate) fn no_space() -> Self {
        Self::new(FilesErrorKind::NoSpace, "no zone of the drive is free, and none can be won by copying")
    }

    /// The metadata of more files or extents have no room.
    pub(crate) fn no_metadata_room() -> Self {
        let text =
            "the zones for metadata have no room for more files or extents; remove files, or format with more of them";
        Self::new(FilesErrorKind::NoSpace, text)
    }

    /// There is nothing of that name.
    pub(crate) fn not_found(name: &str) -> Self {
        Self::new(FilesErrorKind::NotFound, format!("there is no file or directory `{}`", shown(name)))
    }

    /// Metadata that passed their checks and make no sense.
    pub(crate) fn senseless(part: &str) -> Self {
        Self::new(FilesErrorKind::Corrupt, format!("a {part} in the metadata log makes no sense"))
    }
}

/// A name, for messages.
pub(crate) fn shown(name: &str) -> String {
    shingle_base::printable(name.as_bytes())
}

impl fmt::Display for FilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FilesError {}

impl From<DeviceError> for FilesError {
    fn from(error: DeviceError) -> Self {
        let kind = match error.kind {
            DeviceErrorKind::Gone => FilesErrorKind::Unavailable,
            _ => FilesErrorKind::Device,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<MetaLogError> for FilesError {
    fn from(error: MetaLogError) -> Self {
        let kind = match error {
            MetaLogError::Damaged { .. } | MetaLogError::NoCheckpoint => FilesErrorKind::Corrupt,
            MetaLogError::Stopped => FilesErrorKind::Unavailable,
            _ => FilesErrorKind::Device,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<FilesError> for StoreError {
    fn from(error: FilesError) -> Self {
        let kind = match error.kind {
            FilesErrorKind::NotFound => StoreErrorKind::NoSuchKey,
            FilesErrorKind::NoSpace => StoreErrorKind::NoSpace,
            FilesErrorKind::Corrupt => StoreErrorKind::Corrupt,
            FilesErrorKind::Device => StoreErrorKind::Device,
            FilesErrorKind::Unavailable => StoreErrorKind::Unavailable,
            _ => StoreErrorKind::Invalid,
        };
        Self::new(kind, error.message.as_ref())
    }
}
