//! Changes that failed: whether anything of them may be seen all the same.

use shingle_store_api::{StoreError, StoreErrorKind};

/// A change that failed. The place where it failed says whether it may have happened: no kind of error tells.
#[derive(Debug)]
pub struct Failed {
    /// The error, for the caller.
    pub error: StoreError,
    /// All of it may be there at the next start, or sooner; else nothing of it was written.
    pub may_have_happened: bool,
}

impl Failed {
    /// It failed before anything was written.
    pub fn before(error: StoreError) -> Self {
        Self { error, may_have_happened: false }
    }

    /// It failed in an engine whose kinds of errors tell: of a change that it refuses, nothing is written.
    pub fn by_kind(error: StoreError) -> Self {
        let refused = matches!(error.kind, StoreErrorKind::NoSpace | StoreErrorKind::Invalid);
        Self { error, may_have_happened: !refused }
    }

    /// It failed, and may have happened.
    pub fn in_doubt(error: StoreError) -> Self {
        Self { error, may_have_happened: true }
    }
}

impl From<Failed> for StoreError {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}
