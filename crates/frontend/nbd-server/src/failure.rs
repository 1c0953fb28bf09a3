//! Failures of requests, in the few numbers that the protocol has for them.

use shingle_store_api::{StoreError, StoreErrorKind};

/// Longest message for a client.
const MESSAGE_BYTES_MAX: usize = 1024;

/// Number of an error on the wire, whatever this system calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Errno {
    NotPermitted = 1,
    Io = 5,
    Invalid = 22,
    NoSpace = 28,
    NotSupported = 95,
    Shutdown = 108,
}

/// A failed request: number, and words for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) errno: Errno,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(errno: Errno, message: impl Into<String>) -> Self {
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        Self { errno, message }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Errno::Invalid, message)
    }

    pub(crate) fn shutdown() -> Self {
        Self::new(Errno::Shutdown, "the export is shutting down")
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let errno = match error.kind {
            StoreErrorKind::NoSpace => Errno::NoSpace,
            StoreErrorKind::Invalid | StoreErrorKind::TooLarge => Errno::Invalid,
            StoreErrorKind::Unavailable => Errno::Shutdown,
            _ => Errno::Io,
        };
        Self::new(errno, error.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_stores_have_numbers_and_messages_are_short() {
        let of = |kind| Failure::from(StoreError::new(kind, "é".repeat(2000)));
        assert_eq!(of(StoreErrorKind::NoSpace).errno as u32, 28);
        assert_eq!(of(StoreErrorKind::Invalid).errno as u32, 22);
        assert_eq!(of(StoreErrorKind::Unavailable).errno as u32, 108);
        for kind in [StoreErrorKind::Corrupt, StoreErrorKind::Device, StoreErrorKind::Busy] {
            assert_eq!(of(kind).errno as u32, 5);
        }
        assert_eq!(of(StoreErrorKind::Busy).message.len(), 1024);
    }
}
