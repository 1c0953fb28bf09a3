//! Errors of other layers, as callers of a store see them.

use shingle_chunk_store as chunk;
use shingle_runtime::TaskLost;
use shingle_store_api::{StoreError, StoreErrorKind};

use crate::index::IndexError;
use crate::wire::Malformed;

/// A chunk store's error in the words of the store API.
pub(crate) fn from_chunk(error: chunk::Error) -> StoreError {
    StoreError::caused(kind_of(&error), format!("chunk store: {error}"), error)
}

/// The same for clients, who know objects: of which chunk and where, only the error's source says, for the log.
pub(crate) fn for_client(error: chunk::Error) -> StoreError {
    StoreError::caused(kind_of(&error), error.message.clone(), error)
}

fn kind_of(error: &chunk::Error) -> StoreErrorKind {
    use chunk::ErrorKind;
    match error.kind {
        ErrorKind::NoSpace | ErrorKind::HostFull => StoreErrorKind::NoSpace,
        // A chunk that ought to be there and is not, or is shorter than it was.
        ErrorKind::Corrupt | ErrorKind::NotFound | ErrorKind::OutOfRange { .. } => StoreErrorKind::Corrupt,
        ErrorKind::Stopped => StoreErrorKind::Unavailable,
        _ => StoreErrorKind::Device,
    }
}

/// An index error: the engine cannot go on.
pub(crate) fn from_index(error: IndexError) -> StoreError {
    StoreError::caused(StoreErrorKind::Unavailable, error.to_string(), error)
}

/// A record of the index that is not what it should be.
pub(crate) fn from_record(error: Malformed) -> StoreError {
    from_index(crate::indexer::spoilt(error))
}

/// A task that did not come back.
pub(crate) fn lost(error: TaskLost) -> StoreError {
    StoreError::caused(StoreErrorKind::Unavailable, error.to_string(), error)
}

pub(crate) fn unavailable(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, message)
}

pub(crate) fn invalid(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, message)
}
