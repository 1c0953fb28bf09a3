//! Putting, finding and deleting objects.

use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use shingle_array_store::Object;
use shingle_store_api::{Commit, Condition, ObjectInfo, StoreError, StoreErrorKind, StoreResult};

use super::{Core, object_info, size_of};
use crate::errors::from_array;
use crate::format::{Attributes, BlobRecord, Manifest, ObjectRecord};
use crate::names;

/// What a writer has written when it commits.
pub(crate) enum Written {
    /// All of it, in memory.
    Whole(Vec<Bytes>),
    /// A blob, by its writer's number.
    Blob(u64),
}

impl Core {
    /// That an object of that name may be written.
    pub(crate) fn check_put(&self, bucket: &str, key: &str) -> StoreResult<()> {
        names::check(bucket, key)?;
        self.require_bucket(bucket).map(drop)
    }

    /// Makes what a writer has written the object.
    pub(crate) async fn commit_put(
        self: &Rc<Self>,
        bucket: String,
        key: String,
        written: Written,
        commit: Commit,
    ) -> StoreResult<ObjectInfo> {
        let _gate = self.gates.shared(bucket.clone().into_bytes()).await;
        self.require_bucket(&bucket)?;
        let _turn = self.keys.exclusive(names::object(&bucket, &key)).await;
        let before = self.check_present(&bucket, &key, &commit.condition)?;
        let attributes =
            Attributes { modified_unix_ns: self.now_unix_ns(), etag: commit.etag, metadata: commit.metadata };
        let (data, manifest) = match written {
            Written::Whole(pieces) => (joined(pieces), None),
            Written::Blob(writer) => {
                // With all that its record has, so that it can be made anew where that is lost (ORPHAN-1).
                let of = BlobRecord { bucket: bucket.clone(), key: key.clone(), attributes: attributes.clone() };
                let (blob, size, _) = self.finish_blob(writer, of.encode()?).await?;
                let blobs = vec![(blob.number, blob.tag, size)];
                (Bytes::new(), Some(Manifest { multipart: false, owner: blob.owner, blobs }))
            }
        };
        self.replace(&bucket, &key, before, data, ObjectRecord { attributes, manifest }).await
    }

    /// The present version, of which `condition` holds. True until the key's turn is over.
    pub(super) fn check_present(
        &self,
        bucket: &str,
        key: &str,
        condition: &Condition,
    ) -> StoreResult<Option<(Object, ObjectRecord)>> {
        let present = self.find_object(bucket, key)?;
        condition.check(present.as_ref().map(|(_, record)| record.attributes.etag.as_str()))?;
        Ok(present)
    }

    /// Makes `record` the object, in its key's turn, and lets go of what it replaces.
    pub(super) async fn replace(
        self: &Rc<Self>,
        bucket: &str,
        key: &str,
        before: Option<(Object, ObjectRecord)>,
        data: Bytes,
        record: ObjectRecord,
    ) -> StoreResult<ObjectInfo> {
        if let Some((_, before)) = &before {
            self.forget_upload(bucket, key, before).await?;
        }
        let name = Bytes::from(names::object(bucket, key));
        let stored = match record.encode() {
            Ok(attributes) => self.store.put(name.clone(), data, attributes).await.map_err(from_array),
            Err(error) => Err(error),
        };
        let stored = match stored {
            Ok(stored) => stored,
            Err(error) => {
                // Elsewhere than here it may be there all the same, or be found by the next recovery: its blob is left to
                // the next opening, which sees whether anything names it.
                let nothing = matches!(error.kind, StoreErrorKind::NoSpace | StoreErrorKind::Invalid);
                if let Some(manifest) = record.manifest.filter(|manifest| nothing && !manifest.multipart) {
                    self.condemn(manifest.blobs());
                }
                return Err(error);
            }
        };
        let object = Object { name, version: stored.version, size: stored.size, attributes: Bytes::new() };
        let was = before.as_ref().map(|(object, record)| size_of(object, record));
        self.counts.change(&object.name, was, Some(size_of(&object, &record)));
        if let Some((_, ObjectRecord { manifest: Some(manifest), .. })) = before {
            self.condemn(manifest.blobs());
        }
        Ok(object_info(key, &object, record))
    }

    pub(crate) fn head(&self, bucket: &str, key: &str) -> StoreResult<ObjectInfo> {
        self.require_bucket(bucket)?;
        let (object, record) = self.find_object(bucket, key)?.ok_or_else(|| StoreError::no_key(bucket, key))?;
        Ok(object_info(key, &object, record))
    }

    /// Deletes an object of which `condition` holds. `false` if there was none.
    pub(crate) async fn delete(
        self: &Rc<Self>,
        bucket: String,
        key: String,
        condition: Condition,
    ) -> StoreResult<bool> {
        let _gate = self.gates.shared(bucket.clone().into_bytes()).await;
        self.require_bucket(&bucket)?;
        let name = names::object(&bucket, &key);
        let _turn = self.keys.exclusive(name.clone()).await;
        if condition != Condition::default() {
            self.check_present(&bucket, &key, &condition)?;
        }
        if let Some(deleted) = &mut *self.deleted.borrow_mut() {
            deleted.insert(name.clone());
        }
        let Some(object) = self.find(&name)? else { return Ok(false) };
        // An object whose record is spoilt can be deleted all the same; its blobs are found when the array is opened.
        let record = ObjectRecord::decode(&object.attributes).ok();
        if let Some(record) = &record {
            self.forget_upload(&bucket, &key, record).await?;
        }
        self.store.delete(name.clone()).await.map_err(from_array)?;
        if let Some(record) = record {
            self.counts.change(&name, Some(size_of(&object, &record)), None);
            if let Some(manifest) = record.manifest {
                self.condemn(manifest.blobs());
            }
        } else {
            self.counts.change(&name, Some(object.size), None);
        }
        Ok(true)
    }
}

/// Pieces as one, uncopied where it is one.
fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    if pieces.len() <= 1 {
        return pieces.pop().unwrap_or_default();
    }
    let mut whole = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
    whole.freeze()
}
