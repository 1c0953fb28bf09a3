//! Uploads in parts.
//!
//! # Invariants
//! - AO-UPL-1: an upload ends with the write of its object, or with its deletion, never with both: one that is found
//!   beside the object that was made of it, after a power cut between the two, has ended. That object is neither
//!   replaced nor deleted before the upload's record is gone. `settle_uploads`, `forget_upload`
//! - AO-UPL-2: of the blobs that were written for one part, the one that was acknowledged last is the part, whichever was begun first. The
//!   newest version counts, and a version is as old as its beginning: so one is committed at a time, and newer ones are deleted
//!   before it is acknowledged, also those that failed and may have landed. (BK-PART-1) `put_part_of`, `prevail`
//! - AO-UPL-3: an upload whose completion failed, and may have happened, keeps its parts as they are until it is completed, or the next opening
//!   tells. `require_whole`

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use shingle_array_store::Object;
use shingle_buckets::{Attributes, Chosen, Part};
use shingle_store_api::{ObjectInfo, StoreError, StoreErrorKind, StoreResult, UploadId, UploadInfo, UploadListing};

use super::Core;
use super::counting::PAGE;
use super::objects::Written;
use crate::errors::{from_array, gone, malformed};
use crate::format::{BlobRecord, Manifest, ObjectRecord, UploadRecord};
use crate::names::{self, Blob};

fn upload_info(key: &str, id: UploadId, record: UploadRecord) -> UploadInfo {
    UploadInfo {
        id,
        key: key.to_owned(),
        initiated_unix_ns: record.attributes.modified_unix_ns,
        metadata: record.attributes.metadata,
        class: None,
    }
}

impl Core {
    /// Makes a blob the part it was begun as.
    pub(super) async fn put_part_of(
        self: &Rc<Self>,
        (bucket, key, _): (String, String, UploadId),
        attributes: Attributes,
        written: Written,
    ) -> StoreResult<ObjectInfo> {
        // A part is a blob whatever its size.
        let Written::Blob(open) = written else { return Err(gone(shingle_runtime::owner::Gone)) };
        let record = BlobRecord { bucket, key, attributes };
        let (blob, size, version) = self.finish_blob(open.number, record.encode()?).await?;
        self.prevail(blob, version).await?;
        Ok(record.attributes.info("", version, size, Vec::new()))
    }

    /// Deletes all that was written for the part of `blob` but `blob`; what was begun later would count in its place, and has gone when
    /// this returns. (AO-UPL-2)
    async fn prevail(&self, blob: Blob, version: u64) -> StoreResult<()> {
        let prefix = Blob::part_prefix(blob.owner, blob.number);
        let mut rivals = self.store.list(&prefix, None, usize::MAX).map_err(from_array)?;
        rivals.retain(|rival| rival.version.0 != version);
        // None of them is completed from here on, even if its deletion fails: that may have landed.
        self.condemn(rivals.iter().filter_map(|rival| Blob::of(&rival.name)));
        for newer in rivals.into_iter().filter(|rival| rival.version.0 > version) {
            self.store.delete(newer.name).await.map_err(from_array)?;
        }
        self.drop_unsure(&prefix).await
    }

    /// Parts of an upload with numbers above `after`, at most `limit`.
    pub(super) async fn find_parts(&self, id: UploadId, after: u16, limit: usize) -> StoreResult<Vec<Part<Blob>>> {
        let mut found: BTreeMap<u16, (Object, Blob)> = BTreeMap::new();
        let prefix = Blob::prefix(id.0);
        let mut from = Bytes::from([&Blob::part_prefix(id.0, after)[..], &[0xff; 9]].concat());
        'pages: loop {
            let page = self.store.list(&prefix, Some(&from), PAGE).map_err(from_array)?;
            let Some(last) = page.last() else { break };
            from = last.name.clone();
            for object in page {
                let Some(blob) = Blob::of(&object.name).filter(|blob| !self.purge.is_going(blob)) else { continue };
                let newer = found.get(&blob.number).is_none_or(|(other, _)| other.version < object.version);
                if found.len() == limit && !found.contains_key(&blob.number) {
                    break 'pages;
                }
                if newer {
                    found.insert(blob.number, (object, blob));
                }
            }
            self.rt.yield_now().await;
        }
        let part = |(number, (object, blob)): (u16, (Object, Blob))| {
            let record = BlobRecord::decode(&object.attributes).map_err(|error| malformed(&object.name, error))?;
            Ok(Part { number: number.into(), size: object.size, attributes: record.attributes, blob })
        };
        found.into_iter().map(part).collect()
    }

    /// Uploads whose names begin with `names`, behind the name `from`.
    pub(super) async fn list_uploads(
        &self,
        names: &[u8],
        mut from: Option<Vec<u8>>,
        limit: usize,
    ) -> StoreResult<UploadListing> {
        let mut listing = UploadListing::default();
        loop {
            let page = self.store.list(names, from.as_deref(), PAGE).map_err(from_array)?;
            let Some(last) = page.last() else { return Ok(listing) };
            from = Some(last.name.to_vec());
            for object in page {
                let Some((key, id)) = names::split_upload(&object.name) else { continue };
                if self.purge.has_ended(&object.name) {
                    continue;
                }
                if listing.uploads.len() == limit {
                    listing.truncated = true;
                    return Ok(listing);
                }
                let record =
                    UploadRecord::decode(&object.attributes).map_err(|error| malformed(&object.name, error))?;
                listing.uploads.push(upload_info(key, id, record));
            }
            self.rt.yield_now().await;
        }
    }

    /// Makes parts of an upload the object and ends the upload.
    pub(super) async fn make_of_parts(
        self: &Rc<Self>,
        (bucket, key, id): (String, String, UploadId),
        attributes: Attributes,
        chosen: Chosen<Blob>,
    ) -> StoreResult<ObjectInfo> {
        let blobs = chosen.parts.iter().map(|part| (part.blob.number, part.blob.tag, part.size)).collect();
        let manifest = Manifest { multipart: true, owner: id.0, blobs };
        let record = ObjectRecord { attributes, manifest: Some(manifest) };
        let info = self.replace(&bucket, &key, Bytes::new(), record).await?;
        // The object is there: from here on the upload has ended, whatever becomes of its record.
        self.half_ended.borrow_mut().remove(&id.0);
        self.forget_ended(names::upload(&bucket, &key, id)).await;
        self.store.end_group(id.0);
        self.condemn(chosen.others.into_iter().map(|part| part.blob));
        Ok(info)
    }

    /// The completion of an upload failed, and may have happened.
    pub(super) fn half_ends(&self, id: u64) {
        self.half_ended.borrow_mut().insert(id);
    }

    /// Fails if the upload's parts may not change: an object may be made of them that is not known yet. (AO-UPL-3)
    pub(super) fn require_whole(&self, id: UploadId) -> StoreResult<()> {
        if !self.half_ended.borrow().contains(&id.0) {
            return Ok(());
        }
        let message =
            "the array failed while this upload was being completed: complete it again, or wait for a restart";
        Err(StoreError::new(StoreErrorKind::Device, message))
    }

    /// Ends uploads that were completed when the power failed (AO-UPL-1). Done before any call is served.
    pub(super) async fn settle_uploads(&self) -> StoreResult<()> {
        for bucket in self.names.all() {
            let names = names::uploads(&bucket.name, "");
            let mut from: Option<Bytes> = None;
            loop {
                let page = self.store.list(&names, from.as_deref(), PAGE).map_err(from_array)?;
                let Some(last) = page.last() else { break };
                from = Some(last.name.clone());
                for object in page {
                    let Some((key, id)) = names::split_upload(&object.name) else { continue };
                    let made = self.find_object(&bucket.name, key).ok().flatten();
                    let of_it = |(_, record): (Object, ObjectRecord)| {
                        record.manifest.is_some_and(|manifest| manifest.multipart && manifest.owner == id.0)
                    };
                    if made.is_some_and(of_it) {
                        self.store.delete(object.name.clone()).await.map_err(from_array)?;
                    }
                }
            }
        }
        Ok(())
    }
}
