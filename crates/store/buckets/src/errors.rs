//! Errors that the rules give.

use shingle_store_api::{StoreError, StoreErrorKind};

pub(crate) fn invalid(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, message)
}
