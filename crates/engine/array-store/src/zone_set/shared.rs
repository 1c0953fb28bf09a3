//! What all sets of a table share.

use shingle_erasure::Code;

use super::lists::Lists;
use crate::drives::Drives;

/// What all sets of a table share.
pub(crate) struct Shared {
    pub(super) lists: Lists,
    pub(super) drives: Drives,
    pub(super) code: Code,
}
