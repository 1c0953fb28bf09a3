//! Blobs that nobody needs any more, and those that must stay yet since somebody reads them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::names::Blob;

/// Deletions at a time: their tombstones share records.
const BATCH: usize = 128;

/// Blobs to delete, and those that must stay yet.
#[derive(Default)]
pub(crate) struct Purge {
    /// Names that are deleted as soon as may be. They stay here until they have gone.
    doomed: RefCell<BTreeSet<Bytes>>,
    /// The last of them that was tried.
    tried: RefCell<Bytes>,
    /// Blobs that readers have open.
    pins: RefCell<BTreeMap<Blob, u32>>,
    /// Pinned ones that are to go.
    condemned: RefCell<BTreeSet<Blob>>,
    /// Names of uploads that have ended although their records are still there.
    ended: RefCell<BTreeSet<Vec<u8>>>,
    wanted: Notify,
}

impl Purge {
    pub(super) fn pin(&self, blobs: impl Iterator<Item = Blob>) {
        let mut pins = self.pins.borrow_mut();
        blobs.for_each(|blob| *pins.entry(blob).or_default() += 1);
    }

    /// Number of blobs to delete.
    pub(super) fn waiting(&self) -> u64 {
        (self.doomed.borrow().len() + self.condemned.borrow().len()) as u64
    }

    pub(super) fn has_ended(&self, upload: &[u8]) -> bool {
        self.ended.borrow().contains(upload)
    }

    fn doom(&self, name: Bytes) {
        self.doomed.borrow_mut().insert(name);
        self.wanted.notify_one();
    }

    /// Somebody deleted it, and it has not gone yet.
    pub(super) fn is_going(&self, blob: &Blob) -> bool {
        self.condemned.borrow().contains(blob) || self.doomed.borrow().contains(&blob.name())
    }

    /// The next names in turn.
    pub(super) fn batch(&self) -> Vec<Bytes> {
        let (doomed, mut tried) = (self.doomed.borrow(), self.tried.borrow_mut());
        let behind = doomed.range((Excluded(tried.clone()), Unbounded));
        let batch: Vec<_> = behind.chain(doomed.range(..=tried.clone())).take(BATCH).cloned().collect();
        *tried = batch.last().cloned().unwrap_or_default();
        batch
    }

    pub(super) fn wake(&self) {
        self.wanted.notify_one();
    }

    /// The blob is deleted once nobody reads it.
    pub(super) fn condemn(&self, blob: Blob) {
        if self.pins.borrow().contains_key(&blob) {
            self.condemned.borrow_mut().insert(blob);
        } else {
            self.doom(blob.name());
        }
    }

    pub(super) fn unpin(&self, blobs: impl Iterator<Item = Blob>) {
        for blob in blobs {
            let mut pins = self.pins.borrow_mut();
            let Some(count) = pins.get_mut(&blob) else { continue };
            *count -= 1;
            if *count == 0 {
                pins.remove(&blob);
                if self.condemned.borrow_mut().remove(&blob) {
                    self.doom(blob.name());
                }
            }
        }
    }

    /// The upload of that name has ended, and its record could not be deleted yet.
    pub(super) fn end(&self, upload: Vec<u8>) {
        self.ended.borrow_mut().insert(upload.clone());
        self.doom(upload.into());
    }

    /// It was deleted.
    pub(super) fn gone(&self, name: &Bytes) {
        self.doomed.borrow_mut().remove(name);
        self.ended.borrow_mut().remove(&name[..]);
    }

    /// Waits until there is something to delete.
    pub(super) fn wanted(&self) -> tokio::sync::futures::Notified<'_> {
        self.wanted.notified()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_that_is_read_goes_once_nobody_reads_it() {
        let purge = Purge::default();
        let blobs = [1, 2].map(|tag| Blob { owner: 1, number: 0, tag });
        purge.pin(blobs.into_iter());
        purge.pin(blobs.into_iter().take(1));
        blobs.into_iter().for_each(|blob| purge.condemn(blob));
        purge.unpin(blobs.into_iter());
        assert_eq!(purge.batch(), [blobs[1].name()]);
        assert!(purge.is_going(&blobs[0]) && purge.waiting() == 2);
        purge.gone(&blobs[1].name());
        purge.unpin(blobs.into_iter().take(1));
        assert_eq!(purge.batch(), [blobs[0].name()]);
        purge.gone(&blobs[0].name());
        assert_eq!(purge.waiting(), 0);
    }

    #[test]
    fn a_deletion_that_failed_comes_again_behind_the_others() {
        let purge = Purge::default();
        for tag in 0..BATCH as u64 + 1 {
            purge.condemn(Blob { owner: 1, number: 0, tag });
        }
        let first = purge.batch();
        assert_eq!(first.len(), BATCH);
        first.iter().skip(1).for_each(|name| purge.gone(name));
        assert_eq!(purge.batch().last(), first.first());
        purge.end(b"upload".to_vec());
        assert!(purge.has_ended(b"upload"));
        purge.gone(&Bytes::from_static(b"upload"));
        assert!(!purge.has_ended(b"upload"));
    }
}
