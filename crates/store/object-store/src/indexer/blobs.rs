//! Blobs, their segments, and the parts of uploads.

use super::about::spoilt;
use super::transaction::Transaction;
use crate::index::{IndexResult, Space};
use crate::keys::{self, Identity};
use crate::records::{BlobState, Location, PartRecord};

impl Transaction<'_> {
    pub(super) fn blob(&self, blob: u64) -> IndexResult<Option<BlobState>> {
        let found = self.get(Space::Blobs, &keys::number(blob))?;
        found.map(|bytes| BlobState::decode(&bytes)).transpose().map_err(spoilt)
    }

    /// Writes down who needs a blob, or that nothing of it is left. (OS-INX-7)
    pub(super) fn set_blob(&mut self, blob: u64, state: Option<BlobState>) {
        let loose = state.is_some_and(BlobState::is_loose);
        self.put(Space::About, keys::loose(blob), loose.then(Vec::new));
        self.put(Space::Blobs, keys::number(blob), state.map(BlobState::encode));
    }

    /// Says who needs a blob.
    pub(super) fn mark(&mut self, blob: u64, state: BlobState) -> IndexResult<()> {
        self.set_blob(blob, Some(state));
        if state == BlobState::Dead {
            self.blob_died(blob);
        }
        Ok(())
    }

    /// Says that no part needs a blob; an object may. While there may be entries that nobody has seen, one of them may be
    /// that object: the segments then stay until an opening that sees all (OS-REC-4).
    fn mark_dead_part(&mut self, blob: u64) -> IndexResult<()> {
        match self.blob(blob)? {
            Some(BlobState::Object) => Ok(()),
            _ if *self.keep_graves => {
                self.set_blob(blob, Some(BlobState::Dead));
                Ok(())
            }
            _ => self.mark(blob, BlobState::Dead),
        }
    }

    /// A segment is durable at `location`.
    pub(super) fn segment(&mut self, blob: u64, index: u32, location: Location) -> IndexResult<()> {
        let key = keys::segment(blob, index);
        if let Some(bytes) = self.get(Space::Segments, &key)? {
            let present = Location::decode(&bytes).map_err(spoilt)?;
            if present == location || self.exists(&present) {
                return Ok(());
            }
            self.dead(present, false);
        }
        if self.blob(blob)?.is_none() {
            self.mark(blob, BlobState::Open)?;
        }
        self.live(location, false);
        self.put(Space::Segments, key, Some(location.encode()));
        Ok(())
    }

    pub(super) fn move_segment(&mut self, blob: u64, index: u32, from: Location, to: Location) -> IndexResult<()> {
        let key = keys::segment(blob, index);
        let Some(bytes) = self.get(Space::Segments, &key)? else { return Ok(()) };
        if Location::decode(&bytes).map_err(spoilt)? == from {
            self.dead(from, false);
            self.live(to, false);
            self.put(Space::Segments, key, Some(to.encode()));
        }
        Ok(())
    }

    /// A part is complete: it replaces an earlier one of its number.
    pub(super) fn part(&mut self, upload: u64, record: PartRecord) -> IndexResult<()> {
        if self.get(Space::Graves, &Identity::Upload(upload).grave())?.is_some() {
            return self.mark_dead_part(record.part.blob);
        }
        let key = keys::part(upload, record.part.number);
        if let Some(bytes) = self.get(Space::Parts, &key)? {
            let present = PartRecord::decode(&bytes).map_err(spoilt)?;
            if present.version > record.version {
                return self.mark_dead_part(record.part.blob);
            }
            if present.version == record.version && self.exists(&present.location) {
                return Ok(());
            }
            self.dead(present.location, false);
            if present.version < record.version {
                self.mark_dead_part(present.part.blob)?;
            }
        }
        self.live(record.location, false);
        self.put(Space::Parts, key, Some(record.encode()));
        if self.blob(record.part.blob)? != Some(BlobState::Object) {
            self.mark(record.part.blob, BlobState::Part)?;
        }
        Ok(())
    }

    /// The upload has ended: its parts are no parts any more. Those its object is made of stay as blobs.
    pub(super) fn drop_parts(&mut self, upload: u64) -> IndexResult<()> {
        for (key, bytes) in self.prefix(Space::Parts, &keys::number(upload), usize::MAX)? {
            let record = PartRecord::decode(&bytes).map_err(spoilt)?;
            self.drop_part(key, &record)?;
        }
        Ok(())
    }

    pub(super) fn drop_part(&mut self, key: Vec<u8>, record: &PartRecord) -> IndexResult<()> {
        self.dead(record.location, false);
        self.put(Space::Parts, key, None);
        self.mark_dead_part(record.part.blob)
    }

    /// A writer has given up its blob.
    pub(super) fn abandon(&mut self, blob: u64) -> IndexResult<()> {
        if self.blob(blob)? == Some(BlobState::Open) { self.mark(blob, BlobState::Dead) } else { Ok(()) }
    }

    /// Forgets segments of a dead blob, at most `limit`; whether there are more.
    pub(super) fn purge(&mut self, blob: u64, limit: usize) -> IndexResult<bool> {
        if self.blob(blob)? != Some(BlobState::Dead) {
            return Ok(false);
        }
        let segments = self.prefix(Space::Segments, &keys::number(blob), limit)?;
        let more = segments.len() == limit;
        for (key, bytes) in segments {
            let location = Location::decode(&bytes).map_err(spoilt)?;
            self.dead(location, false);
            self.put(Space::Segments, key, None);
        }
        if !more {
            self.set_blob(blob, None);
        }
        Ok(more)
    }
}
