//! Blobs that nobody needs, left by a power cut or a failure: found after opening, and deleted.

use std::rc::Rc;

use bytes::Bytes;
use shingle_array_store::Object;
use shingle_store_api::{StoreResult, UploadId};

use super::Core;
use super::counting::PAGE;
use crate::errors::from_array;
use crate::format::{BlobRecord, Manifest};
use crate::names::{self, BLOB, Blob};

/// The object that blobs of an owner were looked up in.
struct Looked {
    owner: u64,
    /// What the object of their key consists of, if it is of theirs.
    manifest: Option<Manifest>,
}

impl Core {
    /// Looks at every blob that was there when the array was opened. Counts those that nobody needed.
    pub(super) async fn find_orphans(self: Rc<Self>) {
        match self.look_for_orphans().await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "leftovers of writes that never ended are deleted"),
            Err(error) => tracing::warn!(%error, "leftovers could not be looked for; the next opening does"),
        }
    }

    async fn look_for_orphans(&self) -> StoreResult<u64> {
        let mut after: Option<Bytes> = None;
        let mut count = 0;
        while !self.closing.get() {
            let page = self.store.list(&[BLOB], after.as_deref(), PAGE).map_err(from_array)?;
            let Some(last) = page.last() else { break };
            after = Some(last.name.clone());
            let mut looked = None;
            for object in &page {
                // Later ones belong to calls that know what becomes of them.
                if object.version < self.opened && !self.is_needed(object, &mut looked)? {
                    let Some(blob) = Blob::of(&object.name) else { continue };
                    self.condemn(std::iter::once(blob));
                    count += 1;
                }
            }
            self.rt.yield_now().await;
        }
        Ok(count)
    }

    /// Whether an object or an upload names that blob. It does not wait: what is found out is true at this moment, and a blob
    /// that nobody needs is not needed later.
    fn is_needed(&self, object: &Object, looked: &mut Option<Looked>) -> StoreResult<bool> {
        let Some(blob) = Blob::of(&object.name) else { return Ok(true) };
        // What cannot be read is better kept.
        let Ok(BlobRecord { bucket, key, .. }) = BlobRecord::decode(&object.attributes) else { return Ok(true) };
        let upload = names::upload(&bucket, &key, UploadId(blob.owner));
        if blob.number > 0 && !self.purge.has_ended(&upload) && self.find(&upload)?.is_some() {
            let rivals = self.store.list(&Blob::part_prefix(blob.owner, blob.number), None, usize::MAX);
            return Ok(rivals.map_err(from_array)?.iter().all(|rival| rival.version <= object.version));
        }
        if looked.as_ref().is_none_or(|looked| looked.owner != blob.owner) {
            let found = match self.find_object(&bucket, &key) {
                Ok(found) => found.and_then(|(_, record)| record.manifest),
                // An object whose record is spoilt may be mended by hand.
                Err(_) => return Ok(true),
            };
            *looked =
                Some(Looked { owner: blob.owner, manifest: found.filter(|manifest| manifest.owner == blob.owner) });
        }
        let manifest = looked.as_ref().and_then(|looked| looked.manifest.as_ref());
        Ok(manifest.is_some_and(|manifest| manifest.blobs().any(|named| named == blob)))
    }
}
