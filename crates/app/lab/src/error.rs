//! Errors of the lab.

use std::fmt;

/// Reason why an experiment ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabError(pub String);

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LabError {}

impl From<shingle_block_trace::TraceError> for LabError {
    fn from(error: shingle_block_trace::TraceError) -> Self {
        Self(error.0)
    }
}
