//! Needs of framing and reading segments, beside the segments: a coder, buffers, and the order of fragments.

use std::cell::RefCell;

use shingle_base::BufferPool;
use shingle_erasure::{Code, Coder};

use super::rotation::Rotation;

/// Bytes of frame buffers that are kept for reuse.
const POOL_BYTES: usize = 128 << 20;

/// Tools for the segments of one array.
pub(crate) struct Framing {
    pub(crate) coder: RefCell<Coder>,
    pub(crate) pool: BufferPool,
    pub(crate) rotation: Rotation,
    /// Some drive drops payload: segments of objects are neither encoded nor copied. The index's snapshots are.
    pub(super) hollow: bool,
}

impl Framing {
    pub(crate) fn new(code: Code, segment_length: u32, hollow: bool) -> Self {
        Self {
            coder: RefCell::new(Coder::new(code)),
            pool: BufferPool::new(POOL_BYTES),
            rotation: Rotation::new(code, segment_length),
            hollow,
        }
    }
}
