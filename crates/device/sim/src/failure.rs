//! A store's failure towards one of its [`clients`](crate::clients).

use std::fmt;

use shingle_store_api::{StoreError, StoreErrorKind};

/// Description of a broken promise, or of an error where none was expected.
#[derive(Clone, Debug)]
pub struct Failure {
    what: String,
    /// The kind of the store's error, if it answered with one.
    pub error: Option<StoreErrorKind>,
}

impl Failure {
    /// The store's answer is wrong.
    pub(crate) fn wrong(client: &str, what: impl fmt::Display) -> Self {
        Self { what: format!("client {client}: {what}"), error: None }
    }

    /// The store answered with an error.
    pub(crate) fn error(client: &str, what: impl fmt::Display, error: &StoreError) -> Self {
        let what = format!("client {client}: {what}: {:?}: {error}", error.kind);
        Self { what, error: Some(error.kind) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
