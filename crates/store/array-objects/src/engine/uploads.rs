//! Uploads in parts.
//!
//! # Invariants
//! - AUP-1: an upload ends with the write of its object, or with its deletion, never with both: one that is found beside the
//!   object that was made of it, after a power cut between the two, has ended. That object is neither replaced nor deleted
//!   before the upload's record is gone. `settle_uploads`, `forget_upload`
//! - AUP-2: of the blobs that were written for one part, the one that was acknowledged last is the part, whichever was begun first. The
//!   newest version counts, and a version is as old as its beginning: so one is committed at a time, and newer ones are deleted
//!   before it is acknowledged. `commit_part`, `prevail`

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use shingle_array_store::Object;
use shingle_runtime::locks::Guard;
use shingle_store_api::{
    Commit, CompletedPart, Metadata, ObjectInfo, PartInfo, StoreError, StoreErrorKind, StoreResult, UploadId,
    UploadInfo, UploadListing,
};

use super::Core;
use super::counting::PAGE;
use crate::errors::{from_array, invalid, malformed};
use crate::format::{Attributes, BlobRecord, Manifest, ObjectRecord, UploadRecord};
use crate::names::{self, Blob};

/// Part numbers go to this.
const PARTS_MAX: u32 = 10_000;

/// A part of an upload.
struct Part {
    blob: Blob,
    size: u64,
    attributes: Attributes,
}

fn upload_info(key: &str, id: UploadId, record: UploadRecord) -> UploadInfo {
    UploadInfo {
        id,
        key: key.to_owned(),
        initiated_unix_ns: record.attributes.modified_unix_ns,
        metadata: record.attributes.metadata,
        class: None,
    }
}

fn part_number(number: u32) -> StoreResult<u16> {
    let number = u16::try_from(number).ok().filter(|number| (1..=PARTS_MAX).contains(&u32::from(*number)));
    number.ok_or_else(|| invalid(format!("part numbers go from 1 to {PARTS_MAX}")))
}

impl Core {
    pub(crate) async fn begin_upload(
        self: &Rc<Self>,
        bucket: String,
        key: String,
        metadata: Metadata,
    ) -> StoreResult<UploadInfo> {
        names::check(&bucket, &key)?;
        let _gate = self.gates.shared(bucket.clone().into_bytes()).await;
        self.require_bucket(&bucket)?;
        let attributes = Attributes { modified_unix_ns: self.now_unix_ns(), etag: String::new(), metadata };
        let (record, id) = (UploadRecord { attributes }, UploadId(self.fresh()?));
        let name = names::upload(&bucket, &key, id);
        self.store.put(name, Bytes::new(), record.encode()?).await.map_err(from_array)?;
        Ok(upload_info(&key, id, record))
    }

    /// The upload `id`, if it is of this key.
    fn require_upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreResult<UploadRecord> {
        self.require_bucket(bucket)?;
        let name = names::upload(bucket, key, id);
        if self.purge.has_ended(&name) {
            return Err(StoreError::no_upload(id));
        }
        // A key that could not be stored has no uploads.
        let found = names::check(bucket, key).and_then(|()| self.find(&name)).ok().flatten();
        let found = found.ok_or_else(|| StoreError::no_upload(id))?;
        UploadRecord::decode(&found.attributes).map_err(|error| malformed(&name, error))
    }

    pub(crate) fn upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreResult<UploadInfo> {
        Ok(upload_info(key, id, self.require_upload(bucket, key, id)?))
    }

    /// The part that a writer is to write.
    pub(crate) fn check_part(&self, bucket: &str, key: &str, id: UploadId, number: u32) -> StoreResult<(u64, u16)> {
        self.require_upload(bucket, key, id)?;
        Ok((id.0, part_number(number)?))
    }

    /// Makes a blob the part it was begun as.
    pub(crate) async fn commit_part(
        self: &Rc<Self>,
        (bucket, key, id): (String, String, UploadId),
        writer: u64,
        commit: Commit,
    ) -> StoreResult<ObjectInfo> {
        let _turn = self.uploads.shared(id.0.to_be_bytes().to_vec()).await;
        let _part = self.part_turn(writer).await?;
        self.require_upload(&bucket, &key, id)?;
        let attributes =
            Attributes { modified_unix_ns: self.now_unix_ns(), etag: commit.etag, metadata: commit.metadata };
        let record = BlobRecord { bucket, key, attributes };
        let (blob, size, version) = self.finish_blob(writer, record.encode()?).await?;
        self.prevail(blob, version).await?;
        let Attributes { modified_unix_ns, etag, metadata } = record.attributes;
        let part_sizes = Vec::new();
        Ok(ObjectInfo { key: String::new(), size, etag, modified_unix_ns, version, metadata, part_sizes, class: None })
    }

    /// Nobody else commits what was written for the same part. (AUP-2)
    async fn part_turn(&self, writer: u64) -> StoreResult<Guard> {
        let blob = self.blob_of(writer)?;
        // No upload's key is as long.
        Ok(self.uploads.exclusive(Blob::part_prefix(blob.owner, blob.number)).await)
    }

    /// Deletes all that was written for the part of `blob` but `blob`; what was begun later would count in its place, and has gone when
    /// this returns. (AUP-2)
    async fn prevail(&self, blob: Blob, version: u64) -> StoreResult<()> {
        let rivals = self.store.list(&Blob::part_prefix(blob.owner, blob.number), None, usize::MAX);
        let mut rivals = rivals.map_err(from_array)?;
        rivals.retain(|rival| rival.version.0 != version);
        // None of them is completed from here on, even if its deletion fails: that may have landed.
        self.condemn(rivals.iter().filter_map(|rival| Blob::of(&rival.name)));
        for newer in rivals.into_iter().filter(|rival| rival.version.0 > version) {
            self.store.delete(newer.name).await.map_err(from_array)?;
        }
        Ok(())
    }

    /// Parts of an upload with numbers above `after`, at most `limit`.
    async fn parts(&self, id: UploadId, after: u16, limit: usize) -> StoreResult<BTreeMap<u16, Part>> {
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
            Ok((number, Part { blob, size: object.size, attributes: record.attributes }))
        };
        found.into_iter().map(part).collect()
    }

    pub(crate) async fn list_parts(
        &self,
        (bucket, key): (String, String),
        id: UploadId,
        after: u32,
        limit: usize,
    ) -> StoreResult<(Vec<PartInfo>, bool)> {
        self.require_upload(&bucket, &key, id)?;
        let Ok(after) = u16::try_from(after) else { return Ok((Vec::new(), false)) };
        let found = self.parts(id, after, limit.saturating_add(1)).await?;
        let more = found.len() > limit;
        let info = |(number, part): (u16, Part)| PartInfo {
            number: number.into(),
            size: part.size,
            etag: part.attributes.etag,
            modified_unix_ns: part.attributes.modified_unix_ns,
            metadata: part.attributes.metadata,
        };
        Ok((found.into_iter().take(limit).map(info).collect(), more))
    }

    pub(crate) async fn list_uploads(
        &self,
        bucket: String,
        prefix: String,
        after: Option<(String, Option<UploadId>)>,
        limit: usize,
    ) -> StoreResult<UploadListing> {
        self.require_bucket(&bucket)?;
        let names = names::uploads(&bucket, &prefix);
        let mut from = after.map(|(key, id)| match id {
            Some(id) => names::upload(&bucket, &key, id),
            // After the key alone means after all its uploads.
            None => names::upload(&bucket, &key, UploadId(u64::MAX)),
        });
        let mut listing = UploadListing::default();
        loop {
            let page = self.store.list(&names, from.as_deref(), PAGE).map_err(from_array)?;
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

    /// Makes the named parts the object.
    pub(crate) async fn complete_upload(
        self: &Rc<Self>,
        (bucket, key): (String, String),
        id: UploadId,
        wanted: Vec<CompletedPart>,
        commit: Commit,
    ) -> StoreResult<ObjectInfo> {
        CompletedPart::check(&wanted)?;
        let _gate = self.gates.shared(bucket.clone().into_bytes()).await;
        self.require_bucket(&bucket)?;
        let _turn = self.keys.exclusive(names::object(&bucket, &key)).await;
        let _end = self.uploads.exclusive(id.0.to_be_bytes().to_vec()).await;
        let upload = self.require_upload(&bucket, &key, id)?;
        let mut have = self.parts(id, 0, usize::MAX).await?;
        let mut manifest = Manifest { multipart: true, owner: id.0, blobs: Vec::with_capacity(wanted.len()) };
        for (at, part) in wanted.iter().enumerate() {
            let number = u16::try_from(part.number).unwrap_or(0);
            let found = have.get(&number).filter(|found| found.attributes.etag == part.etag);
            let Some(Part { blob, size, .. }) = found else {
                let message = format!("part {} does not exist, or its ETag is another", part.number);
                return Err(StoreError::new(StoreErrorKind::InvalidPart, message));
            };
            if at + 1 < wanted.len() && *size < self.options.part_bytes_min {
                let message = format!("part {} has {size} bytes, too few", part.number);
                return Err(StoreError::new(StoreErrorKind::PartTooSmall, message));
            }
            manifest.blobs.push((blob.number, blob.tag, *size));
        }
        manifest.size().ok_or_else(|| StoreError::new(StoreErrorKind::TooLarge, "too many bytes"))?;
        let before = self.check_present(&bucket, &key, &commit.condition)?;
        let mut metadata = upload.attributes.metadata;
        metadata.extend(commit.metadata);
        let attributes = Attributes { modified_unix_ns: self.now_unix_ns(), etag: commit.etag, metadata };
        manifest.blobs.iter().for_each(|(number, ..)| drop(have.remove(number)));
        let record = ObjectRecord { attributes, manifest: Some(manifest) };
        let info = self.replace(&bucket, &key, before, Bytes::new(), record).await?;
        // The object is there: from here on the upload has ended, whatever becomes of its record.
        self.end_upload(names::upload(&bucket, &key, id)).await;
        self.store.end_group(id.0);
        self.condemn(have.into_values().map(|part| part.blob));
        Ok(info)
    }

    pub(crate) async fn abort_upload(self: &Rc<Self>, bucket: String, key: String, id: UploadId) -> StoreResult<()> {
        let _end = self.uploads.exclusive(id.0.to_be_bytes().to_vec()).await;
        self.require_upload(&bucket, &key, id)?;
        self.store.delete(names::upload(&bucket, &key, id)).await.map_err(from_array)?;
        self.store.end_group(id.0);
        self.condemn(self.parts(id, 0, usize::MAX).await?.into_values().map(|part| part.blob));
        Ok(())
    }

    /// Ends uploads that were completed when the power failed (AUP-1). Done before any call is served.
    pub(super) async fn settle_uploads(&self) -> StoreResult<()> {
        for bucket in self.list_buckets() {
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
