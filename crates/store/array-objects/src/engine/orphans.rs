//! Blobs that no object names, found after opening: leftovers of a power cut or a failure, or objects that lost their records.
//!
//! A blob is durable before its object's record is, and goes after it. So in an array that lost nothing a blob that no
//! record names was never acknowledged, or was deleted: it goes. If an opening of the array lost something, a missing
//! record proves nothing about earlier writes: the blob stays, and since it names its bucket and key, it gets a record
//! again. With that done for all of them the loss is settled.
//!
//! # Invariants
//! - AO-ORPHAN-1: a blob is deleted only if it was written after the last opening of the array that lost anything, or a later version
//!   of its object is there that does not name it.
//! - AO-ORPHAN-2: the record that a blob gets never takes the place of one that is newer than the blob, and a part's never that of an
//!   object: nobody knows if its upload was completed. The upload is there again instead.
//! - AO-ORPHAN-3: what a client deletes while records are restored gets none, and from when the loss is settled no blob does: what was
//!   deleted by an acknowledged call then does not come back, however long its bytes take to go and whenever the power fails. No
//!   bucket is deleted before: not while they are looked for and restored, and where that failed, not before a restart has done it.
//!   `a_bucket_is_not_deleted_while_its_objects_are_looked_for`, `a_bucket_is_not_deleted_while_its_objects_could_not_be_restored`.
//! - AO-ORPHAN-4: nothing gets a record before all blobs were looked at: a record of some of an object's blobs would be newer than
//!   the others, and these would pass for replaced. `a_close_while_lost_objects_are_looked_for_restores_none_in_part`.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use shingle_array_store::{Object, Version};
use shingle_buckets::{Attributes, Catalog};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult, UploadId};

use super::counting::PAGE;
use super::{Core, size_of};
use crate::errors::from_array;
use crate::format::{BlobRecord, Manifest, ObjectRecord, UploadRecord};
use crate::names::{self, BLOB, Blob};

/// The object that blobs of an owner were looked up in.
struct Looked {
    owner: u64,
    /// The version of their key's object, and what it consists of, if it is of theirs.
    found: Option<(Version, Option<Manifest>)>,
}

/// Knowledge of a blob.
enum Fate {
    /// An object or an upload names it, or it cannot be told.
    Needed,
    /// It was replaced, or what names it was never acknowledged or was deleted.
    Leftover,
    /// Its record may have been lost.
    Lost(BlobRecord),
}

/// Blobs that an object consists of, by number: the newest version of each.
type Parts = BTreeMap<u16, (Object, Blob, Attributes)>;

/// Blobs that lost their record, by bucket and key, and by owner.
pub(super) type Lost = BTreeMap<(String, String), Owners>;

/// Blobs of one key, by owner.
pub(super) type Owners = BTreeMap<u64, Parts>;

/// Findings of a look at all blobs.
pub(super) enum Seen {
    /// Nobody needs it.
    Leftover(Blob),
    /// So many more were looked at.
    Looked(usize),
}

fn newest(parts: &Parts) -> Option<Version> {
    parts.values().map(|part| part.0.version).max()
}

/// They were uploaded in parts.
fn is_upload(parts: &Parts) -> bool {
    parts.keys().any(|number| *number > 0)
}

/// The sources of a key's new records, in order: the newest bytes that came whole, then uploads. Older bytes are replaced by these.
fn in_order(owners: Owners) -> impl Iterator<Item = (u64, Parts)> {
    let (uploads, wholes): (Vec<_>, Vec<_>) = owners.into_iter().partition(|(_, parts)| is_upload(parts));
    let whole = wholes.into_iter().max_by_key(|(_, parts)| newest(parts));
    whole.into_iter().chain(uploads.into_iter().rev())
}

/// The object's record that was lost, as far as its blobs tell.
fn record_of(owner: u64, parts: Parts, now_unix_ns: u64) -> ObjectRecord {
    let multipart = is_upload(&parts);
    let blobs: Vec<_> = parts.values().map(|(object, blob, _)| (blob.number, blob.tag, object.size)).collect();
    let mut attributes = parts.into_values().next().map(|(.., attributes)| attributes).unwrap_or_default();
    if multipart || attributes.etag.is_empty() {
        // The whole object's attributes are not in its parts.
        attributes.etag = format!("salvaged-{owner:x}-{}", blobs.len());
    }
    if attributes.modified_unix_ns == 0 {
        attributes.modified_unix_ns = now_unix_ns;
    }
    ObjectRecord { attributes, manifest: Some(Manifest { multipart, owner, blobs }) }
}

impl Core {
    /// Notes from now on what is deleted, if records may be restored. Done before any call is served. (AO-ORPHAN-3)
    pub(super) fn expect_restored(&self) -> StoreResult<()> {
        let lost = self.store.lost_before().map_err(from_array)?;
        self.deleted.replace(lost.map(|_| BTreeSet::new()));
        Ok(())
    }

    /// Fails while a bucket that seems empty may get objects again. (AO-ORPHAN-3)
    pub(super) fn none_comes_back(&self) -> StoreResult<()> {
        if self.deleted.borrow().is_none() && self.store.lost_before().map_err(from_array)?.is_none() {
            return Ok(());
        }
        let message = "objects whose records were lost are being looked for, and this bucket may have some: delete it when that is done, or \
                       after a restart if it failed";
        Err(StoreError::new(StoreErrorKind::Unavailable, message))
    }

    /// Looks at every blob that was there when the array was opened. Deletes those that nobody needs, and gives those that lost
    /// their records new ones.
    pub(super) async fn find_orphans(self: Rc<Self>) {
        let mut lost = Lost::new();
        let mut count = 0;
        let leftover = |seen| {
            if let Seen::Leftover(blob) = seen {
                self.condemn(std::iter::once(blob));
                count += 1;
            }
        };
        let looked = self.look_for_orphans(&mut lost, leftover).await;
        if let Err(error) = &looked {
            tracing::warn!(%error, "leftovers could not be looked for; the next opening does");
        }
        if count > 0 {
            tracing::info!(count, "leftovers of writes that never ended are deleted");
        }
        if !matches!(looked, Ok(true)) {
            // Of any key only a part may have been seen. (AO-ORPHAN-4)
            self.deleted.take();
            return;
        }
        let mut settled = true;
        for ((bucket, key), owners) in lost {
            if let Err(error) = self.restore(&bucket, &key, owners).await {
                tracing::error!(bucket, key, %error, "an object whose record was lost was not restored yet");
                settled = false;
            }
        }
        if settled && let Err(error) = self.settle_loss().await {
            tracing::warn!(%error, "that a loss is settled could not be written down; the next opening looks again");
        }
        self.deleted.take();
    }

    /// (AO-ORPHAN-3)
    async fn settle_loss(&self) -> StoreResult<()> {
        match self.store.lost_before().map_err(from_array)? {
            Some(_) => self.store.settle_loss().await.map_err(from_array),
            None => Ok(()),
        }
    }

    /// Looks at every blob that was there when the array was opened: which of them lost their records, and which nobody needs.
    /// `false` if the store is closed before the last.
    pub(super) async fn look_for_orphans(&self, lost: &mut Lost, mut tell: impl FnMut(Seen)) -> StoreResult<bool> {
        let mut after: Option<Bytes> = None;
        // Blobs written before it may lack their records.
        let lost_before = self.store.lost_before().map_err(from_array)?;
        while !self.closing.get() {
            let page = self.store.list(&[BLOB], after.as_deref(), PAGE).map_err(from_array)?;
            let Some(last) = page.last() else { return Ok(true) };
            after = Some(last.name.clone());
            let mut looked = None;
            tell(Seen::Looked(page.len()));
            for object in page {
                // Later ones belong to calls that know what becomes of them.
                if object.version >= self.opened {
                    continue;
                }
                let Some(blob) = Blob::of(&object.name) else { continue };
                match self.fate(&object, blob, lost_before, &mut looked)? {
                    Fate::Needed => {}
                    Fate::Leftover => tell(Seen::Leftover(blob)),
                    Fate::Lost(BlobRecord { bucket, key, attributes }) => {
                        let parts = lost.entry((bucket, key)).or_default().entry(blob.owner).or_default();
                        if parts.get(&blob.number).is_none_or(|(other, ..)| other.version < object.version) {
                            parts.insert(blob.number, (object, blob, attributes));
                        }
                    }
                }
            }
            self.rt.yield_now().await;
        }
        Ok(false)
    }

    /// Decides on a blob. It does not wait: its findings are true at this moment, and a blob that nobody needs is not
    /// needed later.
    fn fate(
        &self,
        object: &Object,
        blob: Blob,
        lost_before: Option<Version>,
        looked: &mut Option<Looked>,
    ) -> StoreResult<Fate> {
        // An unreadable record is better kept.
        let Ok(record) = BlobRecord::decode(&object.attributes) else { return Ok(Fate::Needed) };
        let (bucket, key) = (&record.bucket, &record.key);
        let upload = names::upload(bucket, key, UploadId(blob.owner));
        if blob.number > 0 && !self.purge.has_ended(&upload) && self.find(&upload)?.is_some() {
            let rivals = self.store.list(&Blob::part_prefix(blob.owner, blob.number), None, usize::MAX);
            let newest = rivals.map_err(from_array)?.iter().all(|rival| rival.version <= object.version);
            return Ok(if newest { Fate::Needed } else { Fate::Leftover });
        }
        if looked.as_ref().is_none_or(|looked| looked.owner != blob.owner) {
            let found = match self.find_object(bucket, key) {
                Ok(found) => found.map(|(object, record)| (object.version, record.manifest)),
                // An object whose record is spoilt may be mended by hand.
                Err(_) => return Ok(Fate::Needed),
            };
            let own = |manifest: &Manifest| manifest.owner == blob.owner;
            let found = found.map(|(version, manifest)| (version, manifest.filter(own)));
            *looked = Some(Looked { owner: blob.owner, found });
        }
        let present = looked.as_ref().and_then(|looked| looked.found.as_ref());
        let manifest = present.and_then(|(_, manifest)| manifest.as_ref());
        if manifest.is_some_and(|manifest| manifest.blobs().any(|named| named == blob)) {
            return Ok(Fate::Needed);
        }
        let replaced = present.is_some_and(|(version, _)| *version > object.version);
        let may_have_lost = lost_before.is_some_and(|lost| object.version < lost);
        Ok(if may_have_lost && !replaced { Fate::Lost(record) } else { Fate::Leftover })
    }

    /// Bytes that get a record again.
    pub(super) fn restorable(&self, bucket: &str, key: &str, owners: Owners) -> StoreResult<u64> {
        let present = self.find(&names::object(bucket, key))?.map(|object| object.version);
        let counts = in_order(owners).filter(|(_, parts)| is_upload(parts) || present < newest(parts));
        Ok(counts.flat_map(|(_, parts)| parts.into_values()).map(|(object, ..)| object.size).sum())
    }

    /// Gives a key's newest bytes a record again, and its bucket, if that was lost, too; parts that of an object only
    /// if nothing else is there. Returns the bytes that have one again. (AO-ORPHAN-2)
    pub(super) async fn restore(self: &Rc<Self>, bucket: &str, key: &str, owners: Owners) -> StoreResult<u64> {
        let name = names::object(bucket, key);
        let _gate = self.names.bucket(bucket).await;
        let _turn = self.names.key(bucket, key).await;
        if self.deleted.borrow().as_ref().is_some_and(|deleted| deleted.contains(&name)) {
            return Ok(0);
        }
        let mut present = self.find_object(bucket, key)?;
        let mut restored = 0;
        for (owner, mut parts) in in_order(owners) {
            let _end = self.names.upload(UploadId(owner)).await;
            // Blobs deleted while others were looked at. (AO-ORPHAN-3)
            let mut gone = Vec::new();
            for (number, (object, blob, _)) in &parts {
                if self.purge.is_going(blob) || self.find(&object.name)?.is_none() {
                    gone.push(*number);
                }
            }
            gone.iter().for_each(|number| drop(parts.remove(number)));
            if parts.is_empty() || self.find(&names::upload(bucket, key, UploadId(owner)))?.is_some() {
                continue;
            }
            let bytes: u64 = parts.values().map(|(object, ..)| object.size).sum();
            match &present {
                Some(_) if is_upload(&parts) => self.restore_upload(bucket, key, owner, &parts).await?,
                Some((object, _)) if Some(object.version) > newest(&parts) => continue,
                _ => present = Some(self.restore_object(bucket, key, (owner, parts), present.take()).await?),
            }
            restored += bytes;
        }
        Ok(restored)
    }

    async fn restore_bucket(self: &Rc<Self>, bucket: &str) -> StoreResult<()> {
        if self.names.require(bucket).is_err() {
            let created_unix_ns = self.now_unix_ns();
            self.make_bucket(bucket, created_unix_ns).await?;
            self.names.add(bucket, created_unix_ns);
        }
        Ok(())
    }

    /// Parts are those of an upload in progress again: it can be completed or aborted.
    async fn restore_upload(self: &Rc<Self>, bucket: &str, key: &str, owner: u64, parts: &Parts) -> StoreResult<()> {
        self.restore_bucket(bucket).await?;
        let began = parts.values().map(|(.., attributes)| attributes.modified_unix_ns).min().unwrap_or(0);
        let attributes = Attributes { modified_unix_ns: began, ..Attributes::default() };
        let name = names::upload(bucket, key, UploadId(owner));
        let record = UploadRecord { attributes }.encode()?;
        self.store.put(name, Bytes::new(), record).await.map_err(from_array)?;
        tracing::warn!(bucket, key, upload = owner, "an upload whose record was lost is in progress again");
        Ok(())
    }

    async fn restore_object(
        self: &Rc<Self>,
        bucket: &str,
        key: &str,
        (owner, parts): (u64, Parts),
        before: Option<(Object, ObjectRecord)>,
    ) -> StoreResult<(Object, ObjectRecord)> {
        self.restore_bucket(bucket).await?;
        let record = record_of(owner, parts, self.now_unix_ns());
        let name = Bytes::from(names::object(bucket, key));
        let stored = self.store.put(name.clone(), Bytes::new(), record.encode()?).await.map_err(from_array)?;
        let object = Object { name, version: stored.version, size: stored.size, attributes: Bytes::new() };
        let was = before.as_ref().map(|(object, record)| size_of(object, record));
        self.counts.change(&object.name, was, Some(size_of(&object, &record)));
        tracing::warn!(bucket, key, "an object whose record was lost was restored from its bytes");
        Ok((object, record))
    }
}
