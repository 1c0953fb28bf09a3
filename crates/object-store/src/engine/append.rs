//! Appending entries to the log: which drive and file, and what happens when an append fails.
//!
//! # Invariants
//! - APP-1: a reservation and the append that uses it happen without an `await` between them, so that appends reach a
//!   chunk in the order of their offsets.
//! - APP-2: an append that failed is tried elsewhere only once its chunk is sealed and shown not to hold it.

use std::rc::Rc;

use bytes::Bytes;
use shingle_chunk_store::{ChunkClient, ErrorKind, Stream};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

use crate::drives::Class;
use crate::engine::Core;
use crate::errors::from_chunk;
use crate::files::{LogFile, Tail};
use crate::format::{ChunkName, Place, Sealed};
use crate::indexer::Command;
use crate::records::{FileRecord, Location, Position};

/// How often an append is tried before its error is passed on.
const TRIES: usize = 12;
/// A file with more than this on its way is busy: another is opened beside it.
const BUSY_BYTES: u64 = 1 << 20;
/// The least size of a file.
const FILE_BYTES_MIN: u64 = 64 << 10;
/// The largest default size of a file.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Entries that are durable but not yet in the index.
#[derive(Debug)]
pub(crate) struct Appended {
    pub(crate) locations: Vec<Location>,
    /// The reservation to settle with the commands that bring them into the index.
    pub(crate) settle: (u64, Position),
}

/// A reserved place.
struct Slot {
    client: ChunkClient,
    drive: usize,
    name: ChunkName,
    offset: u64,
    length: u64,
}

enum Reserved {
    Slot(Slot),
    /// A file must be created on this drive first.
    Create(usize),
    /// Files are being created or closed: wait.
    Wait,
    /// No drive takes this much.
    NoSpace,
    /// No drive works.
    NoDrive,
}

impl Core {
    /// Appends `entries`, in one piece, to a file of `stream`. They are durable when it returns.
    ///
    /// # Errors
    /// `NoSpace` if no drive takes them; `Device` or `Unavailable` if no drive works; `TooLarge` if no chunk takes them.
    /// Nothing was acknowledged; a drive that failed in the middle may hold them all the same.
    pub(crate) async fn append(
        self: &Rc<Self>,
        stream: Stream,
        class: Class,
        entries: &[Sealed],
    ) -> StoreResult<Appended> {
        let length: u64 = entries.iter().map(Sealed::length).sum();
        let mut last_error = None;
        for attempt in 0..TRIES {
            let slot = self.reserve(stream, class, length).await?;
            // No await up to the append's own (APP-1).
            let (locations, pieces) = self.place(&slot, entries);
            let id = slot.name.id();
            let answer = slot.client.append(id, slot.offset, pieces).await;
            let settle = (slot.name.file, Position { ordinal: slot.name.ordinal, offset: slot.offset });
            self.answered(&slot);
            let error = match answer {
                Ok(_) => {
                    self.count_append(entries.len(), length);
                    return Ok(Appended { locations, settle });
                }
                Err(error) => error,
            };
            tracing::debug!(%error, chunk = %id, attempt, "an append failed");
            self.stats.borrow_mut().append_retries += 1;
            let go_on = matches!(error.kind, ErrorKind::ChunkFull);
            if matches!(error.kind, ErrorKind::Device | ErrorKind::Corrupt | ErrorKind::Stopped) {
                let now = self.runtime.now();
                self.with_drive(slot.drive, |drive| drive.failed(now));
            }
            if error.kind == ErrorKind::NoSpace {
                self.refresh_drive(slot.drive).await;
            }
            let size = self.close_chunk(slot.name.file, slot.name.ordinal, go_on).await;
            // Where the drive failed in the middle the append may have landed: what is sealed into the chunk counts.
            if size.is_some_and(|size| size >= slot.offset + length) && may_have_landed(error.kind) {
                self.count_append(entries.len(), length);
                return Ok(Appended { locations, settle });
            }
            self.files.borrow_mut().settle(settle.0, settle.1);
            last_error = Some(error);
        }
        Err(last_error.map_or_else(|| StoreError::new(StoreErrorKind::Device, "no append succeeded"), from_chunk))
    }

    fn count_append(&self, entries: usize, bytes: u64) {
        let mut stats = self.stats.borrow_mut();
        stats.entries += entries as u64;
        stats.entry_bytes += bytes;
    }

    /// The entries' locations in `slot`, and their bytes.
    fn place(&self, slot: &Slot, entries: &[Sealed]) -> (Vec<Location>, Vec<Bytes>) {
        let mut offset = slot.offset;
        let mut pieces = Vec::new();
        let locations = entries.iter().map(|entry| {
            let place = Place { set: self.set, file: slot.name.file, ordinal: slot.name.ordinal, offset };
            entry.pieces(place, &mut pieces);
            offset += entry.length();
            entry.location(place)
        });
        (locations.collect(), pieces)
    }

    fn answered(&self, slot: &Slot) {
        if let Some(file) = self.files.borrow_mut().get_mut(slot.name.file) {
            file.outstanding = file.outstanding.saturating_sub(slot.length);
        }
    }

    /// Reserves a place for `length` bytes, creating files as needed.
    async fn reserve(self: &Rc<Self>, stream: Stream, class: Class, length: u64) -> StoreResult<Slot> {
        let mut refreshed = false;
        loop {
            self.working()?;
            // Registered before looking, so that a change in between is not missed.
            let changed = self.changed.notified();
            match self.try_reserve(stream, class, length) {
                Reserved::Slot(slot) => {
                    self.open_ahead(&slot, stream, class, length);
                    return Ok(slot);
                }
                Reserved::Create(drive) => self.create_file(drive, stream, length).await?,
                Reserved::Wait => changed.await,
                Reserved::NoDrive => {
                    return Err(StoreError::new(StoreErrorKind::Device, "no drive takes writes; see the log"));
                }
                Reserved::NoSpace if !refreshed => {
                    self.refresh_drives(true).await;
                    refreshed = true;
                }
                Reserved::NoSpace => {
                    // Object garbage is space, too: GC is asked for it before the write fails.
                    if class == Class::User && self.wait_for_gc().await {
                        refreshed = false;
                        continue;
                    }
                    self.stats.borrow_mut().no_space += 1;
                    return Err(StoreError::new(StoreErrorKind::NoSpace, "the drives are full"));
                }
            }
        }
    }

    /// Looks for a file that takes `length` bytes, on the drive with least to do.
    fn try_reserve(&self, stream: Stream, class: Class, length: u64) -> Reserved {
        let now = self.runtime.now();
        let mut files = self.files.borrow_mut();
        let mut drives = self.drives.borrow_mut();
        let mut best: Option<(u64, u64)> = None;
        let mut create: Option<(f64, usize)> = None;
        let (mut wait, mut works, mut too_long) = (false, false, false);
        for (number, drive) in drives.iter().enumerate() {
            if drive.is_bad(now) {
                continue;
            }
            if drive.room.is_some_and(|room| room < length) {
                too_long = true;
                continue;
            }
            works = true;
            if !drive.takes(class, length) {
                continue;
            }
            let limit = self.file_bytes(drive.stat().capacity_bytes, drive.room);
            let mut open = 0;
            for (file_number, file) in files.open(number, stream) {
                open += 1;
                let Some(tail) = file.appendable() else {
                    wait |= !file.collecting;
                    continue;
                };
                let fits = tail.room >= length && (file.size() + length <= limit || file.size() == 0);
                if fits && best.is_none_or(|(outstanding, _)| file.outstanding < outstanding) {
                    best = Some((file.outstanding, file_number));
                }
            }
            if drive.is_creating(stream) > 0 {
                wait = true;
            } else if open < self.options.files_open_max.max(1) + 1 {
                let score = drive.free_fraction();
                if create.is_none_or(|(other, _)| score > other) {
                    create = Some((score, number));
                }
            }
        }
        if let Some((_, number)) = best
            && let Some(file) = files.get_mut(number)
            && let (Some(drive), Some(tail)) = (file.drive, file.tail.as_mut())
        {
            let name = ChunkName { file: number, ordinal: tail.ordinal, stream, set: self.set };
            let offset = tail.next;
            tail.next += length;
            // Headers and footers take room, too; the chunk says when it is full.
            tail.room -= length;
            file.pending.insert(Position { ordinal: name.ordinal, offset });
            file.outstanding += length;
            drives[drive].wrote(length);
            let client = drives[drive].client.clone();
            return Reserved::Slot(Slot { client, drive, name, offset, length });
        }
        match create {
            Some((_, drive)) => Reserved::Create(drive),
            None if wait => Reserved::Wait,
            None if works => Reserved::NoSpace,
            None if too_long => Reserved::NoSpace,
            None => Reserved::NoDrive,
        }
    }

    /// A file's size limit on a drive of `capacity` bytes.
    pub(crate) fn file_bytes(&self, capacity: u64, room: Option<u64>) -> u64 {
        let least = room.unwrap_or(FILE_BYTES_MIN).min(FILE_BYTES_MIN);
        self.options.file_bytes.unwrap_or_else(|| (capacity / 256).clamp(least, FILE_BYTES_MAX))
    }
}
