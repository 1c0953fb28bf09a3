//! Errors of the array store: an error's kind is what its caller does next.

use std::fmt;

use shingle_zoned::DeviceError;

/// The result of an array store call.
pub type Result<T> = std::result::Result<T, Error>;

/// The caller's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no object of that name.
    NotFound,
    /// A read past the object's end.
    OutOfRange,
    /// No zone set is free and none can be reclaimed. Nothing was stored; delete something or add drives.
    NoSpace,
    /// Stored bytes fail their check in more fragments than parity makes up for.
    Corrupt,
    /// More drives are gone than parity makes up for, or the one that is needed failed the command.
    Device,
    /// The drives hold no array that this version can open; the message says why.
    Format,
    /// The request makes no sense; the message says why.
    Invalid,
    /// The index on flash failed. Nothing is lost: open the array again, with another index file if need be.
    Index,
    /// The array has stopped.
    Stopped,
}

/// A failed call: what to do next, and why.
#[derive(Debug)]
pub struct Error {
    /// The caller's next action.
    pub kind: ErrorKind,
    /// Description for a person, with the place.
    pub message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    pub(crate) fn caused(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self { kind, message: message.into(), source: Some(Box::new(source)) }
    }

    /// An error of a step behind one that may last: nothing may be taken for refused, and left out of mind, because of it. (AS-WRITE-3)
    pub(crate) fn behind_a_write(self) -> Self {
        match self.kind {
            ErrorKind::NoSpace | ErrorKind::Invalid => {
                Self::caused(ErrorKind::Device, "it failed half-way, and may be there or not at the next opening", self)
            }
            _ => self,
        }
    }

    pub(crate) fn device(what: impl fmt::Display, source: DeviceError) -> Self {
        Self::caused(ErrorKind::Device, format!("{what}: {source}"), source)
    }

    pub(crate) fn index(source: crate::index::IndexError) -> Self {
        Self::caused(ErrorKind::Index, format!("the index failed: {source}; open the array again"), source)
    }

    pub(crate) fn stopped() -> Self {
        Self::new(ErrorKind::Stopped, "the array is closed")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
