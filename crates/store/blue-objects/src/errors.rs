//! Errors of the store below, as callers of an object store see them.

use shingle_base::printable;
use shingle_base::wire::Malformed;
use shingle_blue_store::{BlueError, BlueErrorKind};
use shingle_runtime::owner::Gone;
use shingle_store_api::{StoreError, StoreErrorKind};

/// Callers of a store whose owner has ended are told this.
pub(crate) const STOPPED: &str = "the blue store has stopped";

/// A blue store's error in the words of the store API.
pub fn from_blue(error: BlueError) -> StoreError {
    let kind = match error.kind {
        BlueErrorKind::NoSpace => StoreErrorKind::NoSpace,
        // Bytes that ought to be there are not.
        BlueErrorKind::Corrupt | BlueErrorKind::NotFound => StoreErrorKind::Corrupt,
        BlueErrorKind::Device => StoreErrorKind::Device,
        BlueErrorKind::Unavailable => StoreErrorKind::Unavailable,
        _ => StoreErrorKind::Invalid,
    };
    StoreError::caused(kind, format!("blue store: {error}"), error)
}

/// A value that is not what this crate writes.
pub(crate) fn malformed(name: &[u8], error: Malformed) -> StoreError {
    let words = format!("the value of `{}` in the metadata is no record of ours: {error}", printable(name));
    StoreError::caused(StoreErrorKind::Corrupt, words, error)
}

pub(crate) fn gone(_: Gone) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, STOPPED)
}

pub(crate) fn invalid(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, message)
}

pub(crate) fn corrupt(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, message)
}
