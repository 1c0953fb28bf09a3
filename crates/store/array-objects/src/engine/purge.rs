//! Deleting blobs that nobody needs any more, behind everyone's back.
//!
//! Blobs still to be deleted when the owner ends are found again when the array is opened (`orphans`).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_store_api::{StoreResult, UploadId};
use tokio::sync::Notify;

use super::Core;
use crate::errors::from_array;
use crate::format::ObjectRecord;
use crate::names::{self, Blob};

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
    fn batch(&self) -> Vec<Bytes> {
        let (doomed, mut tried) = (self.doomed.borrow(), self.tried.borrow_mut());
        let behind = doomed.range((Excluded(tried.clone()), Unbounded));
        let batch: Vec<_> = behind.chain(doomed.range(..=tried.clone())).take(BATCH).cloned().collect();
        *tried = batch.last().cloned().unwrap_or_default();
        batch
    }

    pub(super) fn wake(&self) {
        self.wanted.notify_one();
    }
}

impl Core {
    /// Deletes blobs once nobody reads them. Nothing may name them any more.
    pub(super) fn condemn(&self, blobs: impl Iterator<Item = Blob>) {
        for blob in blobs {
            if self.purge.pins.borrow().contains_key(&blob) {
                self.purge.condemned.borrow_mut().insert(blob);
            } else {
                self.purge.doom(blob.name());
            }
        }
    }

    pub(super) fn unpin(&self, blobs: impl Iterator<Item = Blob>) {
        for blob in blobs {
            let mut pins = self.purge.pins.borrow_mut();
            let Some(count) = pins.get_mut(&blob) else { continue };
            *count -= 1;
            if *count == 0 {
                pins.remove(&blob);
                if self.purge.condemned.borrow_mut().remove(&blob) {
                    self.purge.doom(blob.name());
                }
            }
        }
    }

    /// Deletes the record of an upload that has ended with its object; later, if that fails.
    pub(super) async fn forget_ended(&self, name: Vec<u8>) {
        if let Err(error) = self.store.delete(name.clone()).await {
            tracing::warn!(%error, "an upload that was completed could not be deleted yet");
            self.purge.ended.borrow_mut().insert(name.clone());
            self.purge.doom(name.into());
        }
    }

    /// Deletes the record of the upload that an object was made of, if that is still there: once the object has gone, nothing
    /// says any more that the upload has ended (AO-UPL-1).
    pub(super) async fn forget_upload(&self, bucket: &str, key: &str, made: &ObjectRecord) -> StoreResult<()> {
        let Some(manifest) = made.manifest.as_ref().filter(|manifest| manifest.multipart) else { return Ok(()) };
        let name = names::upload(bucket, key, UploadId(manifest.owner));
        if self.find(&name)?.is_some() {
            self.store.delete(name).await.map_err(from_array)?;
        }
        Ok(())
    }

    pub(super) async fn run_purge(self: Rc<Self>) {
        loop {
            let wanted = self.purge.wanted.notified();
            if self.closing.get() {
                return;
            }
            let batch = self.purge.batch();
            if batch.is_empty() {
                wanted.await;
                continue;
            }
            let results = join_all(batch.iter().map(|name| self.store.delete(name.clone()))).await;
            let mut failed = false;
            for (name, result) in batch.into_iter().zip(results) {
                match result {
                    Ok(_) => {
                        self.purge.doomed.borrow_mut().remove(&name);
                        self.purge.ended.borrow_mut().remove(&name[..]);
                    }
                    Err(error) => {
                        if !failed {
                            tracing::warn!(%error, "what nobody needs could not be deleted; it is tried again");
                        }
                        failed = true;
                    }
                }
            }
            if failed {
                // Ends early when the owner does.
                let pause = self.rt.sleep(self.options.purge_pause);
                futures_util::future::select(Box::pin(pause), Box::pin(self.closing.wanted())).await;
            }
        }
    }
}
