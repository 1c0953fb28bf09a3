//! Opening the buffer: which of its files count, what is in them, and bringing the other one up to date.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use tokio::sync::{Mutex, Notify};

use super::file::BufferFiles;
use super::log::{AllNeeded, Buffer, Records, write_heads};
use super::reading::{Contents, contents};
use super::ring::{Cursor, Entry, FileHead, Kind, Log, Logged, parse, walk};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{BufferName, Tombstone};
use crate::index::{Change, PartKey};
use crate::types::{Part, Version};

/// Bytes that are made zeros behind the log of a file that joins; no record is shorter than its fixed part.
const ERASED: u64 = 64;

/// Records are written to a file that joins in runs of about this length.
const RUN: usize = 4 << 20;

const ABANDONED: &str = "the buffer was abandoned: what was acknowledged in it and is nowhere else is lost";

/// The buffer that an opening takes up.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// As the superblock has it.
    pub(crate) named: BufferName,
    /// Go on without it, or without some of it.
    pub(crate) abandon: bool,
    /// There may be a newer superblock that names another one.
    pub(crate) unseen: bool,
}

/// Outcome of taking up the buffer.
#[derive(Default)]
pub(crate) struct Attached {
    /// Files that were not there, or old, in words.
    pub(crate) notes: Vec<String>,
    /// Losses, in words.
    pub(crate) damage: Vec<String>,
    /// Deletions that the log does not know of.
    pub(crate) unsaid: Vec<Tombstone>,
}

/// A file as it was found.
struct Found {
    contents: Contents,
    head: FileHead,
}

impl Engine {
    /// Takes up the buffer that the superblock names (if its id is not 0), or a new one, and enters what it holds.
    /// Reading only, what its files hold is entered and they stay as they are.
    ///
    /// # Errors
    /// `Format` if objects may be in a buffer that is not given, or of which neither file is left, or some records
    /// cannot be read; or if a file is another array's buffer, with objects in it.
    pub(crate) async fn attach_buffer(self: &Rc<Self>, files: Option<BufferFiles>, wanted: Wanted) -> Result<Attached> {
        let Wanted { named, abandon, .. } = wanted;
        let lost = |what: &str| {
            let message = format!(
                "objects that were acknowledged wait in the array's buffer, and {what}: name the two files that it was used \
                 with last. Only if both are lost, have it abandoned (`shingle array snapshot --abandon-buffer`), and those \
                 objects with it"
            );
            Err(Error::new(ErrorKind::Format, message))
        };
        let BufferName { id, .. } = named;
        let Some(BufferFiles(files)) = files else {
            return match (id, abandon) {
                (0, _) => Ok(Attached::default()),
                (_, true) => Ok(Attached { damage: vec![ABANDONED.to_owned()], ..Attached::default() }),
                _ => lost("it was not named"),
            };
        };
        let mut found = Vec::new();
        for (file, which) in files.iter().zip(["first", "second"]) {
            found.push(self.look_at(&**file, which, &wanted).await?);
        }
        let is_old = |found: &Found| found.head.generation < named.generation;
        let old = found.iter().flatten().any(is_old);
        found.iter_mut().for_each(|found| drop(found.take_if(|found| is_old(found))));
        let newest = found.iter().flatten().max_by_key(|found| (found.head.generation, found.head.number));
        if newest.is_none() && id != 0 && !abandon {
            return lost(match old {
                true => {
                    "of the files that were named only an older copy is there, which lacks what was acknowledged since it failed or \
                     was away"
                }
                false => "neither of the files that were named holds it",
            });
        }
        // Of those that hold the same the newer head counts: what it leaves out is not needed, and may be written over.
        let head = newest.map_or_else(|| self.new_head(), |found| found.head);
        let raw = |found: &Option<Found>| {
            let found = found.as_ref().filter(|found| found.head.generation == head.generation);
            found.map(|found| found.contents.raw.clone()).unwrap_or_default()
        };
        let mut log = if newest.is_none() { Log::empty(&head) } else { walk(&head, &[raw(&found[0]), raw(&found[1])]) };
        let mut counted = found.iter().flatten().filter(|found| found.head.generation == head.generation).peekable();
        if counted.peek().is_some() && counted.all(|found| found.contents.hides(&head, &log.end)) {
            log.lost += 1;
        }
        if log.lost > 0 && !abandon && !self.options.read_only {
            return lost(&format!("{} of its records can be read in neither file", log.lost));
        }
        let mut records = Records::default();
        for logged in &log.records {
            records.push(logged.at, &logged.entry);
            if let Entry::Delete { name, version } = &logged.entry {
                records.bury(name, *version);
            }
        }
        let is_new = newest.is_none();
        let buffer = Buffer {
            good: [Cell::new(true), Cell::new(true)],
            head: Cell::new(head),
            rt: self.rt.clone(),
            named: Cell::new(named.generation),
            records: RefCell::new(records),
            end: Cell::new(log.end),
            held: RefCell::default(),
            needed: AllNeeded::default(),
            bytes: Cell::new(0),
            writing: Mutex::new(()),
            leaving: Mutex::new(()),
            flushing: Cell::new(false),
            flush_failed: Cell::new(false),
            flushed: Notify::new(),
            files,
        };
        let current =
            |found: &Option<Found>| found.as_ref().is_some_and(|found| found.head.generation == head.generation);
        let mut notes = Vec::new();
        if !is_new {
            let old = found.iter().zip(["first", "second"]).filter(|(found, _)| !current(found));
            let how = if self.options.read_only { "the other is read" } else { "it gets what the other holds" };
            notes.extend(old.map(|(_, which)| {
                format!("the buffer's {which} file was not there, cannot be read, or is not up to date: {how}")
            }));
        }
        let mut damage = Vec::new();
        if is_new && id != 0 {
            damage.push(ABANDONED.to_owned());
        }
        if log.lost > 0 {
            damage.push(format!(
                "{} records of the buffer can be read in neither file: what they said is lost",
                log.lost
            ));
        }
        if self.options.read_only {
            self.replay(&buffer, &log)?;
            self.buffering.buffer.replace(Some(Rc::new(buffer)));
            return Ok(Attached { notes, damage, unsaid: Vec::new() });
        }
        let own = [0, 1].map(|at| found[at].as_ref().filter(|found| found.head.generation == head.generation));
        buffer.bring_up_to_date(own, &log).await?;
        self.buffering.named.set(BufferName { id: head.id, generation: head.generation });
        let unsaid = self.replay(&buffer, &log)?;
        self.buffering.buffer.replace(Some(Rc::new(buffer)));
        Ok(Attached { notes, damage, unsaid })
    }

    /// Of a buffer that nothing was written to yet.
    fn new_head(&self) -> FileHead {
        FileHead {
            array: self.array,
            id: self.rt.random() | 1,
            generation: 1,
            number: 1,
            ring: u64::from(self.options.buffer_bytes),
            first: Cursor::START,
        }
    }

    async fn look_at(&self, file: &dyn super::file::BufferFile, which: &str, wanted: &Wanted) -> Result<Option<Found>> {
        let id = wanted.named.id;
        let contents = match contents(file).await {
            Ok(contents) => contents,
            Err(error) => {
                tracing::warn!(%error, "a file of the buffer cannot be read");
                return Ok(None);
            }
        };
        let foreign = |array| {
            let message = format!(
                "the buffer's {which} file belongs to array {array}, and objects may wait in it that are nowhere else: name a \
                 file of this array's own. If that array is no more, delete the file"
            );
            Err(Error::new(ErrorKind::Format, message))
        };
        let unnamed = || {
            let message = format!(
                "the buffer's {which} file has objects of this array, and the newest superblock that can be read does not name it: a \
                 newer one may, and they may be nowhere else. Bring the missing drives back. Only if they are lost, have what the \
                 file holds abandoned, too (`--abandon-buffer` beside `--accept-loss`)"
            );
            Err(Error::new(ErrorKind::Format, message))
        };
        match parse(&contents.raw) {
            Kind::None => Ok(None),
            Kind::Before(array) if array != self.array => foreign(array),
            Kind::Before(_) if id == 0 => Ok(None),
            Kind::Before(_) => {
                let message = format!(
                    "the buffer's {which} file has format version 01, which is not read any more: close the array in order with \
                     the version of Shingle that wrote it. If that cannot be, delete the file, and have the buffer abandoned \
                     (`shingle array snapshot --abandon-buffer`)"
                );
                Err(Error::new(ErrorKind::Format, message))
            }
            Kind::Buffer(head) if head.array != self.array => {
                let log = walk(&head, std::slice::from_ref(&contents.raw));
                if log.records.is_empty() { Ok(None) } else { foreign(head.array) }
            }
            Kind::Buffer(head) if id != 0 && head.id == id => Ok(Some(Found { contents, head })),
            // The newest superblock may name it. (AS-BUF-8)
            Kind::Buffer(head) if wanted.unseen && !wanted.abandon => {
                let log = walk(&head, std::slice::from_ref(&contents.raw));
                if log.records.is_empty() { Ok(None) } else { unnamed() }
            }
            Kind::Buffer(_) => Ok(None),
        }
    }

    /// Enters what the log holds and the drives have not. Tombstones of the drives that the log does not know of.
    fn replay(self: &Rc<Self>, buffer: &Buffer, log: &Log) -> Result<Vec<Tombstone>> {
        let found = self.buffering.found_tombstones.take();
        let unsaid = found.iter().filter(|(name, version)| buffer.needs_burial(name, **version));
        let unsaid = unsaid.map(|(name, version)| Tombstone { name: name.clone(), version: *version }).collect();
        let mut deleted: BTreeMap<Bytes, Version> = found;
        for logged in &log.records {
            if let Entry::Delete { name, version } = &logged.entry {
                let newest = deleted.entry(name.clone()).or_default();
                *newest = (*newest).max(*version);
            }
        }
        for Logged { entry, at, .. } in &log.records {
            let (Entry::Put { version, .. } | Entry::Delete { version, .. }) = entry;
            self.stamps.raise(version.0);
            let Entry::Put { name, version, completion, data } = entry else { continue };
            let newest = self.index()?.object(name).map_err(Error::index)?;
            let gone = deleted.get(name).is_some_and(|deleted| deleted >= version);
            if gone || newest.is_some_and(|newest| newest.version >= *version) {
                continue;
            }
            let length = data.len() as u32;
            let part = Part {
                name: name.clone(),
                version: *version,
                offset: 0,
                at: 0,
                length,
                completion: Some(completion.clone()),
            };
            let place = self.hold(buffer, buffer.need(at.sequence), &part, completion, data);
            let key = PartKey { name: name.clone(), version: *version, offset: 0 };
            let applied = self.index()?.apply(&[
                Change::Put { key, place, completion: Some(completion.clone()) },
                Change::RemoveOlder { name: name.clone(), version: *version },
            ]);
            for freed in applied.map_err(Error::index)?.freed {
                self.sets.remove_live(freed.set, u64::from(freed.length));
                buffer.release(freed.stamp);
            }
        }
        Ok(unsaid)
    }
}

impl Buffer {
    /// Makes both files hold the same; `own`: what those have that count. One that was missing joins in a new
    /// generation, which the other's head learns last: should it turn up again, old as it is, it is not believed.
    /// (AS-BUF-1)
    async fn bring_up_to_date(&self, own: [Option<&Found>; 2], log: &Log) -> Result<()> {
        let joins = own.map(|own| own.is_none());
        let any = joins != [false; 2];
        if any {
            let head = self.head.get();
            self.head.set(FileHead { generation: self.next_generation(), ..head });
        }
        let before = self.head.get();
        let [first, second] = joins;
        // The joining file comes first.
        for at in if second && !first { [1, 0] } else { [0, 1] } {
            let written = self.complete(at, joins[at], &own, log).await;
            let written = match written {
                Ok(()) if any => write_heads(&self.files[at], &before).await.map(drop),
                // A power cut came between the two files' heads: what the older one counts may be written over from now
                // on.
                Ok(()) if own[at].is_some_and(|own| own.head != before) => {
                    let (offset, bytes) = before.encode();
                    self.files[at].write(offset, bytes).await
                }
                // The process before may have been killed with its last write in a cache: this one is for what comes
                // with it. (AS-REC-6)
                Ok(()) => self.files[at].write(0, Bytes::new()).await,
                Err(error) => Err(error),
            };
            if let Err(error) = written {
                tracing::error!(%error, "a file of the buffer cannot be written to; going on with the other");
                self.good[at].set(false);
            }
        }
        if any {
            self.head.set(FileHead { number: before.number + 2, ..before });
        }
        let left = match self.good.each_ref().map(Cell::get) {
            [true, true] => return Ok(()),
            [true, false] => 0,
            [false, true] => 1,
            [false, false] => {
                return Err(Error::new(ErrorKind::Device, "neither file of the buffer can be written to"));
            }
        };
        // The other one is not believed any more.
        self.leave_behind(&self.files[left])
            .await
            .map_err(|error| Error::caused(ErrorKind::Device, "neither file of the buffer can be written to", error))
    }

    async fn write_run(&self, file: usize, (offset, bytes): (u64, Vec<u8>)) -> io::Result<()> {
        if bytes.is_empty() { Ok(()) } else { self.files[file].write(offset, bytes.into()).await }
    }

    /// Writes to a file the part of the log that it lacks. If it joins, no older record of it may come behind that.
    async fn complete(&self, file: usize, joins: bool, own: &[Option<&Found>; 2], log: &Log) -> io::Result<()> {
        let head = self.head.get();
        let mut run = (0, Vec::new());
        for logged in log.records.iter().filter(|logged| !logged.files.contains(&file)) {
            let (start, length) = (head.offset(logged.at.position), logged.entry.length());
            let range = start as usize..(start + length) as usize;
            let raw = logged.files.iter().find_map(|from| own[*from]?.contents.raw.get(range.clone()));
            let Some(raw) = raw else { continue };
            if run.0 + run.1.len() as u64 != start || run.1.len() >= RUN {
                self.write_run(file, std::mem::replace(&mut run, (start, Vec::new()))).await?;
            }
            run.1.extend_from_slice(raw);
        }
        self.write_run(file, run).await?;
        if !joins {
            return Ok(());
        }
        for at in [log.end, log.end.at_the_start(head.ring)] {
            let free = (head.first.position + head.ring).saturating_sub(at.position);
            let length = ERASED.min(free).min(head.ring - at.position % head.ring);
            if length > 0 {
                self.files[file].write(head.offset(at.position), vec![0; length as usize].into()).await?;
            }
        }
        Ok(())
    }
}
