//! Appending entries to the log, and what happens when an append fails. `reserve.rs` says where they go.
//!
//! # Invariants
//! - OS-APP-1: a reservation and the append that uses it happen without an `await` between them, so that appends reach a
//!   chunk in the order of their offsets.
//! - OS-APP-2: an append that failed is tried elsewhere only once its chunk is sealed and shown not to hold it, or else it
//!   is the same entries with the same versions.
//! - OS-APP-3: an append that may have landed, unknown to the index, is found by the next start, and what is acknowledged
//!   meanwhile is newer in the log: a delete leaves a grave also where the index knows of no object.
//!   `a_delete_after_a_put_that_may_have_landed_is_final`.
//! - OS-APP-4: a change that failed says whether any of it may be in the log ([`Failed`]): where nothing is, all stays as it was.
//!   `what_failed_before_anything_was_written_has_not_happened`.

use std::rc::Rc;

use bytes::Bytes;
use shingle_buckets::Failed;
use shingle_chunk_store::{ErrorKind, Stream};
use shingle_runtime::Instant;
use shingle_store_api::{StoreError, StoreErrorKind};

use crate::drives::Class;
use crate::drives::lateness;
use crate::engine::Core;
use crate::engine::reserve::AppendReservation;
use crate::errors::for_client;
use crate::files::{End, Log, LogFile, Tail};
use crate::format::{ChunkName, EntryPlace, Sealed};
use crate::indexer::Command;
use crate::records::{FileRecord, Location, Position};

/// Tries of an append before its error is passed on.
const TRIES: usize = 12;
/// Entries that are durable but not yet in the index.
#[derive(Debug)]
pub(crate) struct Appended {
    pub(crate) locations: Vec<Location>,
    /// The reservation to settle with the commands that bring them into the index.
    pub(crate) settle: (u64, Position),
}

impl Core {
    /// Appends `entries`, in one piece, to a file of `log`. They are durable when it returns.
    ///
    /// # Errors
    /// `NoSpace` if no drive takes them; `Device` or `Unavailable` if no drive works; `TooLarge` if no chunk takes them.
    /// Nothing was acknowledged; a drive that failed in the middle may hold them all the same, and the error says so.
    pub(crate) async fn append(
        self: &Rc<Self>,
        log: Log,
        class: Class,
        entries: &[Sealed],
    ) -> Result<Appended, Failed> {
        let length: u64 = entries.iter().map(Sealed::length).sum();
        self.writable().map_err(Failed::before)?;
        let (mut last_error, mut unsure) = (None, false);
        for attempt in 0..TRIES {
            let reserved = match self.reserve(log, class, length).await {
                Ok(reserved) => reserved,
                Err(error) if unsure => {
                    let message = "a drive failed in the middle";
                    return Err(Failed::in_doubt(StoreError::caused(StoreErrorKind::Device, message, error)));
                }
                Err(error) => return Err(Failed::before(error)),
            };
            // No await up to the append's own (OS-APP-1).
            let (locations, pieces) = self.place(&reserved, entries);
            let id = reserved.name.id();
            let (client, offset, began) = (reserved.client.clone(), reserved.offset, self.runtime.now());
            let answer = self.answer(reserved.drive, async move { client.append(id, offset, pieces).await }).await;
            self.compare(reserved.drive, began, answer.is_ok());
            let settle = (reserved.name.file, Position { ordinal: reserved.name.ordinal, offset: reserved.offset });
            self.answered(&reserved, answer.is_ok());
            let error = match answer {
                Ok(_) => {
                    self.drives.borrow_mut()[reserved.drive].took();
                    self.count_append(entries.len(), length);
                    return Ok(Appended { locations, settle });
                }
                Err(error) => error,
            };
            tracing::debug!(%error, chunk = %id, attempt, "an append failed");
            self.stats.borrow_mut().append_retries += 1;
            let broken = matches!(error.kind, ErrorKind::Device | ErrorKind::Corrupt | ErrorKind::Stopped);
            if broken {
                let now = self.runtime.now();
                self.drives.borrow_mut()[reserved.drive].failed(now);
            }
            let host_full = error.kind == ErrorKind::HostFull;
            if host_full {
                // Others may have room. If none has, the caller gets the error; each write asks the drives anew.
                let now = self.runtime.now();
                self.drives.borrow_mut()[reserved.drive].failed(now);
            }
            let full = error.kind == ErrorKind::NoSpace;
            if full {
                self.refresh_drive(reserved.drive).await;
            }
            let size =
                self.close_chunk(reserved.name.file, reserved.name.ordinal, !broken && !full && !host_full).await;
            // If the drive failed in the middle the append may have landed: bytes that are sealed into the chunk count.
            if broken && size.is_some_and(|size| size >= reserved.offset + length) {
                self.count_append(entries.len(), length);
                return Ok(Appended { locations, settle });
            }
            if broken && size.is_none() {
                // It may be there all the same, unknown to the index. Its place stays pending, so that the next start looks
                // there (OS-APP-3); until then no grave is forgotten.
                unsure = true;
                self.unsure.set(true);
                self.submit_ahead(vec![Command::KeepGraves]);
            } else {
                self.files.borrow_mut().settle(settle.0, settle.1);
            }
            last_error = Some(error);
            let now = self.runtime.now();
            if host_full && self.drives.borrow().iter().all(|drive| drive.is_bad(now)) {
                break;
            }
        }
        match last_error {
            Some(error) if !unsure => Err(Failed::before(for_client(error))),
            _ => Err(Failed::in_doubt(StoreError::new(StoreErrorKind::Device, "no append succeeded"))),
        }
    }

    /// An append to a drive has ended: is that slow, beside what the one in the middle of the others takes? (OS-SLOWD-1)
    fn compare(&self, drive: usize, began: Instant, good: bool) {
        let mut drives = self.drives.borrow_mut();
        let others = drives.iter().enumerate().filter(|(other, _)| *other != drive);
        let middle = lateness::middle(others.filter_map(|(_, other)| other.lateness.known()));
        if drives[drive].lateness.appended(began, good, middle, self.runtime.now()) {
            tracing::warn!(
                drive = self.options.name_of(drives[drive].store),
                "a drive appends far slower than others, which take its place for a while"
            );
        }
    }

    fn count_append(&self, entries: usize, bytes: u64) {
        let mut stats = self.stats.borrow_mut();
        stats.entries += entries as u64;
        stats.entry_bytes += bytes;
    }

    /// The entries' locations in the reserved place, and their bytes.
    fn place(&self, reserved: &AppendReservation, entries: &[Sealed]) -> (Vec<Location>, Vec<Bytes>) {
        let mut offset = reserved.offset;
        let mut pieces = Vec::new();
        let locations = entries.iter().map(|entry| {
            let place = EntryPlace { set: self.set, file: reserved.name.file, ordinal: reserved.name.ordinal, offset };
            entry.pieces(place, &mut pieces);
            offset += entry.length();
            entry.location(place)
        });
        (locations.collect(), pieces)
    }

    /// Begins a file on `drive`.
    pub(crate) async fn create_file(self: &Rc<Self>, drive: usize, log: Log) -> shingle_chunk_store::Result<()> {
        self.announce(drive, log.stream());
        self.create_announced(drive, log).await
    }

    pub(crate) fn announce(&self, drive: usize, stream: Stream) {
        *self.drives.borrow_mut()[drive].creating(stream) += 1;
    }

    pub(crate) async fn create_announced(self: &Rc<Self>, drive: usize, log: Log) -> shingle_chunk_store::Result<()> {
        let (number, stream) = (self.next_number(), log.stream());
        let name = ChunkName { file: number, ordinal: 0, stream, set: self.set };
        let created = self.create_chunk(drive, name).await;
        *self.drives.borrow_mut()[drive].creating(stream) -= 1;
        let result = created.map(|room| {
            let store = self.drives.borrow()[drive].store.0;
            let record = FileRecord { store, ..FileRecord::default() };
            let mut file = LogFile::new(Some(drive), stream, record);
            file.collector = log.collector();
            file.tail = Some(Tail { ordinal: 0, next: 0, room, rolling: false });
            self.files.borrow_mut().insert(number, file);
            self.submit_ahead(vec![Command::AddFile { file: number, store, first: 0 }]);
        });
        self.changed.notify_waiters();
        result
    }

    /// Creates a chunk, and returns what it takes.
    pub(crate) async fn create_chunk(
        self: &Rc<Self>,
        drive: usize,
        name: ChunkName,
    ) -> shingle_chunk_store::Result<u64> {
        let client = self.drives.borrow()[drive].client.clone();
        let made = async move {
            client.create(name.id(), name.stream).await?;
            Ok(client.stat(name.id()).await?.room)
        };
        let made: shingle_chunk_store::Result<u64> = self.answer(drive, made).await;
        let mut drives = self.drives.borrow_mut();
        match &made {
            // Metadata chunks have a limit of their own, and hold no entries.
            Ok(_) if name.stream == Stream::Meta => {}
            Ok(room) => {
                drives[drive].room = Some(drives[drive].room.unwrap_or(0).max(*room));
                drop(drives);
                self.tell_segment_bytes();
            }
            Err(error) => {
                // Of a full host the drive tells once, and of each change.
                if error.kind != ErrorKind::HostFull {
                    let drive = self.options.name_of(drives[drive].store);
                    tracing::warn!(%error, drive, "a chunk could not be created");
                }
                drives[drive].failed(self.runtime.now());
            }
        }
        made
    }

    /// Closes a chunk of a file, once, however many ask; the file goes on in a new chunk if `go_on`. Returns the
    /// chunk's final size, if the drive told it.
    pub(crate) async fn close_chunk(self: &Rc<Self>, number: u64, ordinal: u32, go_on: bool) -> Option<u64> {
        let (drive, stream, before) = loop {
            let changed = self.changed.notified();
            {
                let mut files = self.files.borrow_mut();
                let mut file = files.get_mut(number)?;
                if let Some(end) = file.closed.get(&ordinal) {
                    return end.sealed();
                }
                let before: u64 = file.closed.values().map(|end| end.most()).sum();
                let (drive, stream) = (file.drive?, file.stream);
                let tail = file.tail.as_mut().filter(|tail| tail.ordinal == ordinal)?;
                if !tail.rolling {
                    tail.rolling = true;
                    break (drive, stream, before);
                }
            }
            changed.await;
        };
        let name = ChunkName { file: number, ordinal, stream, set: self.set };
        let client = self.drives.borrow()[drive].client.clone();
        let sealed = self.answer(drive, async move { client.seal(name.id()).await }).await;
        if let Err(error) = &sealed {
            tracing::warn!(%error, "a chunk could not be sealed; nothing more is written to it");
        }
        let size = sealed.ok();
        let (limit, more) = {
            let drives = self.drives.borrow();
            (
                self.file_bytes(drives[drive].stat().capacity_bytes, drives[drive].room),
                size.is_some_and(|size| size > 0),
            )
        };
        let mut next_room = None;
        if go_on && more && before + size.unwrap_or(0) < limit {
            next_room = self.create_chunk(drive, ChunkName { ordinal: ordinal + 1, ..name }).await.ok();
        }
        {
            let mut files = self.files.borrow_mut();
            let reserved = files.get(number).and_then(|file| file.tail).map_or(0, |tail| tail.next);
            files.close_chunk(number, ordinal, size.map_or(End::Within(reserved), End::Sealed), next_room);
        }
        self.changed.notify_waiters();
        size
    }

    /// Asks all drives how full they are.
    pub(crate) async fn refresh_drives(&self) {
        let count = self.drives.borrow().len();
        futures_util::future::join_all((0..count).map(|number| self.refresh_drive(number))).await;
    }

    /// Asks drives whose figures are old, and waits for none: one that hangs must not hold up the others.
    pub(crate) fn refresh_ahead(self: &Rc<Self>) {
        let count = self.drives.borrow().len();
        for number in 0..count {
            let now = self.runtime.now();
            if self.drives.borrow_mut()[number].begin_refresh(now) {
                let core = self.clone();
                drop(self.runtime.spawn(async move { core.refresh_drive(number).await }));
            }
        }
    }

    async fn refresh_drive(&self, number: usize) {
        let client = self.drives.borrow()[number].client.clone();
        let stat = client.store_stat().await;
        let now = self.runtime.now();
        let overhead = {
            let drive = &mut self.drives.borrow_mut()[number];
            match stat {
                Ok(stat) => drive.set_stat(stat, now),
                Err(error) => {
                    drive.end_refresh();
                    tracing::warn!(%error, drive = self.options.name_of(drive.store), "a drive does not answer");
                    drive.failed(now);
                    0
                }
            }
        };
        if overhead > 0 {
            let (views, _) = self.views(Class::User, 0, |drive| !drive.is_bad(now));
            self.charge(views, number, overhead);
        }
    }
}
