//! Uploads in parts.
//!
//! # Invariants
//! - UPL-1: of the parts that were sent for one number, the last that is acknowledged is the part. Versions tell which is newer, so one is
//!   committed at a time, and takes its version when its turn comes. `commit_part`

use std::collections::BTreeMap;
use std::rc::Rc;

use shingle_store_api::{
    Commit, CompletedPart, Metadata, ObjectInfo, PartInfo, StoreError, StoreErrorKind, StoreResult, UploadId,
    UploadInfo, UploadListing,
};

use crate::drives::Class;
use crate::engine::objects::{Begun, Written, sealed};
use crate::engine::{Core, check_attributes, check_names, object_info};
use crate::errors::invalid;
use crate::format::{Attributes, Body, Manifest};
use crate::index::{IndexResult, Space, Step, View};
use crate::indexer::spoilt;
use crate::keys;
use crate::records::{Item, PartRecord, UploadRecord};

/// Part numbers go to this.
const PARTS_MAX: u32 = 10_000;

fn upload_info(id: u64, record: UploadRecord) -> UploadInfo {
    UploadInfo {
        id: UploadId(id),
        key: record.key,
        initiated_unix_ns: record.attributes.modified_unix_ns,
        metadata: record.attributes.metadata,
        class: None,
    }
}

fn find_upload(view: &(impl View + ?Sized), upload: u64) -> IndexResult<Option<UploadRecord>> {
    let Some(bytes) = view.get(Space::Uploads, &keys::number(upload))? else { return Ok(None) };
    let item = Item::decode(&bytes).map_err(spoilt)?;
    UploadRecord::decode(&item.payload).map(Some).map_err(spoilt)
}

impl Core {
    pub(crate) async fn begin_upload(
        self: &Rc<Self>,
        bucket: String,
        key: String,
        metadata: Metadata,
    ) -> StoreResult<UploadInfo> {
        self.working()?;
        check_names(&bucket, &key)?;
        let attributes = Attributes { modified_unix_ns: self.now_unix_ns(), etag: String::new(), metadata };
        check_attributes(&attributes)?;
        let _gate = self.gates.shared(bucket.clone().into_bytes()).await;
        self.require_bucket(&bucket)?;
        let id = self.next_number();
        let record = UploadRecord { bucket: bucket.clone(), key: key.clone(), attributes: attributes.clone() };
        self.log(Class::User, id, Body::UploadBegin { bucket, key, attributes }).await?;
        Ok(upload_info(id, record))
    }

    /// The upload `id`, if it is of this key.
    async fn require_upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreResult<UploadRecord> {
        self.require_bucket(bucket)?;
        let found = self.read(move |index| find_upload(index, id.0)).await?;
        found.filter(|record| record.bucket == bucket && record.key == key).ok_or_else(|| StoreError::no_upload(id))
    }

    pub(crate) async fn upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreResult<UploadInfo> {
        self.working()?;
        Ok(upload_info(id.0, self.require_upload(bucket, key, id).await?))
    }

    pub(crate) async fn begin_part(
        self: &Rc<Self>,
        bucket: &str,
        key: &str,
        id: UploadId,
        number: u32,
    ) -> StoreResult<Begun> {
        self.working()?;
        if number == 0 || number > PARTS_MAX {
            return Err(invalid(format!("part numbers go from 1 to {PARTS_MAX}")));
        }
        self.require_upload(bucket, key, id).await?;
        Ok(self.begin_blob().await)
    }

    /// Makes what a writer has written part `number` of the upload.
    pub(crate) async fn commit_part(
        self: &Rc<Self>,
        (bucket, key): (String, String),
        id: UploadId,
        number: u32,
        mut written: Written,
        commit: Commit,
    ) -> StoreResult<ObjectInfo> {
        self.working()?;
        let attributes =
            Attributes { modified_unix_ns: self.now_unix_ns(), etag: commit.etag, metadata: commit.metadata };
        check_attributes(&attributes)?;
        let _turn = self.uploads.shared(keys::number(id.0)).await;
        // No key of an upload is as long as a part's. (UPL-1)
        let _part = self.uploads.exclusive(keys::part(id.0, number)).await;
        self.require_upload(&bucket, &key, id).await?;
        self.require_whole(id)?;
        let rest: usize = written.rest.iter().map(bytes::Bytes::len).sum();
        let part = written.blob(number);
        let last = written.last_segment()?;
        let version = self.next_number();
        let info = object_info("", version, written.size, attributes.clone(), Vec::new());
        let commit = sealed(version, Body::PartCommit { upload: id.0, part, attributes }, Vec::new())?;
        match last {
            Some(last) if self.fits(last.length() + commit.length()) => {
                self.write(Class::User, vec![last, commit]).await?;
            }
            Some(last) => {
                self.write(Class::User, vec![last]).await?;
                self.write(Class::User, vec![commit]).await?;
            }
            None => self.write(Class::User, vec![commit]).await?,
        }
        self.writer_done(written.begun.blob);
        self.stats.borrow_mut().put_bytes += rest as u64;
        Ok(info)
    }

    pub(crate) async fn list_parts(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        after: u32,
        limit: usize,
    ) -> StoreResult<(Vec<PartInfo>, bool)> {
        self.working()?;
        self.require_upload(bucket, key, id).await?;
        let found = self.read(move |index| parts(index, id.0, after, limit.saturating_add(1))).await?;
        let more = found.len() > limit;
        let info = |record: PartRecord| PartInfo {
            number: record.part.number,
            size: record.part.size,
            etag: record.attributes.etag,
            modified_unix_ns: record.attributes.modified_unix_ns,
            metadata: record.attributes.metadata,
        };
        Ok((found.into_iter().take(limit).map(info).collect(), more))
    }

    pub(crate) async fn list_uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, Option<UploadId>)>,
        limit: usize,
    ) -> StoreResult<UploadListing> {
        self.working()?;
        self.require_bucket(bucket)?;
        let prefix = keys::upload_name_prefix(bucket, prefix);
        let after = after.map(|(key, id)| {
            // After the key alone means after all its uploads.
            keys::upload_name(bucket, &key, id.map_or(u64::MAX, |id| id.0))
        });
        let found = self.read(move |index| {
            let from = after.clone().filter(|after| *after > prefix).unwrap_or_else(|| prefix.clone());
            let mut ids = Vec::new();
            index.scan(Space::UploadNames, &from, &mut |name, _| {
                if !name.starts_with(&prefix) || ids.len() > limit {
                    return Step::Stop;
                }
                if after.as_deref().is_none_or(|after| name > after) {
                    ids.extend(keys::upload_of_name(name));
                }
                Step::Next
            })?;
            let truncated = ids.len() > limit;
            let mut uploads = Vec::new();
            for id in ids.into_iter().take(limit) {
                // It may have ended since its name was read.
                if let Some(record) = find_upload(index, id)? {
                    uploads.push(upload_info(id, record));
                }
            }
            Ok(UploadListing { uploads, truncated })
        });
        found.await
    }

    /// Makes the named parts the object.
    pub(crate) async fn complete_upload(
        self: &Rc<Self>,
        (bucket, key): (String, String),
        id: UploadId,
        wanted: Vec<CompletedPart>,
        commit: Commit,
    ) -> StoreResult<ObjectInfo> {
        self.working()?;
        CompletedPart::check(&wanted)?;
        let _gate = self.gates.shared(bucket.clone().into_bytes()).await;
        self.require_bucket(&bucket)?;
        let _turn = self.keys.exclusive(keys::object(&bucket, &key)).await;
        let _end = self.uploads.exclusive(keys::number(id.0)).await;
        let upload = self.require_upload(&bucket, &key, id).await?;
        let have = self.read(move |index| parts(index, id.0, 0, usize::MAX)).await?;
        let have: BTreeMap<u32, PartRecord> = have.into_iter().map(|record| (record.part.number, record)).collect();
        let mut manifest = Manifest { multipart: true, blobs: Vec::with_capacity(wanted.len()) };
        for (at, part) in wanted.iter().enumerate() {
            let record = have.get(&part.number).filter(|record| record.attributes.etag == part.etag);
            let Some(record) = record else {
                let message = format!("part {} does not exist, or its ETag is another", part.number);
                return Err(StoreError::new(StoreErrorKind::InvalidPart, message));
            };
            if at + 1 < wanted.len() && record.part.size < self.options.part_bytes_min {
                let message = format!("part {} has {} bytes, too few", part.number, record.part.size);
                return Err(StoreError::new(StoreErrorKind::PartTooSmall, message));
            }
            manifest.blobs.push(record.part);
        }
        self.check_present(&bucket, &key, &commit.condition).await?;
        let mut metadata = upload.attributes.metadata;
        metadata.extend(commit.metadata);
        let attributes = Attributes { modified_unix_ns: self.now_unix_ns(), etag: commit.etag, metadata };
        check_attributes(&attributes)?;
        let size = manifest.size().ok_or_else(|| StoreError::new(StoreErrorKind::TooLarge, "too many bytes"))?;
        let version = self.next_number();
        let sizes = manifest.blobs.iter().map(|blob| blob.size).collect();
        let info = object_info(&key, version, size, attributes.clone(), sizes);
        // Together, so that there is never an object beside the upload it came from, nor neither of them.
        let end = self.next_number();
        let body = Body::Commit { bucket, key, attributes, manifest };
        let logged = self.log_all(Class::System, vec![(version, body), (end, Body::UploadEnd { upload: id.0 })]).await;
        if let Err(error) = logged {
            if error.kind != StoreErrorKind::NoSpace {
                self.half_ended.borrow_mut().insert(id.0);
            }
            return Err(error);
        }
        self.half_ended.borrow_mut().remove(&id.0);
        self.stats.borrow_mut().puts += 1;
        Ok(info)
    }

    pub(crate) async fn abort_upload(self: &Rc<Self>, bucket: &str, key: &str, id: UploadId) -> StoreResult<()> {
        self.working()?;
        let _end = self.uploads.exclusive(keys::number(id.0)).await;
        self.require_upload(bucket, key, id).await?;
        self.require_whole(id)?;
        self.log(Class::System, self.next_number(), Body::UploadEnd { upload: id.0 }).await
    }

    /// That the upload's parts may change: an object may be made of them that nobody knows of yet (APP-3).
    fn require_whole(&self, id: UploadId) -> StoreResult<()> {
        if !self.half_ended.borrow().contains(&id.0) {
            return Ok(());
        }
        let message = "a drive failed while this upload was being completed: complete it again, or wait for a restart";
        Err(StoreError::new(StoreErrorKind::Device, message))
    }
}

/// Parts of an upload with numbers above `after`, at most `limit`.
fn parts(view: &(impl View + ?Sized), upload: u64, after: u32, limit: usize) -> IndexResult<Vec<PartRecord>> {
    let mut found = Vec::new();
    let mut bad = None;
    view.scan(Space::Parts, &keys::part(upload, after.saturating_add(1)), &mut |key, value| {
        if found.len() >= limit || keys::split_part(key).is_none_or(|(of, _)| of != upload) {
            return Step::Stop;
        }
        match PartRecord::decode(&value) {
            Ok(record) => found.push(record),
            Err(error) => bad = Some(error),
        }
        if bad.is_none() { Step::Next } else { Step::Stop }
    })?;
    bad.map_or(Ok(found), |error| Err(spoilt(error)))
}
