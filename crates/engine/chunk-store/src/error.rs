//! Errors of the chunk store: an error's kind is what its caller does next.

use std::fmt;

use shingle_base::{ChunkId, Lba};
use shingle_zoned::{DeviceError, DeviceErrorKind};

/// The result of a chunk store call.
pub type Result<T> = std::result::Result<T, Error>;

/// The caller's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no chunk of that id.
    NotFound,
    /// A chunk of that id exists.
    Exists,
    /// The chunk is sealed: append to another one.
    Sealed,
    /// The append was not at the chunk's end, which is at `size`. If that is where the append would have ended, an
    /// earlier try of it succeeded.
    WrongOffset {
        /// The chunk's size.
        size: u64,
    },
    /// The chunk has reached its size limit: seal it and go on in another one.
    ChunkFull,
    /// A read past the chunk's end, which is at `size`.
    OutOfRange {
        /// The chunk's size.
        size: u64,
    },
    /// No zone is free and nothing can be reclaimed. Nothing was written; delete something first.
    NoSpace,
    /// The file system that holds the emulated drive is full. Nothing was written. Make room there: the store then takes
    /// writes again by itself.
    HostFull,
    /// Stored bytes failed their check. Reading again will not help: repair from another copy.
    Corrupt,
    /// The drive failed the command.
    Device,
    /// The drive holds no chunk store that this version can open; the message says why.
    Format,
    /// The request makes no sense; the message says why.
    Invalid,
    /// The store has stopped: closed, its drive is gone, or its journal could no longer be written.
    Stopped,
}

/// A failed call: what to do next, where, and why.
#[derive(Debug)]
pub struct Error {
    /// The caller's next action.
    pub kind: ErrorKind,
    /// The chunk it is about, if there is one.
    pub chunk: Option<ChunkId>,
    /// The place on the drive, if there is one.
    pub at: Option<Lba>,
    /// Description for a person.
    pub message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, chunk: None, at: None, message: message.into(), source: None }
    }

    /// The same error, about `chunk`.
    #[must_use]
    pub fn of(mut self, chunk: ChunkId) -> Self {
        self.chunk = Some(chunk);
        self
    }

    /// The same error, at a place on the drive.
    #[must_use]
    pub fn at(mut self, at: Lba) -> Self {
        self.at = Some(at);
        self
    }

    /// The same error, caused by `source`.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(chunk) = self.chunk {
            write!(f, "chunk {chunk}: ")?;
        }
        if let Some(at) = self.at {
            write!(f, "{at}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Error for the caller of a failed device read.
pub(crate) fn read_error(error: DeviceError) -> Error {
    let kind = match error.kind {
        // The index says these blocks were written: a zone that is shorter has lost them.
        DeviceErrorKind::Rule(_) => ErrorKind::Corrupt,
        DeviceErrorKind::Gone => ErrorKind::Stopped,
        _ => ErrorKind::Device,
    };
    let at = error.at;
    Error::new(kind, error.to_string()).at(at).caused_by(error)
}
