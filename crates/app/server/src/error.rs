//! Reasons why a server did not start or stopped: their texts say what to do.

use std::fmt;

/// Kind of the trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The configuration is wrong.
    Config,
    /// Another server uses the data directory, or something else the address.
    InUse,
    /// The credentials file is unusable.
    Credentials,
    /// A drive is missing, is none, or belongs elsewhere.
    Drive,
    /// A drive is not for this server: the user may not open it, or others have marked it as theirs.
    Denied,
    /// A drive is missing, or holds no store, and was not made.
    NotMade,
    /// The data directory or a drive is of a newer version.
    NewerVersion,
    /// The object store could not be opened, or has stopped.
    Store,
    /// The operating system refused.
    System,
}

/// Reason why a server did not start, or stopped.
#[derive(Debug)]
pub struct Error {
    /// Kind of the trouble.
    pub kind: ErrorKind,
    /// The event and the remedy, for a person.
    pub message: String,
}

/// The result of starting a server.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// `what` could not be done because of `error`.
    pub(crate) fn system(what: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::new(ErrorKind::System, format!("{what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
