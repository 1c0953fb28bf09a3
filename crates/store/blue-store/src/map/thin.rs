//! Compressed blobs of which a shard shows little. (BLU-THIN-1)

use std::rc::Rc;

use super::{Extent, Extents};
use crate::blob::packing::Packing;
use crate::blob::{BLOCK, Blob};

/// A compressed blob, as a shard shows it.
struct Shown {
    blob: Rc<Blob>,
    bytes: u32,
    /// Blocks that those bytes would take, each extent for itself, if they were packed as the blob is.
    blocks: u32,
}

/// Compressed blobs of a shard, of which most blocks would be won if they were written anew. (BLU-THIN-1)
pub(crate) fn thin_blobs(extents: &Extents) -> Vec<Rc<Blob>> {
    let mut shown: Vec<Shown> = Vec::new();
    for Extent { blob, length, .. } in extents.iter().filter(|extent| extent.blob.packing != Packing::Plain) {
        let packed = u64::from(*length) * u64::from(blob.stored) / u64::from(blob.raw.max(1));
        let blocks = (packed as u32).div_ceil(BLOCK).max(1);
        match shown.iter_mut().rev().find(|other| Rc::ptr_eq(&other.blob, blob)) {
            Some(other) => (other.bytes, other.blocks) = (other.bytes + length, other.blocks + blocks),
            None => shown.push(Shown { blob: blob.clone(), bytes: *length, blocks }),
        }
    }
    let thin = shown.into_iter().filter(|Shown { blob, bytes, blocks }| {
        let state = blob.state.borrow();
        blocks * 2 <= blob.blocks() && state.shared.is_none() && state.kept_at.is_none_or(|at| bytes * 2 <= at)
    });
    thin.map(|shown| shown.blob).collect()
}
