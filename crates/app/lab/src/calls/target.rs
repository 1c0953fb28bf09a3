//! The contract of files on which recorded calls are made again.

use shingle_runtime::LocalBoxFuture;

use super::record::{Call, Recording};
use crate::error::LabError;

/// Files that take the calls of a recording, each call when those that it depends on have ended.
pub trait Files {
    /// Makes a call of `recording`, and ends when it is done.
    ///
    /// # Errors
    /// It failed.
    fn perform<'a>(&'a self, recording: &'a Recording, call: &'a Call) -> LocalBoxFuture<'a, Result<(), LabError>>;
}
