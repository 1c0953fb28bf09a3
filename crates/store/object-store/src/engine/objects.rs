//! Putting and finding objects.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use shingle_buckets::{Attributes, Failed};
use shingle_chunk_store::Stream;
use shingle_runtime::memory::Reservation;
use shingle_store_api::{ObjectInfo, StoreResult};
use tokio::sync::OwnedSemaphorePermit;

use crate::client::direct::Begun;
use crate::drives::Class;
use crate::engine::Core;
use crate::engine::writers::BlobPin;
use crate::errors::{from_record, invalid};
use crate::files::Log;
use crate::format::{BlobRef, Body, Entry, HEADER_SIZE, Manifest, Sealed};
use crate::index::Space;
use crate::keys;
use crate::records::{Item, ObjectRecord};
use crate::wire::Input;

/// Bytes that a writer has written when it commits, and all that it holds for them.
pub(crate) struct Written {
    pub(crate) begun: Begun,
    /// Segments written so far.
    pub(crate) segments: u32,
    /// The rest, at most a segment.
    pub(crate) rest: Vec<Bytes>,
    /// Bytes in all.
    pub(crate) size: u64,
    /// The right to the blob.
    pub(crate) pin: BlobPin,
    /// Memory, and a share of the bytes on their way to the drives, for `rest`.
    pub(crate) _budget: (Option<Reservation>, OwnedSemaphorePermit),
}

impl Written {
    /// The blob it makes, as part `number`.
    pub(crate) fn blob(&self, number: u32) -> BlobRef {
        BlobRef { blob: self.begun.blob, number, segment_bytes: self.begun.segment_bytes, size: self.size }
    }

    /// The rest as the last segment; none if nothing is left.
    pub(crate) fn last_segment(&mut self) -> StoreResult<Option<Sealed>> {
        let rest = std::mem::take(&mut self.rest);
        if rest.iter().all(Bytes::is_empty) {
            return Ok(None);
        }
        let body = Body::Segment { blob: self.begun.blob, index: self.segments };
        sealed(self.begun.blob, body, rest).map(Some)
    }

    /// The commit is over: its blob is kept if that succeeded, or may have. Of one that may have, the next start finds out, and until then
    /// the segments stay.
    pub(crate) fn settle<T>(self, committed: &Result<T, Failed>) {
        if committed.as_ref().err().is_none_or(|failed| failed.may_have_happened) {
            self.pin.keep();
        }
    }
}

pub(crate) fn sealed(version: u64, body: Body, data: Vec<Bytes>) -> StoreResult<Sealed> {
    Sealed::new(Entry { version, body }, data).map_err(|error| invalid(error.to_string()))
}

impl Core {
    /// Inputs of a writer for a blob.
    pub(crate) async fn begin_blob(self: &Rc<Self>) -> Begun {
        self.learn_room().await;
        Begun { blob: self.next_number(), segment_bytes: self.tell_segment_bytes() }
    }

    /// The length of segments; callers are told once each drive has shown what its chunks take. (OS-DIRECT-2)
    pub(crate) fn tell_segment_bytes(&self) -> u32 {
        // A segment must fit the chunks of every drive, with the entry's header and head before it and, at the end of
        // an object, the commit behind it: GC may carry it to any of them.
        let drives = self.drives.borrow();
        let room = drives.iter().filter_map(|drive| drive.room).min().unwrap_or(u64::MAX);
        let most = room.saturating_sub((HEADER_SIZE + 16) as u64).max(1);
        let segment_bytes = (u64::from(self.options.segment_bytes).min(most) as u32).max(1);
        if drives.iter().all(|drive| drive.room.is_some()) {
            self.direct.segment_bytes.store(segment_bytes, Ordering::Release);
        }
        segment_bytes
    }

    /// Appends a whole segment.
    pub(crate) async fn put_segment(self: &Rc<Self>, blob: u64, index: u32, data: Vec<Bytes>) -> StoreResult<()> {
        let bytes: usize = data.iter().map(Bytes::len).sum();
        let sealed = sealed(blob, Body::Segment { blob, index }, data)?;
        let result = self.write(Class::User, vec![sealed]).await;
        self.segment_ended(blob);
        self.stats.borrow_mut().put_bytes += bytes as u64;
        Ok(result?)
    }

    /// Makes what a writer has written the object.
    pub(crate) async fn put_object(
        self: &Rc<Self>,
        bucket: String,
        key: String,
        attributes: Attributes,
        mut written: Written,
    ) -> StoreResult<ObjectInfo> {
        let put = self.try_put(bucket, key, attributes, &mut written).await;
        written.settle(&put);
        Ok(put?)
    }

    async fn try_put(
        self: &Rc<Self>,
        bucket: String,
        key: String,
        attributes: Attributes,
        written: &mut Written,
    ) -> Result<ObjectInfo, Failed> {
        let version = self.next_number();
        let info = attributes.clone().info(&key, version, written.size, Vec::new());
        let rest: usize = written.rest.iter().map(Bytes::len).sum();
        let put = Body::Put { bucket: bucket.clone(), key: key.clone(), attributes: attributes.clone() };
        let whole = sealed(version, put, written.rest.clone()).map_err(Failed::before)?;
        let entries = if written.segments == 0 && self.fits(whole.length()) {
            written.rest.clear();
            vec![whole]
        } else {
            let mut entries = Vec::new();
            let blob = written.blob(0);
            let last = written.last_segment().map_err(Failed::before)?;
            let manifest = Manifest { multipart: false, blobs: vec![blob] };
            let commit = Body::Commit { bucket, key, attributes, manifest };
            let commit = sealed(version, commit, Vec::new()).map_err(Failed::before)?;
            match last {
                Some(last) if self.fits(last.length() + commit.length()) => entries.push(last),
                // Nothing names it yet: if this fails nothing has happened.
                Some(last) => {
                    self.write(Class::User, vec![last]).await.map_err(|failed| Failed::before(failed.error))?;
                }
                None => {}
            }
            entries.push(commit);
            entries
        };
        self.write(Class::User, entries).await?;
        self.writer_done(written.begun.blob);
        let mut stats = self.stats.borrow_mut();
        stats.puts += 1;
        stats.put_bytes += rest as u64;
        Ok(info)
    }

    /// Begins a file on each drive of which it is not known yet how long an append its chunks take.
    async fn learn_room(self: &Rc<Self>) {
        let unknown: Vec<usize> = {
            let drives = self.drives.borrow();
            let unknown = |(_, drive): &(usize, &crate::drives::DriveState)| {
                drive.room.is_none() && !drive.is_bad(self.runtime.now()) && drive.is_creating(Stream::Data) == 0
            };
            drives.iter().enumerate().filter(unknown).map(|(number, _)| number).collect()
        };
        for number in unknown {
            // A drive that fails now may work later; its files then show what they take.
            let _ = self.create_file(number, Log::Clients).await;
        }
    }

    /// True if every drive's chunks take an append of `length`.
    pub(crate) fn fits(&self, length: u64) -> bool {
        self.drives.borrow().iter().all(|drive| drive.room.is_none_or(|room| length <= room))
    }

    /// The present version of an object.
    pub(crate) async fn find(&self, bucket: &str, key: &str) -> StoreResult<Option<(Item, ObjectRecord)>> {
        let key = keys::object(bucket, key);
        let found = match self.index.row(&key) {
            Some(row) => Some(row),
            None => self.read(move |index| index.get(Space::Objects, &key)).await?,
        };
        let Some(bytes) = found else { return Ok(None) };
        let item = Item::decode(&bytes).map_err(from_record)?;
        let record = ObjectRecord::decode(&item.payload).map_err(from_record)?;
        Ok(Some((item, record)))
    }

    /// The manifest of a large object's version; none if that version is gone.
    pub(crate) async fn manifest(&self, version: u64) -> StoreResult<Option<Manifest>> {
        let found = self.read(move |index| index.get(Space::Manifests, &keys::number(version))).await?;
        found.map(|bytes| Manifest::read(&mut Input::new(&bytes)).map_err(from_record)).transpose()
    }
}

/// The sizes of an object's parts, if it was uploaded in parts.
pub(crate) fn sizes_of(manifest: &Manifest) -> Vec<u64> {
    if manifest.multipart { manifest.blobs.iter().map(|blob| blob.size).collect() } else { Vec::new() }
}
