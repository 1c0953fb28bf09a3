//! Errors of the index. None of them costs data: the index can always be built anew.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result of index calls.
pub(crate) type IndexResult<T> = Result<T, IndexError>;

/// A failure of the index.
#[derive(Debug)]
pub(crate) enum IndexError {
    /// The file could not be used; the index is not open.
    File { what: &'static str, path: PathBuf, source: io::Error },
    /// The tree could not be read or written. Changes being applied were not.
    Tree(Box<redb::Error>),
    /// Bytes of a snapshot, or an entry, are not what this version writes.
    Malformed(&'static str),
}

impl IndexError {
    pub(crate) fn file(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { what, path: path.to_owned(), source }
    }
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { what, path, source } => write!(f, "the index {} {what}: {source}", path.display()),
            Self::Tree(source) => write!(f, "the index failed: {source}"),
            Self::Malformed(what) => write!(f, "the index is malformed: {what}"),
        }
    }
}

impl std::error::Error for IndexError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            Self::Tree(source) => Some(&**source),
            Self::Malformed(_) => None,
        }
    }
}

macro_rules! from_tree {
    ($($error:ident),*) => {
        $(impl From<redb::$error> for IndexError {
            fn from(error: redb::$error) -> Self {
                Self::Tree(Box::new(error.into()))
            }
        })*
    };
}

from_tree!(CommitError, CursorError, DatabaseError, SetDurabilityError, StorageError, TableError, TransactionError);
