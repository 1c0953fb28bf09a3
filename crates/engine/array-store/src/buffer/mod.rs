//! The buffer of small objects on two mirrored files: an object is acknowledged when it is durable in both, and written to
//! segments later, many in one. (The coalescing buffer of SMORE, section III, on SSDs instead of battery-backed memory.)
//!
//! What is buffered has an entry in the index that names no zone set but [`BUFFER_SET`]; its bytes are kept in memory.
//! Writing it to a segment moves the entry, as cleaning does (CLEAN-1).
//!
//! # Invariants
//! - BUF-1: an acknowledged object is in both files, or in the one that is left, or in a segment. Before anything is acknowledged in
//!   one file alone, both of its heads and then a superblock name a new generation: a file of an earlier one does not count,
//!   also where it is all that is there.
//! - BUF-2: the ring is written over only where nothing is needed: each object there is in a segment, replaced or deleted, and
//!   a durable head says that the log begins behind it.
//! - BUF-3: a deletion of a name that the log has is acknowledged only when the log says so too: the tombstone may be
//!   gone before the object's record is.
//! - BUF-4: the superblock names the buffer, and the lowest generation of its files that counts, from before anything is acknowledged in it until it is known to be empty: the
//!   array is not opened without it meanwhile. Where both files fail, everything goes to segments, in a full array into what
//!   cleaning can spare, and the superblock names none from then on: what the files hold is not believed when they come back.
//! - BUF-6: nothing stays in the buffer alone for much longer than [`Options::buffer_time`](crate::Options::buffer_time), so
//!   that the loss of both files costs little.
//! - BUF-5: there is room in the log for a deletion of each object that it has: deleting works also when neither the log nor
//!   the drives take another object.

mod file;
mod flush;
mod reading;
mod replay;
mod ring;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_runtime::Instant;
use tokio::sync::{Mutex, Notify};

pub use file::{BufferFile, two_files};
pub(crate) use file::{open_file, open_to_read};
pub(crate) use replay::Attached;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{BufferName, Tombstone};
use crate::index::Change;
use crate::put::{InFlight, Progress};
use crate::stats::add;
use crate::types::{Completion, Part, PartPlace, SetId, Version};
use ring::{Cursor, DELETE_MAX, Entry, FileHead};
pub(crate) use ring::{Kind, RING_MAX, RING_MIN, entry, parse, walk};

/// In the index: the object is buffered.
pub(crate) const BUFFER_SET: SetId = SetId(u32::MAX);

/// How often an object waits for room before it goes to a segment without being buffered.
const WAITS: usize = 8;

/// Two files, of which either is enough.
#[derive(Clone)]
pub struct BufferFiles(pub [Rc<dyn BufferFile>; 2]);

/// An object that is not in a segment yet.
struct Held {
    name: Bytes,
    version: Version,
    completion: Completion,
    data: Bytes,
    /// The sequence of its record.
    sequence: u64,
    since: Instant,
}

/// A record from where the log begins on.
struct Live {
    at: Cursor,
    put: Option<(Bytes, Version)>,
}

/// The log's contents, beside their bytes.
#[derive(Default)]
struct Records {
    live: VecDeque<Live>,
    /// Versions that it has, and no deletion of behind them.
    puts: BTreeMap<Bytes, Vec<Version>>,
    /// Bytes that their deletions would take. (BUF-5)
    owed: u64,
}

/// Outcome of an append of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Appended {
    /// They are durable; the sequence of the first.
    At(u64),
    /// There was nothing to say any more.
    Nothing,
    /// There is no room: nothing was written.
    Full,
}

/// The buffer of an open array.
pub(crate) struct Buffer {
    files: [Rc<dyn BufferFile>; 2],
    /// Files that are written to.
    good: [Cell<bool>; 2],
    head: Cell<FileHead>,
    /// The generation that a durable superblock names.
    named: Cell<u64>,
    records: RefCell<Records>,
    /// Place of the next record.
    end: Cell<Cursor>,
    /// Objects by the stamps in their entries.
    held: RefCell<BTreeMap<u64, Held>>,
    /// The sequences of their records.
    needed: RefCell<BTreeSet<u64>>,
    bytes: Cell<usize>,
    /// Who writes to the files.
    writing: Mutex<()>,
    /// Who makes an end of the buffer, both of its files having failed.
    leaving: Mutex<()>,
    flushing: Cell<bool>,
    /// The last time.
    flush_failed: Cell<bool>,
    /// Room was won, or all was done.
    flushed: Notify,
}

/// Bytes of a deletion.
fn deletion_length(name: &Bytes) -> u64 {
    Entry::Delete { name: name.clone(), version: Version(0) }.length()
}

impl Records {
    fn push(&mut self, at: Cursor, entry: &Entry) {
        let put = match entry {
            Entry::Put { name, version, .. } => Some((name.clone(), *version)),
            Entry::Delete { .. } => None,
        };
        if let Some((name, version)) = &put {
            self.puts.entry(name.clone()).or_default().push(*version);
            self.owed += deletion_length(name);
        }
        self.live.push_back(Live { at, put });
    }

    /// Versions of a name for which that holds need no deletion any more.
    fn settle(&mut self, name: &Bytes, done: impl Fn(Version) -> bool) {
        let Some(versions) = self.puts.get_mut(name) else { return };
        let before = versions.len();
        versions.retain(|version| !done(*version));
        self.owed -= deletion_length(name) * (before - versions.len()) as u64;
        if versions.is_empty() {
            self.puts.remove(name);
        }
    }

    /// Every version up to that one is deleted.
    fn bury(&mut self, name: &Bytes, deleted: Version) {
        self.settle(name, |version| version <= deleted);
    }

    /// The log begins at that sequence.
    fn drop_before(&mut self, first: u64) {
        while let Some(Live { put, .. }) = self.live.pop_front_if(|live| live.at.sequence < first) {
            if let Some((name, gone)) = put {
                self.settle(&name, |version| version == gone);
            }
        }
    }
}

impl Buffer {
    /// The bytes of an object that an entry names.
    pub(crate) fn bytes_of(&self, stamp: u64) -> Option<Bytes> {
        self.held.borrow().get(&stamp).map(|held| held.data.clone())
    }

    /// No entry names it any more.
    pub(crate) fn release(&self, stamp: u64) {
        if let Some(held) = self.held.borrow_mut().remove(&stamp) {
            self.bytes.set(self.bytes.get() - held.data.len());
            self.needed.borrow_mut().remove(&held.sequence);
        }
    }

    /// Takes what is not in a segment out of the index.
    pub(crate) fn left(&self) -> Vec<Change> {
        let remove = |held: &Held| Change::RemoveVersion { name: held.name.clone(), version: held.version };
        self.held.borrow().values().map(remove).collect()
    }

    /// Bytes of objects that are not in a segment.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get() as u64
    }

    /// The log has no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.borrow().live.is_empty()
    }

    /// The log has a version up to that one, and no deletion of it.
    fn needs_burial(&self, name: &Bytes, deleted: Version) -> bool {
        self.records.borrow().puts.get(name).is_some_and(|all| all.iter().any(|one| *one <= deleted))
    }

    /// What the log has to be told of deletions: the newest of each name is enough.
    fn burials(&self, tombstones: &[Tombstone]) -> Vec<Entry> {
        let mut newest: BTreeMap<&Bytes, Version> = BTreeMap::new();
        for Tombstone { name, version } in tombstones {
            let known = newest.entry(name).or_default();
            *known = (*known).max(*version);
        }
        let needed = newest.into_iter().filter(|(name, version)| self.needs_burial(name, *version));
        needed.map(|(name, version)| Entry::Delete { name: name.clone(), version }).collect()
    }

    /// Some file can be written to.
    fn usable(&self) -> bool {
        self.good.iter().any(Cell::get)
    }

    /// Writes the same to all files that are good; goes on with one if the other fails, which the first then says. (BUF-1)
    async fn write(&self, pieces: &[(u64, Bytes)]) -> Result<()> {
        if !self.usable() {
            return Err(Error::new(ErrorKind::Device, "both of the buffer's files have failed"));
        }
        let writes = self.files.iter().zip(&self.good).map(|(file, good)| async move {
            for (offset, data) in pieces {
                if !good.get() {
                    return None;
                }
                if let Err(error) = file.write(*offset, data.clone()).await {
                    return Some(error);
                }
            }
            None
        });
        let mut failed = None;
        for (error, good) in join_all(writes).await.into_iter().zip(&self.good) {
            if let Some(error) = error {
                tracing::error!(%error, "a file of the buffer failed; going on with the other");
                good.set(false);
                failed = Some(error);
            }
        }
        let Some(error) = failed else { return Ok(()) };
        let broken = |error| Error::caused(ErrorKind::Device, "the buffer's files failed; nothing was stored", error);
        let Some((file, good)) = self.files.iter().zip(&self.good).find(|(_, good)| good.get()) else {
            return Err(broken(error));
        };
        self.leave_behind(file).await.map_err(|error| {
            good.set(false);
            broken(error)
        })
    }

    /// Begins a new generation in the file that is left: in both of its heads, so that losing one of them loses nothing. (BUF-1)
    async fn leave_behind(&self, left: &Rc<dyn BufferFile>) -> io::Result<()> {
        let head = self.head.get();
        let before = FileHead { generation: head.generation + 1, ..head };
        let after = write_heads(left, &before).await?;
        self.head.set(after);
        Ok(())
    }

    /// The next head, but for what it says anew.
    fn next_head(&self) -> FileHead {
        let head = self.head.get();
        FileHead { number: head.number + 1, ..head }
    }

    /// Places of these records, one behind the other, and of the next one behind them; `None` where there is no room.
    /// Deletions use what is kept for them, and nothing else does. (BUF-5)
    fn place(&self, entries: &[Entry]) -> Option<(Vec<Cursor>, Cursor)> {
        let (head, mut end) = (self.head.get(), self.end.get());
        let mut places = Vec::with_capacity(entries.len());
        for entry in entries {
            let at = end.fitting(entry.length(), head.ring);
            places.push(at);
            end = Cursor { position: at.position + entry.length(), sequence: at.sequence + 1, previous: 0 };
        }
        let puts = entries.iter().filter(|entry| matches!(entry, Entry::Put { .. }));
        let more: u64 = puts.map(|entry| deletion_length(entry.name())).sum();
        let kept = if more > 0 { more + self.records.borrow().owed + DELETE_MAX } else { 0 };
        (end.position + kept <= head.first.position + head.ring).then_some((places, end))
    }

    /// Appends the records that are wanted when it is their turn, durably.
    async fn append(&self, wanted: impl Fn() -> Vec<Entry>) -> Result<Appended> {
        let _turn = self.writing.lock().await;
        if self.place(&wanted()).is_none() {
            self.advance().await?;
        }
        // From here to their names nothing is waited for (BUF-3).
        let entries = wanted();
        if entries.is_empty() {
            return Ok(Appended::Nothing);
        }
        let Some((mut places, mut end)) = self.place(&entries) else { return Ok(Appended::Full) };
        let (head, first) = (self.head.get(), places[0].sequence);
        let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut behind = None;
        let mut previous = self.end.get().previous;
        for (entry, at) in entries.iter().zip(&mut places) {
            at.previous = previous;
            if behind != Some(at.position) {
                pieces.push((head.offset(at.position), Vec::new()));
            }
            behind = Some(at.position + entry.length());
            if let Some((_, out)) = pieces.last_mut() {
                previous = entry.encode(at, head.id, first, out);
            }
            if let Entry::Put { .. } = entry {
                self.records.borrow_mut().push(*at, entry);
            }
        }
        end.previous = previous;
        let pieces: Vec<_> = pieces.into_iter().map(|(offset, bytes)| (offset, Bytes::from(bytes))).collect();
        self.write(&pieces).await?;
        self.end.set(end);
        let mut records = self.records.borrow_mut();
        for (entry, at) in entries.iter().zip(&places) {
            if let Entry::Delete { name, version } = entry {
                records.push(*at, entry);
                records.bury(name, *version);
            }
        }
        Ok(Appended::At(first))
    }

    /// The log begins at the first record that is needed, or is empty. For the one who writes. (BUF-2)
    async fn advance(&self) -> Result<()> {
        let needed = self.needed.borrow().first().copied();
        let first = {
            let records = self.records.borrow();
            let first = records.live.iter().find(|live| needed.is_some_and(|needed| live.at.sequence >= needed));
            first.map(|live| live.at)
        };
        // An empty log takes the longest record at the start of the ring.
        let first = first.unwrap_or_else(|| self.end.get().at_the_start(self.head.get().ring));
        if first.sequence == self.head.get().first.sequence || !self.usable() {
            return Ok(());
        }
        let head = FileHead { first, ..self.next_head() };
        self.head.set(head);
        self.write(&[head.encode()]).await?;
        let mut records = self.records.borrow_mut();
        records.drop_before(first.sequence);
        if records.live.is_empty() {
            self.end.set(first);
        }
        self.flushed.notify_waiters();
        Ok(())
    }

    /// Wins the room of what is needed no more.
    async fn reclaim(&self) -> Result<()> {
        let _turn = self.writing.lock().await;
        self.advance().await
    }
}

/// Writes both heads of a file as those behind `before`, so that no older one is there. The last.
async fn write_heads(file: &Rc<dyn BufferFile>, before: &FileHead) -> io::Result<FileHead> {
    let mut last = *before;
    for _ in 0..2 {
        last.number += 1;
        let (offset, bytes) = last.encode();
        file.write(offset, bytes).await?;
    }
    Ok(last)
}

impl Engine {
    /// The buffer, if there is one that can be written to.
    pub(crate) fn usable_buffer(&self) -> Option<Rc<Buffer>> {
        self.buffer.borrow().clone().filter(|buffer| buffer.usable())
    }

    /// What superblocks say of the buffer from now on.
    pub(crate) fn buffer_name(&self) -> BufferName {
        let named = self.named_buffer.get();
        match &*self.buffer.borrow() {
            Some(buffer) if named.id != 0 => BufferName { generation: buffer.head.get().generation, ..named },
            _ => named,
        }
    }

    /// A durable superblock says that.
    pub(crate) fn buffer_is_named(&self, name: BufferName) {
        if let Some(buffer) = &*self.buffer.borrow() {
            buffer.named.set(name.generation);
        }
    }

    /// Appends to the log. Where one file was left behind, a superblock says so first: it is not believed alone. (BUF-1)
    async fn append_to_log(&self, buffer: &Rc<Buffer>, wanted: impl Fn() -> Vec<Entry>) -> Result<Appended> {
        let appended = buffer.append(wanted).await?;
        if buffer.named.get() < buffer.head.get().generation {
            self.write_superblock(None).await?;
        }
        Ok(appended)
    }

    /// Takes a whole object into the buffer: it is complete. `false` if there is no room, or no file left.
    pub(crate) async fn buffer_object(
        self: &Rc<Self>,
        buffer: &Rc<Buffer>,
        progress: &Rc<Progress>,
        data: &Bytes,
        completion: &Completion,
    ) -> Result<bool> {
        let _in_flight = InFlight::new(progress);
        let overtaken = || progress.overtaken.get();
        let (name, version) = (progress.name().clone(), progress.version);
        let entry = Entry::Put { name: name.clone(), version, completion: completion.clone(), data: data.clone() };
        // What was overtaken before its turn is not written: no deletion would know of it (BUF-3).
        let wanted = || if overtaken() { Vec::new() } else { vec![entry.clone()] };
        let sequence = match self.append_when_there_is_room(buffer, wanted).await {
            Ok(Appended::At(sequence)) => sequence,
            Ok(Appended::Nothing) => return Ok(true),
            Ok(Appended::Full) => return Ok(false),
            Err(_) if !buffer.usable() => {
                self.leave_soon(buffer);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        if overtaken() {
            return Ok(true);
        }
        let length = data.len() as u32;
        let part = Part { name, version, offset: 0, at: 0, length, completion: Some(completion.clone()) };
        let place = self.hold(buffer, sequence, &part, completion, data);
        add(&self.counters.ingested, u64::from(length));
        self.complete_at(vec![(progress, &part, place)])?;
        if self.index()?.part(&part.name, version, 0).map_err(Error::index)?.is_none_or(|found| found != place) {
            // It was overtaken: no entry names it.
            buffer.release(place.stamp);
        }
        if buffer.bytes.get() >= self.segment_length as usize {
            self.flush_soon(buffer, self.segment_length as usize);
        }
        Ok(true)
    }

    /// Appends to the log; where that is full, once some of it was written to segments: full ones, as its own would not be.
    async fn append_when_there_is_room(
        self: &Rc<Self>,
        buffer: &Rc<Buffer>,
        wanted: impl Fn() -> Vec<Entry>,
    ) -> Result<Appended> {
        for _ in 0..WAITS {
            let flushed = buffer.flushed.notified();
            let appended = self.append_to_log(buffer, &wanted).await?;
            // Of an empty log: it is longer than the ring.
            if appended != Appended::Full || buffer.is_empty() {
                return Ok(appended);
            }
            if !buffer.flushing.get() {
                self.flush_soon(buffer, 0);
            }
            flushed.await;
            if buffer.flush_failed.get() {
                break;
            }
        }
        Ok(Appended::Full)
    }

    /// Keeps the bytes of an object whose record has that sequence; the place that its entry names.
    fn hold(&self, buffer: &Buffer, sequence: u64, part: &Part, completion: &Completion, data: &Bytes) -> PartPlace {
        let stamp = self.stamps.next();
        let held = Held {
            name: part.name.clone(),
            version: part.version,
            completion: completion.clone(),
            data: data.clone(),
            sequence,
            since: self.rt.now(),
        };
        buffer.needed.borrow_mut().insert(sequence);
        buffer.held.borrow_mut().insert(stamp, held);
        buffer.bytes.set(buffer.bytes.get() + data.len());
        let length = data.len() as u32;
        PartPlace { set: BUFFER_SET, block: 0, stamp, segment_length: length, at: 0, length, last: true }
    }

    /// Says in the buffer's log what tombstones say on the drives. (BUF-3)
    pub(crate) async fn bury_buffered(self: &Rc<Self>, tombstones: &[Tombstone]) -> Result<()> {
        let Some(buffer) = self.buffer.borrow().clone() else { return Ok(()) };
        while !buffer.burials(tombstones).is_empty() {
            let said = match self.append_to_log(&buffer, || buffer.burials(tombstones)).await {
                // Only a log of a version that kept no room for it: with the buffer empty there is nothing to say.
                Ok(Appended::Full) => self.flush(&buffer, 0).await,
                said => said.map(drop),
            };
            match said {
                Err(_) if !buffer.usable() => self.leave(&buffer).await?,
                said => said?,
            }
        }
        Ok(())
    }

    /// The buffer's log may hold a version up to that one whose deletion it was not told of.
    pub(crate) fn may_come_back(&self, name: &Bytes, deleted: Version) -> bool {
        self.buffer.borrow().as_ref().is_some_and(|buffer| buffer.needs_burial(name, deleted))
    }

    /// Makes an end of a buffer whose files both failed. (BUF-4)
    async fn leave(self: &Rc<Self>, buffer: &Rc<Buffer>) -> Result<()> {
        let _one = buffer.leaving.lock().await;
        if buffer.is_empty() {
            return Ok(());
        }
        self.flush(buffer, 0).await?;
        self.named_buffer.set(BufferName::default());
        self.write_superblock(None).await?;
        // Only now: until then the next opening reads the files, should they be there again.
        buffer.records.take();
        tracing::error!("both files of the buffer failed: what they held is in segments; the array does without it");
        Ok(())
    }

    /// The same in a task of its own; if it fails, a deletion or the end tries again.
    fn leave_soon(self: &Rc<Self>, buffer: &Rc<Buffer>) {
        let (engine, buffer, busy) = (self.clone(), buffer.clone(), self.busy.begin());
        self.rt.spawn_detached(async move {
            if let Err(error) = engine.leave(&buffer).await {
                tracing::warn!(%error, "the buffer's files failed, and what they hold could not be written to segments yet");
            }
            drop(busy);
        });
    }
}
