//! Blocks that a change of a shard needs more, and those that it lets go.

use std::rc::Rc;

use super::{Extent, Extents};
use crate::blob::Blob;
use crate::blob::ranges::Ranges;

/// Blocks of a blob that a shard needs before a change and after it.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) blob: Rc<Blob>,
    pub(crate) before: Ranges,
    pub(crate) after: Ranges,
}

/// Blobs of a shard in the order of their first extents, with the blocks that are needed of each.
pub(crate) fn needed_by_blob(extents: &Extents) -> Vec<(Rc<Blob>, Ranges)> {
    let mut found: Vec<(Rc<Blob>, Ranges)> = Vec::new();
    for Extent { blob, from, length, .. } in extents.iter() {
        let needed = blob.needed(*from..*from + *length);
        // A blob's extents are near each other, for they were written together.
        match found.iter_mut().rev().find(|(other, _)| Rc::ptr_eq(other, blob)) {
            Some((_, ranges)) => ranges.add(needed),
            None => found.push((blob.clone(), [needed].into_iter().collect())),
        }
    }
    found
}

/// Blobs of which a shard needs other blocks after a change.
pub(crate) fn changes(before: &Extents, after: &Extents) -> Vec<Change> {
    let before = needed_by_blob(before).into_iter();
    let mut changes: Vec<Change> =
        before.map(|(blob, before)| Change { blob, before, after: Ranges::default() }).collect();
    for (blob, after) in needed_by_blob(after) {
        match changes.iter_mut().find(|change| Rc::ptr_eq(&change.blob, &blob)) {
            Some(change) => change.after = after,
            None => changes.push(Change { blob, before: Ranges::default(), after }),
        }
    }
    changes.retain(|change| change.before != change.after);
    changes
}
