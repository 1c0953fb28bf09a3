//! An array as its users see it.

use std::rc::Rc;

use bytes::Bytes;

use crate::allocator::PutHints;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::format::DriveState;
pub(crate) use crate::given::ArrayDrive;
use crate::object::get::{Object, Reader, not_found};
use crate::object::own_names::OWN_NAMES_END;
use crate::object::put::{Put, Stored, check_name};
use crate::pace::slow_drives;
use crate::repair::scrub::{ScrubOptions, ScrubReport};
use crate::repair::told::{RebuildOptions, RebuildProgress};
use crate::types::{DriveId, SetId};

/// Fill level of an array, and its counters since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sets by state: empty, available, open, closed, indexed, index.
    pub sets: [usize; 6],
    /// Bytes of live data.
    pub live: u64,
    /// Bytes of data that all sets can hold.
    pub capacity: u64,
    /// Objects.
    pub objects: u64,
    /// Bytes that clients wrote.
    pub ingested: u64,
    /// Bytes that cleaning moved.
    pub moved: u64,
    /// Bytes that were computed from parity for readers.
    pub reconstructed: u64,
    /// Sets that cleaning emptied.
    pub cleaned: u64,
    /// Drives that belong to the array.
    pub drives: u64,
    /// Of them, those that are away or have failed.
    pub drives_missing: u64,
    /// Bytes of objects that are in the buffer only.
    pub buffered: u64,
    /// Drives that answer far later than their peers: what is on them is computed from others.
    pub drives_slow: u64,
    /// Reads of other fragments that were begun in the place of late ones.
    pub hedged: u64,
    /// Sets with fragments that failed readers and are yet to be verified.
    pub repairs_waiting: u64,
    /// Zones that were replaced, or whose sets were emptied, because of that.
    pub repaired: u64,
    /// Drives that were given up because they were slow for long.
    pub slow_given_up: u64,
}

/// An open array. Cheap to clone; stays on its thread.
#[derive(Clone)]
pub struct ArrayStore(pub(crate) Rc<Engine>);

impl ArrayStore {
    pub(crate) fn engine(&self) -> &Rc<Engine> {
        &self.0
    }

    /// Begins to write a version of an object. (SMORE, section III-F.1.)
    ///
    /// # Errors
    /// `Invalid` for a name that is empty or too long.
    pub fn begin_put(&self, name: impl Into<Bytes>) -> Result<Put> {
        self.begin_put_with(name, PutHints::default())
    }

    /// The same, where something is known of the object already: it is placed so that less is moved once it is deleted.
    ///
    /// # Errors
    /// As [`begin_put`](Self::begin_put).
    pub fn begin_put_with(&self, name: impl Into<Bytes>, hints: PutHints) -> Result<Put> {
        Put::begin(&self.0, name.into(), hints)
    }

    /// No more objects of a [group](PutHints::group) come.
    pub fn end_group(&self, group: u64) {
        self.0.allocator.end_group(group);
    }

    /// Writes an object that is in memory.
    ///
    /// # Errors
    /// As [`Put::write`] and [`Put::finish`].
    pub async fn put(&self, name: impl Into<Bytes>, data: Bytes, attributes: Bytes) -> Result<Stored> {
        let hints = PutHints { length: Some(data.len() as u64), group: None };
        let mut put = self.begin_put_with(name, hints)?;
        put.write(data).await?;
        put.finish(attributes).await
    }

    /// Opens an object's newest complete version.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn open_object(&self, name: impl Into<Bytes>) -> Result<Reader> {
        Reader::open(&self.0, &name.into())
    }

    /// Reads a whole object into memory.
    ///
    /// # Errors
    /// `NotFound`; as [`Reader::read`].
    pub async fn get(&self, name: impl Into<Bytes>) -> Result<Bytes> {
        let reader = self.open_object(name)?;
        let size = reader.object().size;
        let mut whole = Vec::new();
        while (whole.len() as u64) < size {
            let at = whole.len() as u64;
            whole.extend_from_slice(&reader.read(at, size - at).await?);
        }
        Ok(whole.into())
    }

    /// An object without its bytes.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn head(&self, name: &[u8]) -> Result<Object> {
        check_name(name)?;
        let found = self.0.index()?.object(name).map_err(Error::index)?;
        let Some(found) = found else { return Err(not_found(name)) };
        let crate::index::Object { version, size, attributes } = found;
        Ok(Object { name: Bytes::copy_from_slice(name), version, size, attributes })
    }

    /// Deletes every version of an object that began before now. `false` if there was none. (SMORE, section III-F.3.) `true` also where a put
    /// failed, and may have landed: that is deleted, too.
    ///
    /// **Durability:** durable when it returns.
    ///
    /// # Errors
    /// `Device`, `NoSpace` if not even room for a tombstone can be won.
    pub async fn delete(&self, name: impl Into<Bytes>) -> Result<bool> {
        let name = name.into();
        check_name(&name)?;
        self.0.delete(name).await
    }

    /// Names that begin with `prefix` and whose puts failed since the array was opened, and may have landed: the next opening may find these objects,
    /// unless they are [deleted](ArrayStore::delete).
    pub fn unsure(&self, prefix: &[u8]) -> Vec<Bytes> {
        self.0.unsure.with_prefix(prefix)
    }

    /// Objects whose names begin with `prefix`, after the name `after`, by name, at most `limit`.
    ///
    /// # Errors
    /// `Index`.
    pub fn list(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Object>> {
        // The array's own names come first, and are not shown.
        let after = after.max(prefix.is_empty().then_some(OWN_NAMES_END));
        let found = self.0.index()?.list(prefix, after, limit).map_err(Error::index)?;
        let object = |(name, object): (Bytes, crate::index::Object)| {
            let crate::index::Object { version, size, attributes } = object;
            Object { name, version, size, attributes }
        };
        Ok(found.into_iter().map(object).collect())
    }

    /// Takes a snapshot of the index; writers go on.
    ///
    /// # Errors
    /// `NoSpace`, `Device`: the snapshot before it is still there then.
    pub async fn snapshot(&self) -> Result<()> {
        self.0.take_snapshot().await
    }

    /// Collects up to `sets` sets, those first from which the most is won, with all cleaners at once. Returns their
    /// number.
    ///
    /// # Errors
    /// `Device`, `Corrupt`.
    pub async fn gc(&self, sets: usize) -> Result<usize> {
        self.0.collect_some(sets).await
    }

    /// Gives every set that lost a zone another one, as far as there are drives to take it: what it held is computed
    /// from its other zones. Drives that nothing is left of are taken out. (SMORE, section III-G.)
    ///
    /// **Durability:** what was rebuilt stays so; after a power cut a rebuild goes on a few sets back.
    ///
    /// # Errors
    /// `NoSpace`, `Corrupt`, `Device`: why nothing could be rebuilt. A part that could not is counted in the answer.
    pub async fn rebuild(
        &self,
        options: RebuildOptions,
        progress: impl FnMut(RebuildProgress),
    ) -> Result<RebuildProgress> {
        self.0.rebuild(options, progress).await
    }

    /// Reads and verifies everything on the drives that are there, and replaces damaged zones.
    ///
    /// # Errors
    /// `Stopped`; `Device` if the table of zone sets cannot be written. Damage is in the report.
    pub async fn scrub(&self, options: ScrubOptions, progress: impl FnMut(&ScrubReport)) -> Result<ScrubReport> {
        self.0.scrub(options, progress).await
    }

    /// A step of a scrub: verifies the first zone set behind `after` that holds something, and replaces its damaged
    /// zones. Its number, and a report that counts it and those behind it as `sets`; `None` behind the last one.
    ///
    /// # Errors
    /// As [`ArrayStore::scrub`].
    pub async fn scrub_next(&self, after: Option<SetId>) -> Result<Option<(SetId, ScrubReport)>> {
        self.0.scrub_next(after).await
    }

    /// Adds a drive; what it held is lost.
    ///
    /// **Durability:** it is a part of the array when this returns.
    ///
    /// # Errors
    /// `Invalid` if it is too small or there are too many; `Device`.
    pub async fn add_drive(&self, drive: &ArrayDrive) -> Result<DriveId> {
        self.0.add_drive(drive).await
    }

    /// Takes a drive out, present or not: its data goes to others first. If that stops in between, moved data stays
    /// moved.
    ///
    /// # Errors
    /// `Invalid` if too few drives would be left; `NoSpace` if they have too little room; as [`ArrayStore::rebuild`].
    pub async fn remove_drive(
        &self,
        drive: DriveId,
        options: RebuildOptions,
        progress: impl FnMut(RebuildProgress),
    ) -> Result<RebuildProgress> {
        self.0.remove_drive(drive, options, progress).await
    }

    /// Fill level of the array, and its counters.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn stats(&self) -> Result<Stats> {
        let (repairs_waiting, repaired, slow_given_up) = self.0.repairs.figures();
        let mut stats = Stats {
            hedged: self.0.paces.extra(),
            drives_slow: slow_drives(&self.0.slow_drives()) as u64,
            repairs_waiting,
            repaired,
            slow_given_up,
            objects: self.0.objects()?,
            ingested: self.0.counters.ingested.get(),
            moved: self.0.counters.moved.get(),
            reconstructed: self.0.counters.reconstructed.get(),
            cleaned: self.0.counters.cleaned.get(),
            buffered: self.0.buffering.buffer.borrow().as_ref().map_or(0, |buffer| buffer.bytes()),
            ..Stats::default()
        };
        for (entry, id) in self.0.drives.entries().iter().zip(self.0.drives.ids()) {
            if entry.state != DriveState::Removed {
                stats.drives += 1;
                stats.drives_missing += u64::from(self.0.drives.usable(id).is_none());
            }
        }
        stats.sets = self.0.sets.by_state();
        (stats.live, stats.capacity) = self.0.sets.bytes();
        Ok(stats)
    }

    /// Ends what is under way and leaves the index so that it is believed next time. Versions that are being written are
    /// given up.
    ///
    /// # Errors
    /// `Device`, `Index`: the index is built anew next time.
    pub async fn close(self) -> Result<()> {
        self.0.close().await
    }
}
