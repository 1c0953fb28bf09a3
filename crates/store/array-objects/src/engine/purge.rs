//! Deleting blobs that nobody needs any more, behind everyone's back.
//!
//! Blobs still to be deleted when the owner ends are found again when the array is opened (`orphans`).

use std::rc::Rc;

use futures_util::future::join_all;
use shingle_store_api::{StoreResult, UploadId};

use super::Core;
use crate::errors::from_array;
use crate::format::ObjectRecord;
use crate::names::{self, Blob};

impl Core {
    /// Deletes blobs once nobody reads them. Nothing may name them any more.
    pub(super) fn condemn(&self, blobs: impl Iterator<Item = Blob>) {
        for blob in blobs {
            self.purge.condemn(blob);
        }
    }

    /// Deletes the record of an upload that has ended with its object; later, if that fails.
    pub(super) async fn forget_ended(&self, name: Vec<u8>) {
        if let Err(error) = self.store.delete(name.clone()).await {
            tracing::warn!(%error, "an upload that was completed could not be deleted yet");
            self.purge.end(name);
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
            let wanted = self.purge.wanted();
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
                        self.purge.gone(&name);
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
