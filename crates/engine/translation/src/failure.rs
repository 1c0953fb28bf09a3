//! A failure that several callers are told.

use std::sync::Arc;

use shingle_record::MetaLogError;
use shingle_store_api::{StoreError, StoreErrorKind};
use shingle_zoned::DeviceError;

use crate::drive::device_error;
use crate::identity::log_error;

/// A failure that several callers are told.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: StoreErrorKind,
    message: Arc<str>,
}

impl Failure {
    pub(crate) fn new(kind: StoreErrorKind, message: &str) -> Self {
        Self { kind, message: message.into() }
    }

    /// The volume's frontiers are gone: it was dropped while calls were under way.
    pub(crate) fn gone() -> Self {
        Self::new(StoreErrorKind::Unavailable, "the volume was closed")
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        Self::new(failure.kind, failure.message.as_ref())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(error.kind, &error.message)
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        device_error(error).into()
    }
}

impl From<MetaLogError> for Failure {
    fn from(error: MetaLogError) -> Self {
        log_error(error).into()
    }
}
