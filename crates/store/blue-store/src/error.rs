//! Errors of the store: an error's kind is what its caller does next.

use std::fmt;
use std::sync::Arc;

use shingle_zone_files::{FilesError, FilesErrorKind};
use shingle_zoned::{DeviceError, DeviceErrorKind};

use crate::kv::{KvError, KvErrorKind};

/// The result of a call on the store.
pub type BlueResult<T> = Result<T, BlueError>;

/// The caller's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BlueErrorKind {
    /// There is no such collection, object or attribute. Of a transaction, nothing has happened.
    NotFound,
    /// It is there already. Of a transaction, nothing has happened.
    Exists,
    /// There is no room, and none can be won. Of a transaction, nothing has happened: remove objects, and try again.
    NoSpace,
    /// Stored bytes failed their check. Reading again will not help: repair from another copy.
    Corrupt,
    /// The drive failed the command; other objects may be fine.
    Device,
    /// The call makes no sense; the message says why. Of a transaction, nothing has happened.
    Invalid,
    /// The store was opened for reading alone.
    ReadOnly,
    /// The store was closed, or has stopped after an error; no completed transaction is lost.
    Unavailable,
}

/// A failed call: what to do next, and the words for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlueError {
    /// The caller's next action.
    pub kind: BlueErrorKind,
    /// Description for a person, with the place.
    pub message: Arc<str>,
    /// Metadata were read, and make no sense. They were not, where the store of metadata itself says `Corrupt`: it has returned nothing.
    senseless: bool,
}

impl BlueError {
    /// An error of `kind` that says `message`.
    pub fn new(kind: BlueErrorKind, message: impl Into<Arc<str>>) -> Self {
        Self { kind, message: message.into(), senseless: false }
    }

    /// A call that makes no sense.
    pub(crate) fn invalid(message: impl Into<Arc<str>>) -> Self {
        Self::new(BlueErrorKind::Invalid, message)
    }

    /// Metadata that make no sense, though the store of metadata has returned them as they were written.
    pub(crate) fn senseless(part: &str) -> Self {
        Self::senseless_as(format!("the metadata hold a {part} that makes no sense"))
    }

    /// The same, in other words.
    pub(crate) fn senseless_as(message: impl Into<Arc<str>>) -> Self {
        Self { senseless: true, ..Self::new(BlueErrorKind::Corrupt, message) }
    }

    /// Metadata were read, and make no sense: they will make none the next time.
    pub(crate) fn is_senseless(&self) -> bool {
        self.senseless
    }

    /// The store was closed while the call was under way.
    pub(crate) fn closed() -> Self {
        Self::new(BlueErrorKind::Unavailable, "the store was closed")
    }

    /// No zone is free, and none will be.
    pub(crate) fn no_space() -> Self {
        Self::new(BlueErrorKind::NoSpace, "no zone of the drive is free, and none can be won by copying")
    }
}

impl fmt::Display for BlueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BlueError {}

impl From<DeviceError> for BlueError {
    fn from(error: DeviceError) -> Self {
        let kind = match error.kind {
            DeviceErrorKind::Gone => BlueErrorKind::Unavailable,
            _ => BlueErrorKind::Device,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<FilesError> for BlueError {
    fn from(error: FilesError) -> Self {
        let kind = match error.kind {
            FilesErrorKind::NotFound => BlueErrorKind::NotFound,
            FilesErrorKind::NoSpace => BlueErrorKind::NoSpace,
            FilesErrorKind::Corrupt => BlueErrorKind::Corrupt,
            FilesErrorKind::Device => BlueErrorKind::Device,
            FilesErrorKind::ReadOnly => BlueErrorKind::ReadOnly,
            FilesErrorKind::Unavailable => BlueErrorKind::Unavailable,
            _ => BlueErrorKind::Invalid,
        };
        Self::new(kind, format!("files of the metadata: {error}"))
    }
}

impl From<KvError> for BlueError {
    fn from(error: KvError) -> Self {
        let kind = match error.kind {
            KvErrorKind::NoSpace => BlueErrorKind::NoSpace,
            KvErrorKind::Corrupt => BlueErrorKind::Corrupt,
            KvErrorKind::Device => BlueErrorKind::Device,
            KvErrorKind::Unavailable => BlueErrorKind::Unavailable,
        };
        Self::new(kind, error.message)
    }
}
