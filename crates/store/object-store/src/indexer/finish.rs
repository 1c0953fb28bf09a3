//! Decisions left once recovery has applied every entry it found.

use std::collections::BTreeSet;

use super::Indexer;
use super::about::spoilt;
use super::transaction::Transaction;
use crate::index::{Batch, IndexResult, Space, Step};
use crate::keys::{self, Identity};
use crate::records::{BlobState, BucketRecord, Ghosts, Item, Location, ObjectRecord, PartRecord};
use crate::wire::Malformed;

/// Result of [`Indexer::finish_recovery`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finished {
    /// Blobs of writers and parts that nobody will commit.
    pub(crate) orphan_blobs: u64,
    /// Records of entries whose files are gone: they had been deleted after the index was backed up.
    pub(crate) forgotten: u64,
    /// Buckets made again because live objects name them.
    pub(crate) implied_buckets: Vec<String>,
    /// Objects of buckets that were deleted: remains of writes that were never acknowledged.
    pub(crate) strays: u64,
}

/// Extent of a recovery: its work, and the places it could see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The index was made again, from a backup or from nothing.
    pub(crate) rebuilt: bool,
    /// There may be entries that it has not seen.
    pub(crate) incomplete: bool,
    /// The index has a row of each loose blob. (OS-INX-7)
    pub(crate) lists_loose: bool,
}

/// Records handled in one batch.
const STEP: usize = 1000;

impl Indexer {
    /// Settles questions that single entries could not: writers died with the process, so open blobs are dead; parts
    /// without an upload are none. After a rebuild also records that a backup knew and files no longer have, and
    /// buckets that only their objects remember. If entries may be unseen nothing is taken for left over: they may need
    /// it.
    ///
    /// # Errors
    /// If the index fails.
    pub(crate) fn finish_recovery(&mut self, extent: Extent) -> IndexResult<Finished> {
        let mut finished = Finished::default();
        if extent.rebuilt {
            finished.forgotten = self.forget_vanished()?;
            (finished.implied_buckets, finished.strays) = self.settle_buckets(extent.incomplete)?;
        }
        let made = self.made.take().unwrap_or_default();
        for bucket in &made {
            finished.strays += self.drop_strays(bucket)?;
        }
        if !made.is_empty() {
            let changes = made.iter().map(|bucket| (Space::About, keys::made(bucket), None));
            self.index.apply(Batch { changes: changes.collect() })?;
        }
        if !extent.lists_loose {
            self.list_loose()?;
        }
        if extent.incomplete {
            return Ok(finished);
        }
        self.drop_parts_without_upload()?;
        self.each_loose(|transaction, blob, state| {
            if state == BlobState::Open {
                finished.orphan_blobs += 1;
                transaction.mark(blob, BlobState::Dead)?;
            }
            Ok(())
        })?;
        Ok(finished)
    }

    /// Makes the rows of loose blobs. (OS-INX-7)
    fn list_loose(&mut self) -> IndexResult<()> {
        self.each(Space::Blobs, |transaction, key, bytes| {
            let (state, blob) = (BlobState::decode(bytes).map_err(spoilt)?, keys::split_number(key));
            let blob = blob.ok_or_else(|| spoilt(Malformed("blob number")))?;
            if state.is_loose() {
                transaction.set_blob(blob, Some(state));
            }
            Ok(())
        })
    }

    /// Drops parts of uploads that are not there. Of each upload one part is read.
    fn drop_parts_without_upload(&mut self) -> IndexResult<()> {
        let mut from = Some(0);
        while let Some(first) = from.take() {
            let mut uploads = Vec::new();
            self.index.scan(Space::Parts, &keys::number(first), &mut |key, _| {
                let Some((upload, _)) = keys::split_part(key) else { return Step::Next };
                uploads.push(upload);
                from = upload.checked_add(1);
                match from {
                    Some(next) if uploads.len() < STEP => Step::Seek(keys::number(next)),
                    _ => Step::Stop,
                }
            })?;
            let mut transaction = self.begin();
            for upload in &uploads {
                if transaction.get(Space::Uploads, &Identity::Upload(*upload).key())?.is_none() {
                    transaction.drop_parts(*upload)?;
                }
            }
            let (batch, _, _) = transaction.finish();
            if !batch.changes.is_empty() {
                self.index.apply(batch)?;
            }
            if uploads.len() < STEP {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Blobs whose segments are still to be forgotten.
    pub(crate) fn dead_blobs(&mut self) -> IndexResult<Vec<u64>> {
        let mut dead = Vec::new();
        self.each_loose(|_, blob, state| {
            dead.extend((state == BlobState::Dead).then_some(blob));
            Ok(())
        })?;
        Ok(dead)
    }

    /// Visits the loose blobs, in bounded batches. (OS-INX-7)
    fn each_loose(
        &mut self,
        mut visit: impl FnMut(&mut Transaction<'_>, u64, BlobState) -> IndexResult<()>,
    ) -> IndexResult<()> {
        self.each_from(Space::About, keys::ABOUT_LOOSE, |transaction, key, _| {
            if !key.starts_with(keys::ABOUT_LOOSE) {
                return Ok(false);
            }
            let blob = keys::split_loose(key).ok_or_else(|| spoilt(Malformed("loose blob")))?;
            match transaction.blob(blob)? {
                Some(state) if state.is_loose() => visit(transaction, blob, state)?,
                // An earlier build, which does not know the rows, had the index meanwhile.
                _ => transaction.put(Space::About, key.to_vec(), None),
            }
            Ok(true)
        })
    }

    /// Visits every record of a space, in bounded batches.
    fn each(
        &mut self,
        space: Space,
        mut visit: impl FnMut(&mut Transaction<'_>, &[u8], &[u8]) -> IndexResult<()>,
    ) -> IndexResult<()> {
        self.each_from(space, b"", |transaction, key, value| visit(transaction, key, value).map(|()| true))
    }

    /// The same of those from a key on, until `visit` says that it was the last.
    fn each_from(
        &mut self,
        space: Space,
        from: &[u8],
        mut visit: impl FnMut(&mut Transaction<'_>, &[u8], &[u8]) -> IndexResult<bool>,
    ) -> IndexResult<()> {
        let (mut from, mut more) = (from.to_vec(), true);
        while more {
            let mut records = Vec::new();
            self.index.scan(space, &from, &mut |key, value| {
                records.push((key.to_vec(), value));
                if records.len() < STEP { Step::Next } else { Step::Stop }
            })?;
            let Some((last, _)) = records.last() else { return Ok(()) };
            from = [last.as_slice(), &[0]].concat();
            let mut transaction = self.begin();
            for (key, value) in &records {
                more = visit(&mut transaction, key, value)?;
                if !more {
                    break;
                }
            }
            let (batch, _, _) = transaction.finish();
            if !batch.changes.is_empty() {
                self.index.apply(batch)?;
            }
        }
        Ok(())
    }

    /// Removes records of entries in files that are gone.
    fn forget_vanished(&mut self) -> IndexResult<u64> {
        let mut forgotten = 0;
        for space in [Space::Objects, Space::Uploads, Space::Buckets, Space::Graves] {
            self.each(space, |transaction, key, bytes| {
                let item = Item::decode(&bytes::Bytes::copy_from_slice(bytes)).map_err(spoilt)?;
                if transaction.exists(&item.location) {
                    return Ok(());
                }
                forgotten += 1;
                let identity = match space {
                    Space::Objects => {
                        keys::split_object(key).map(|(b, k)| Identity::Object(b.to_owned(), k.to_owned()))
                    }
                    Space::Uploads => keys::split_number(key).map(Identity::Upload),
                    Space::Buckets => std::str::from_utf8(key).ok().map(|name| Identity::Bucket(name.to_owned())),
                    _ => None,
                };
                match identity {
                    Some(identity) => transaction.retire(&identity, &item, false),
                    None => {
                        transaction.dead(item.location, true);
                        transaction.put(space, key.to_vec(), None);
                        Ok(())
                    }
                }
            })?;
        }
        self.each(Space::Parts, |transaction, key, bytes| {
            let record = PartRecord::decode(bytes).map_err(spoilt)?;
            if !transaction.exists(&record.location) {
                forgotten += 1;
                transaction.drop_part(key.to_vec(), &record)?;
            }
            Ok(())
        })?;
        self.each(Space::Segments, |transaction, key, bytes| {
            let location = Location::decode(bytes).map_err(spoilt)?;
            if !transaction.exists(&location) {
                forgotten += 1;
                transaction.dead(location, false);
                transaction.put(Space::Segments, key.to_vec(), None);
            }
            Ok(())
        })?;
        Ok(forgotten)
    }

    /// Drops objects and uploads that are older than their bucket (OS-INX-5): its entry was found after theirs.
    fn drop_strays(&mut self, bucket: &str) -> IndexResult<u64> {
        let mut strays = 0;
        self.each_from(Space::Objects, &keys::object(bucket, ""), |transaction, key, bytes| {
            let Some((of, name)) = keys::split_object(key).filter(|(of, _)| *of == bucket) else { return Ok(false) };
            let item = Item::decode(&bytes::Bytes::copy_from_slice(bytes)).map_err(spoilt)?;
            if transaction.is_of_an_earlier_bucket(bucket, item.version, item.location)? {
                strays += 1;
                transaction.retire(&Identity::Object(of.to_owned(), name.to_owned()), &item, false)?;
            }
            Ok(true)
        })?;
        self.each_from(Space::UploadNames, &keys::upload_name_prefix(bucket, ""), |transaction, name, _| {
            let Some(upload) = keys::upload_of_name(name).filter(|_| name.starts_with(&keys::object(bucket, "")))
            else {
                return Ok(false);
            };
            let identity = Identity::Upload(upload);
            let Some(bytes) = transaction.get(Space::Uploads, &identity.key())? else { return Ok(true) };
            let item = Item::decode(&bytes).map_err(spoilt)?;
            if transaction.is_of_an_earlier_bucket(bucket, item.version, item.location)? {
                strays += 1;
                transaction.retire(&identity, &item, false)?;
                transaction.drop_parts(upload)?;
            }
            Ok(true)
        })?;
        Ok(strays)
    }

    /// A bucket's entry lies on one drive, its objects on all: if the entry is lost, the objects tell that the bucket
    /// was there. If the bucket was deleted after they were written, they are remains of writes that failed. If
    /// `incomplete`, they may belong to an object that is only not seen, and stay.
    fn settle_buckets(&mut self, incomplete: bool) -> IndexResult<(Vec<String>, u64)> {
        let mut known = BTreeSet::new();
        let (mut implied, mut strays) = (Vec::new(), 0);
        self.each(Space::Objects, |transaction, key, bytes| {
            let Some((bucket, name)) = keys::split_object(key) else { return Ok(()) };
            if known.contains(bucket) {
                return Ok(());
            }
            let identity = Identity::Bucket(bucket.to_owned());
            if transaction.get(Space::Buckets, &identity.key())?.is_some() {
                known.insert(bucket.to_owned());
                return Ok(());
            }
            let item = Item::decode(&bytes::Bytes::copy_from_slice(bytes)).map_err(spoilt)?;
            // Older than all that was ever in the bucket, for what is older than a bucket's creation does not count (OS-INX-5).
            let mut version = 0;
            if let Some(bytes) = transaction.get(Space::Graves, &identity.grave())? {
                let mut grave = Item::decode(&bytes).map_err(spoilt)?;
                if grave.version > item.version && incomplete {
                    return Ok(());
                }
                if grave.version > item.version {
                    strays += 1;
                    grave.ghosts.add(item.location.file);
                    grave.ghosts.add_all(&item.ghosts);
                    transaction.put(Space::Graves, identity.grave(), Some(grave.encode()));
                    return transaction.retire(&Identity::Object(bucket.to_owned(), name.to_owned()), &item, false);
                }
                version = grave.version;
                transaction.retire(&identity, &grave, true)?;
            }
            implied.push(bucket.to_owned());
            let record = ObjectRecord::decode(&item.payload).map_err(spoilt)?;
            let payload = BucketRecord { created_unix_ns: record.attributes.modified_unix_ns }.encode();
            // It has no entry of its own: it stands on an object's, whose length it must not count a second time.
            let location = Location { head: 0, data: 0, ..item.location };
            let made = Item { version, location, ghosts: Ghosts::default(), payload };
            transaction.put(Space::Buckets, identity.key(), Some(made.encode()));
            Ok(())
        })?;
        Ok((implied, strays))
    }
}
