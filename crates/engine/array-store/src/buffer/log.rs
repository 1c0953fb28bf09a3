//! The log of an open buffer in its two files, and the objects that are in it alone.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_runtime::{Instant, Runtime};
use tokio::sync::{Mutex, Notify};

use super::file::BufferFile;
use super::ring::{Cursor, DELETE_MAX, Entry, FileHead};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Tombstone;
use crate::index::Change;
use crate::types::{Completion, SetId, Version};

/// In the index: the object is buffered.
pub(crate) const BUFFER_SET: SetId = SetId(u32::MAX);

/// An object that is not in a segment yet.
pub(super) struct Held {
    pub(super) name: Bytes,
    pub(super) version: Version,
    pub(super) completion: Completion,
    pub(super) data: Bytes,
    /// Keeps its record in the log.
    pub(super) needed: Needed,
    pub(super) since: Instant,
}

/// The sequences of records that are needed.
pub(super) type AllNeeded = Rc<RefCell<BTreeSet<u64>>>;

/// As long as this is there, the log begins no later than with a record. (AS-BUF-2)
pub(super) struct Needed {
    sequence: u64,
    all: AllNeeded,
}

impl Drop for Needed {
    fn drop(&mut self) {
        self.all.borrow_mut().remove(&self.sequence);
    }
}

/// A record from where the log begins on.
pub(super) struct Live {
    at: Cursor,
    put: Option<(Bytes, Version)>,
}

/// The log's contents, beside their bytes.
#[derive(Default)]
pub(super) struct Records {
    pub(super) live: VecDeque<Live>,
    /// Versions that it has, and no deletion of behind them.
    pub(super) puts: BTreeMap<Bytes, Vec<Version>>,
    /// Bytes that their deletions would take. (AS-BUF-5)
    pub(super) owed: u64,
}

/// Outcome of an append of records.
pub(super) enum Appended {
    /// They are durable, and the first is needed until somebody says that it is not.
    Durable(Needed),
    /// There was nothing to say any more.
    Nothing,
    /// There is no room: nothing was written.
    Full,
}

/// The buffer of an open array.
pub(crate) struct Buffer {
    pub(super) files: [Rc<dyn BufferFile>; 2],
    /// Files that are written to.
    pub(super) good: [Cell<bool>; 2],
    pub(super) head: Cell<FileHead>,
    pub(super) rt: Runtime,
    /// The generation that a durable superblock names.
    pub(super) named: Cell<u64>,
    pub(super) records: RefCell<Records>,
    /// Place of the next record.
    pub(super) end: Cell<Cursor>,
    /// Objects by the stamps in their entries.
    pub(super) held: RefCell<BTreeMap<u64, Held>>,
    /// Their records, and those that were appended and whose objects are not held yet.
    pub(super) needed: AllNeeded,
    pub(super) bytes: Cell<usize>,
    /// Held by the writer of the files.
    pub(super) writing: Mutex<()>,
    /// Held by the task that gives the buffer up, both of its files having failed.
    pub(super) leaving: Mutex<()>,
    pub(super) flushing: Cell<bool>,
    /// The last time.
    pub(super) flush_failed: Cell<bool>,
    /// Room was won, or all was done.
    pub(super) flushed: Notify,
}

/// Bytes of a deletion.
fn deletion_length(name: &Bytes) -> u64 {
    Entry::Delete { name: name.clone(), version: Version(0) }.length()
}

impl Records {
    pub(super) fn push(&mut self, at: Cursor, entry: &Entry) {
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
    pub(super) fn settle(&mut self, name: &Bytes, done: impl Fn(Version) -> bool) {
        let Some(versions) = self.puts.get_mut(name) else { return };
        let before = versions.len();
        versions.retain(|version| !done(*version));
        self.owed -= deletion_length(name) * (before - versions.len()) as u64;
        if versions.is_empty() {
            self.puts.remove(name);
        }
    }

    /// Every version up to that one is deleted.
    pub(super) fn bury(&mut self, name: &Bytes, deleted: Version) {
        self.settle(name, |version| version <= deleted);
    }

    /// The log begins at that sequence.
    pub(super) fn drop_before(&mut self, first: u64) {
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
        if let Some(Held { data, needed, .. }) = self.held.borrow_mut().remove(&stamp) {
            self.bytes.set(self.bytes.get() - data.len());
            drop(needed);
        }
    }

    /// Keeps the record of that sequence in the log.
    pub(super) fn need(&self, sequence: u64) -> Needed {
        self.needed.borrow_mut().insert(sequence);
        Needed { sequence, all: self.needed.clone() }
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
    pub(super) fn needs_burial(&self, name: &Bytes, deleted: Version) -> bool {
        self.records.borrow().puts.get(name).is_some_and(|all| all.iter().any(|one| *one <= deleted))
    }

    /// Deletions that the log has to learn of: the newest of each name is enough.
    pub(super) fn burials(&self, tombstones: &[Tombstone]) -> Vec<Entry> {
        let mut newest: BTreeMap<&Bytes, Version> = BTreeMap::new();
        for Tombstone { name, version } in tombstones {
            let known = newest.entry(name).or_default();
            *known = (*known).max(*version);
        }
        let needed = newest.into_iter().filter(|(name, version)| self.needs_burial(name, *version));
        needed.map(|(name, version)| Entry::Delete { name: name.clone(), version }).collect()
    }

    /// Some file can be written to.
    pub(super) fn usable(&self) -> bool {
        self.good.iter().any(Cell::get)
    }

    /// Writes the same to all files that are good; goes on with one if the other fails, which the first then says.
    /// (AS-BUF-1)
    pub(super) async fn write(&self, pieces: &[(u64, Bytes)]) -> Result<()> {
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

    /// Begins a new generation in the file that is left: in both of its heads, so that losing one of them loses
    /// nothing. (AS-BUF-1)
    pub(super) async fn leave_behind(&self, left: &Rc<dyn BufferFile>) -> io::Result<()> {
        let head = self.head.get();
        let before = FileHead { generation: self.next_generation(), ..head };
        let after = write_heads(left, &before).await?;
        self.head.set(after);
        Ok(())
    }

    /// A generation that no file has, also of those that are not there: heads have it before a superblock names it, and a power
    /// cut in between hides it from an opening without that file. No stamp: those may stand ahead of the clock, and each opening goes on from
    /// what it has seen of them. (AS-BUF-1)
    pub(super) fn next_generation(&self) -> u64 {
        self.rt.unix_time().nanos.max(self.head.get().generation + 1)
    }

    /// The next head, but for what it says anew.
    pub(super) fn next_head(&self) -> FileHead {
        let head = self.head.get();
        FileHead { number: head.number + 1, ..head }
    }

    /// Places of these records, one behind the other, and of the next one behind them; `None` where there is no room.
    /// Deletions use what is kept for them, and nothing else does. (AS-BUF-5)
    pub(super) fn place(&self, entries: &[Entry]) -> Option<(Vec<Cursor>, Cursor)> {
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
    pub(super) async fn append(&self, wanted: impl Fn() -> Vec<Entry>) -> Result<Appended> {
        let _turn = self.writing.lock().await;
        if self.place(&wanted()).is_none() {
            self.advance().await?;
        }
        // From here to their names nothing is waited for (AS-BUF-3).
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
        // In this turn: in the next one the log may go on behind it.
        Ok(Appended::Durable(self.need(first)))
    }

    /// The log begins at the first record that is needed, or is empty. For the one who writes. (AS-BUF-2)
    pub(super) async fn advance(&self) -> Result<()> {
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
    pub(super) async fn reclaim(&self) -> Result<()> {
        let _turn = self.writing.lock().await;
        self.advance().await
    }
}

/// Writes both heads of a file as those behind `before`, so that no older one is there. The last.
pub(super) async fn write_heads(file: &Rc<dyn BufferFile>, before: &FileHead) -> io::Result<FileHead> {
    let mut last = *before;
    for _ in 0..2 {
        last.number += 1;
        let (offset, bytes) = last.encode();
        file.write(offset, bytes).await?;
    }
    Ok(last)
}
