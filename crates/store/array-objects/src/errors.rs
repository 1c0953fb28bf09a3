//! The array's errors, as callers of a store see them.

use shingle_array_store as array;
use shingle_base::wire::Malformed;
use shingle_runtime::owner::Gone;
use shingle_store_api::{StoreError, StoreErrorKind};

/// An array's error in the words of the store API.
pub(crate) fn from_array(error: array::Error) -> StoreError {
    use array::ErrorKind;
    let kind = match error.kind {
        ErrorKind::NoSpace => StoreErrorKind::NoSpace,
        // Bytes that ought to be there are missing, or fewer than they were.
        ErrorKind::Corrupt | ErrorKind::NotFound | ErrorKind::OutOfRange => StoreErrorKind::Corrupt,
        ErrorKind::Invalid => StoreErrorKind::Invalid,
        ErrorKind::Index | ErrorKind::Stopped => StoreErrorKind::Unavailable,
        _ => StoreErrorKind::Device,
    };
    StoreError::caused(kind, format!("array: {error}"), error)
}

/// Attributes that are not what this crate writes.
pub(crate) fn malformed(name: &[u8], error: Malformed) -> StoreError {
    let name = String::from_utf8_lossy(name).escape_debug().to_string();
    StoreError::caused(
        StoreErrorKind::Corrupt,
        format!("what is stored with `{name}` is no record of ours: {error}"),
        error,
    )
}

/// Callers of an array whose owner has ended are told this.
pub(crate) const STOPPED: &str = "the array has stopped";

pub(crate) fn gone(_: Gone) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, STOPPED)
}

pub(crate) fn invalid(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, message)
}
