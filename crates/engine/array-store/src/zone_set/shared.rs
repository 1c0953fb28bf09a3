//! Shared state of all sets of a table.

use shingle_erasure::Code;

use super::lists::Lists;
use crate::drives::Drives;

/// Shared state of all sets of a table.
pub(crate) struct Shared {
    pub(super) lists: Lists,
    pub(super) drives: Drives,
    pub(super) code: Code,
}
