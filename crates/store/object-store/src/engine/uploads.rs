//! Uploads in parts.
//!
//! # Invariants
//! - OS-UPL-1: of the parts that were sent for one number, the last that is acknowledged is the part (BK-PART-1). Versions tell which is newer,
//!   so a part takes its version when its turn comes. `put_part_of`

use std::rc::Rc;

use shingle_buckets::{Attributes, Chosen, Failed, Part};
use shingle_store_api::{ObjectInfo, StoreError, StoreErrorKind, StoreResult, UploadId, UploadInfo, UploadListing};

use crate::drives::Class;
use crate::engine::Core;
use crate::engine::objects::{Written, sealed};
use crate::format::{BlobRef, Body, Manifest};
use crate::index::{IndexResult, Space, Step, View};
use crate::indexer::spoilt;
use crate::keys;
use crate::records::{Item, PartRecord, UploadRecord};

fn upload_info(id: u64, record: UploadRecord) -> UploadInfo {
    UploadInfo {
        id: UploadId(id),
        key: record.key,
        initiated_unix_ns: record.attributes.modified_unix_ns,
        metadata: record.attributes.metadata,
        class: None,
    }
}

pub(crate) fn find_upload(view: &(impl View + ?Sized), upload: u64) -> IndexResult<Option<UploadRecord>> {
    let Some(bytes) = view.get(Space::Uploads, &keys::number(upload))? else { return Ok(None) };
    let item = Item::decode(&bytes).map_err(spoilt)?;
    UploadRecord::decode(&item.payload).map(Some).map_err(spoilt)
}

/// Uploads whose names begin with `prefix`, behind the name `after`.
pub(crate) fn list_uploads(
    view: &(impl View + ?Sized),
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> IndexResult<UploadListing> {
    let from = after.filter(|after| *after > prefix).unwrap_or(prefix);
    let mut ids = Vec::new();
    view.scan(Space::UploadNames, from, &mut |name, _| {
        if !name.starts_with(prefix) || ids.len() > limit {
            return Step::Stop;
        }
        if after.is_none_or(|after| name > after) {
            ids.extend(keys::upload_of_name(name));
        }
        Step::Next
    })?;
    let truncated = ids.len() > limit;
    let mut uploads = Vec::new();
    for id in ids.into_iter().take(limit) {
        // It may have ended since its name was read.
        if let Some(record) = find_upload(view, id)? {
            uploads.push(upload_info(id, record));
        }
    }
    Ok(UploadListing { uploads, truncated })
}

impl Core {
    /// Makes what a writer has written part `number` of the upload.
    pub(crate) async fn put_part_of(
        self: &Rc<Self>,
        id: UploadId,
        number: u32,
        attributes: Attributes,
        mut written: Written,
    ) -> StoreResult<ObjectInfo> {
        let put = self.try_put_part(id, number, attributes, &mut written).await;
        written.settle(&put);
        Ok(put?)
    }

    async fn try_put_part(
        self: &Rc<Self>,
        id: UploadId,
        number: u32,
        attributes: Attributes,
        written: &mut Written,
    ) -> Result<ObjectInfo, Failed> {
        let rest: usize = written.rest.iter().map(bytes::Bytes::len).sum();
        let part = written.blob(number);
        let last = written.last_segment().map_err(Failed::before)?;
        let version = self.next_number();
        let info = attributes.clone().info("", version, written.size, Vec::new());
        let commit = Body::PartCommit { upload: id.0, part, attributes };
        let commit = sealed(version, commit, Vec::new()).map_err(Failed::before)?;
        match last {
            Some(last) if self.fits(last.length() + commit.length()) => {
                self.write(Class::User, vec![last, commit]).await?;
            }
            Some(last) => {
                // Nothing names it yet: if this fails nothing has happened.
                self.write(Class::User, vec![last]).await.map_err(|failed| Failed::before(failed.error))?;
                self.write(Class::User, vec![commit]).await?;
            }
            None => self.write(Class::User, vec![commit]).await?,
        }
        self.writer_done(written.begun.blob);
        self.stats.borrow_mut().put_bytes += rest as u64;
        Ok(info)
    }

    /// Makes parts of an upload the object and ends the upload.
    pub(crate) async fn make_of_parts(
        self: &Rc<Self>,
        (bucket, key, id): (String, String, UploadId),
        attributes: Attributes,
        chosen: Chosen<BlobRef>,
    ) -> StoreResult<ObjectInfo> {
        let version = self.next_number();
        let info = attributes.clone().info(&key, version, chosen.size, chosen.sizes());
        let manifest = Manifest { multipart: true, blobs: chosen.parts.into_iter().map(|part| part.blob).collect() };
        // Together, so that there is never an object beside the upload it came from, nor neither of them.
        let end = self.next_number();
        let body = Body::Commit { bucket, key, attributes, manifest };
        let logged = self.log_all(Class::System, vec![(version, body), (end, Body::UploadEnd { upload: id.0 })]).await;
        if let Err(failed) = logged {
            if failed.may_have_happened {
                self.half_ended.borrow_mut().insert(id.0);
            }
            return Err(failed.error);
        }
        self.half_ended.borrow_mut().remove(&id.0);
        self.stats.borrow_mut().puts += 1;
        Ok(info)
    }

    /// Fails if the upload's parts may not change: an object may be made of them that is not known yet (OS-APP-3).
    pub(crate) fn require_whole(&self, id: UploadId) -> StoreResult<()> {
        if !self.half_ended.borrow().contains(&id.0) {
            return Ok(());
        }
        let message = "a drive failed while this upload was being completed: complete it again, or wait for a restart";
        Err(StoreError::new(StoreErrorKind::Device, message))
    }
}

/// Parts of an upload with numbers above `after`, at most `limit`.
pub(crate) fn parts(
    view: &(impl View + ?Sized),
    upload: u64,
    after: u32,
    limit: usize,
) -> IndexResult<Vec<Part<BlobRef>>> {
    let mut found = Vec::new();
    let mut bad = None;
    view.scan(Space::Parts, &keys::part(upload, after.saturating_add(1)), &mut |key, value| {
        if found.len() >= limit || keys::split_part(key).is_none_or(|(of, _)| of != upload) {
            return Step::Stop;
        }
        match PartRecord::decode(&value) {
            Ok(record) => found.push(record.into()),
            Err(error) => bad = Some(error),
        }
        if bad.is_none() { Step::Next } else { Step::Stop }
    })?;
    bad.map_or(Ok(found), |error| Err(spoilt(error)))
}

impl From<PartRecord> for Part<BlobRef> {
    fn from(PartRecord { part, attributes, .. }: PartRecord) -> Self {
        Self { number: part.number, size: part.size, attributes, blob: part }
    }
}
