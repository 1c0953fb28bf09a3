//! The buffer of small objects on two mirrored files: an object is acknowledged when it is durable in both, and written to
//! segments later, many in one. (The coalescing buffer of SMORE, section III, on SSDs instead of battery-backed memory.)
//!
//! What is buffered has an entry in the index that names no zone set but [`BUFFER_SET`]; its bytes are kept in memory.
//! Writing it to a segment moves the entry, as cleaning does (CLEAN-1).
//!
//! # Invariants
//! - BUF-1: an acknowledged object is in both files, or in the one that is left, whose generation says so; or in a segment.
//! - BUF-2: an area is emptied only when nothing in it is needed: each object in it is in a segment, replaced or deleted.
//! - BUF-3: a deletion of a name that an area has is acknowledged only when the log says so too: the tombstone may be
//!   gone before the area is.
//! - BUF-4: the superblock names the buffer from before anything is acknowledged in it until it is known to be empty: the
//!   array is not opened without it meanwhile. Where both files fail, everything goes to segments, in a full array into what
//!   cleaning can spare, and the superblock names none from then on: what the files hold is not believed when they come back.
//! - BUF-5: there is room in the log for a deletion of each object that it has: deleting works also when neither the log nor
//!   the drives take another object.

mod file;
mod flush;
mod log;
mod replay;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{Mutex, Notify};

pub use file::{BufferFile, two_files};
pub(crate) use file::{open_file, open_to_read};

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Tombstone;
use crate::index::Change;
use crate::put::{InFlight, Progress};
use crate::stats::add;
use crate::types::{Completion, Part, PartPlace, SetId, Version};
pub(crate) use log::{AREA_MAX, entry, parse};
use log::{AREAS, Area, Entry, FileHead, area_head, file_head};

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
    area: usize,
}

/// What an area holds, beside its bytes.
struct Filled {
    area: Area,
    /// It has records.
    used: bool,
    /// Versions that it has, and no deletion of behind them.
    puts: BTreeMap<Bytes, Vec<Version>>,
    /// Bytes that their deletions would take. (BUF-5)
    owed: u64,
}

/// The buffer of an open array.
pub(crate) struct Buffer {
    files: [Rc<dyn BufferFile>; 2],
    /// Files that are written to.
    good: [Cell<bool>; 2],
    head: Cell<FileHead>,
    areas: RefCell<[Filled; AREAS]>,
    /// The area that is written to.
    current: Cell<usize>,
    /// Objects by the stamps in their entries.
    held: RefCell<BTreeMap<u64, Held>>,
    bytes: Cell<usize>,
    /// Who writes to the files.
    writing: Mutex<()>,
    /// Who makes an end of the buffer, both of its files having failed.
    leaving: Mutex<()>,
    flushing: Cell<bool>,
    /// The last time.
    flush_failed: Cell<bool>,
    /// An area was emptied, or all was done.
    flushed: Notify,
}

/// Bytes of a deletion.
fn deletion_length(name: &Bytes) -> u64 {
    Entry::Delete { name: name.clone(), version: Version(0) }.length()
}

impl Filled {
    fn new(area: Area) -> Self {
        let used = !area.entries.is_empty();
        Self { area: Area { entries: Vec::new(), ..area }, used, puts: BTreeMap::new(), owed: 0 }
    }

    /// Areas as they were found.
    fn both(areas: &[Area; AREAS]) -> [Self; AREAS] {
        let mut filled = areas.clone().map(Self::new);
        for number in replay::oldest_first(areas) {
            for entry in &areas[number].entries {
                match entry {
                    Entry::Put { name, version, .. } => filled[number].put(name, *version),
                    Entry::Delete { name, version } => filled.iter_mut().for_each(|area| area.bury(name, *version)),
                }
            }
        }
        filled
    }

    fn put(&mut self, name: &Bytes, version: Version) {
        self.puts.entry(name.clone()).or_default().push(version);
        self.owed += deletion_length(name);
    }

    /// Every version up to that one is deleted.
    fn bury(&mut self, name: &Bytes, deleted: Version) {
        let Some(versions) = self.puts.get_mut(name) else { return };
        let before = versions.len();
        versions.retain(|version| *version > deleted);
        self.owed -= deletion_length(name) * (before - versions.len()) as u64;
        if versions.is_empty() {
            self.puts.remove(name);
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

    /// Nothing in it is needed.
    pub(crate) fn is_empty(&self) -> bool {
        self.areas.borrow().iter().all(|filled| !filled.used)
    }

    /// Some area has a version up to that one, and no deletion of it.
    fn needs_burial(&self, name: &Bytes, deleted: Version) -> bool {
        let among = |filled: &Filled| filled.puts.get(name).is_some_and(|all| all.iter().any(|one| *one <= deleted));
        self.areas.borrow().iter().any(among)
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
    async fn write(&self, offset: u64, data: Bytes) -> Result<()> {
        if !self.usable() {
            return Err(Error::new(ErrorKind::Device, "both of the buffer's files have failed"));
        }
        let writes = self.files.iter().zip(&self.good).map(|(file, good)| {
            let data = data.clone();
            async move { if good.get() { Some(file.write(offset, data).await) } else { None } }
        });
        let mut failed = None;
        for (result, good) in join_all(writes).await.into_iter().zip(&self.good) {
            if let Some(Err(error)) = result {
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
        let head = FileHead { generation: self.head.get().generation + 1, ..self.head.get() };
        self.head.set(head);
        file.write(0, file_head(&head)).await.map_err(|error| {
            good.set(false);
            broken(error)
        })
    }

    /// Bytes that must be free in the area that is written to for these records: deletions use what is kept for them, and
    /// nothing else does. (BUF-5)
    fn room_for(&self, entries: &[Entry]) -> u64 {
        let puts = entries.iter().filter(|entry| matches!(entry, Entry::Put { .. }));
        let more: u64 = puts.map(|entry| deletion_length(entry.name())).sum();
        let kept = if more > 0 { self.areas.borrow().iter().map(|filled| filled.owed).sum() } else { 0 };
        entries.iter().map(Entry::length).sum::<u64>() + more + kept
    }

    /// Appends the records that are wanted when it is their turn, durably. `false` if there is no room: nothing was written.
    async fn append(&self, wanted: impl Fn() -> Vec<Entry>) -> Result<bool> {
        let _turn = self.writing.lock().await;
        let most = self.head.get().area;
        let full = |entries: &[Entry]| {
            let end = self.areas.borrow()[self.current.get()].area.end;
            end + self.room_for(entries) > most
        };
        if full(&wanted()) && !self.next_area().await? {
            return Ok(false);
        }
        // From here to its name nothing is waited for (BUF-3).
        let entries = wanted();
        if entries.is_empty() {
            return Ok(true);
        }
        if full(&entries) {
            return Ok(false);
        }
        let number = self.current.get();
        let (offset, bytes, end, chain) = {
            let mut areas = self.areas.borrow_mut();
            let filled = &mut areas[number];
            let area = &filled.area;
            let mut out = Vec::with_capacity(entries.iter().map(Entry::length).sum::<u64>() as usize);
            let chain = entries.iter().fold(area.chain, |chain, entry| entry.encode(chain, area.epoch, &mut out));
            let (offset, end) = (self.head.get().area_start(number) + area.end, area.end + out.len() as u64);
            filled.used = true;
            for entry in &entries {
                if let Entry::Put { name, version, .. } = entry {
                    filled.put(name, *version);
                }
            }
            (offset, Bytes::from(out), end, chain)
        };
        self.write(offset, bytes).await?;
        let mut areas = self.areas.borrow_mut();
        (areas[number].area.end, areas[number].area.chain) = (end, chain);
        for entry in &entries {
            if let Entry::Delete { name, version } = entry {
                areas.iter_mut().for_each(|filled| filled.bury(name, *version));
            }
        }
        Ok(true)
    }

    /// Goes on in the other area, if that is empty.
    async fn next_area(&self) -> Result<bool> {
        let next = 1 - self.current.get();
        if self.areas.borrow()[next].used {
            return Ok(false);
        }
        self.begin_area(next).await?;
        self.current.set(next);
        Ok(true)
    }

    /// A new life of an area of which nothing is needed.
    async fn begin_area(&self, number: usize) -> Result<()> {
        let epoch = self.areas.borrow().iter().map(|filled| filled.area.epoch).max().unwrap_or(0) + 1;
        self.write(self.head.get().area_start(number), area_head(epoch)).await?;
        self.areas.borrow_mut()[number] = Filled::new(Area::empty(epoch));
        Ok(())
    }

    /// Empties areas of which nothing is needed, the older first. (BUF-2)
    async fn empty_areas(&self) -> Result<()> {
        let _turn = self.writing.lock().await;
        if !self.usable() {
            return Ok(());
        }
        let older = 1 - self.current.get();
        for number in [older, self.current.get()] {
            if !self.areas.borrow()[number].used {
                continue;
            }
            if self.held.borrow().values().any(|held| held.area == number) {
                return Ok(());
            }
            self.begin_area(number).await?;
            self.flushed.notify_waiters();
        }
        Ok(())
    }
}

impl Engine {
    /// The buffer, if there is one that can be written to.
    pub(crate) fn usable_buffer(&self) -> Option<Rc<Buffer>> {
        self.buffer.borrow().clone().filter(|buffer| buffer.usable())
    }

    /// Takes a whole object into the buffer: it is complete. `false` if there is no room.
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
        match self.append_when_there_is_room(buffer, wanted).await {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(_) if !buffer.usable() => {
                self.leave_soon(buffer);
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        if overtaken() {
            return Ok(true);
        }
        let length = data.len() as u32;
        let part = Part { name, version, offset: 0, at: 0, length, completion: Some(completion.clone()) };
        let place = self.hold(buffer, buffer.current.get(), &part, completion, data);
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
    /// `false` if it stays full.
    async fn append_when_there_is_room(
        self: &Rc<Self>,
        buffer: &Rc<Buffer>,
        wanted: impl Fn() -> Vec<Entry>,
    ) -> Result<bool> {
        for _ in 0..WAITS {
            let flushed = buffer.flushed.notified();
            if buffer.append(&wanted).await? {
                return Ok(true);
            }
            if buffer.is_empty() {
                // It is longer than an area.
                return Ok(false);
            }
            if !buffer.flushing.get() {
                self.flush_soon(buffer, 0);
            }
            flushed.await;
            if buffer.flush_failed.get() {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Keeps an object's bytes; the place that its entry names.
    fn hold(&self, buffer: &Buffer, area: usize, part: &Part, completion: &Completion, data: &Bytes) -> PartPlace {
        let stamp = self.stamps.next();
        let held = Held {
            name: part.name.clone(),
            version: part.version,
            completion: completion.clone(),
            data: data.clone(),
            area,
        };
        buffer.held.borrow_mut().insert(stamp, held);
        buffer.bytes.set(buffer.bytes.get() + data.len());
        let length = data.len() as u32;
        PartPlace { set: BUFFER_SET, block: 0, stamp, segment_length: length, at: 0, length, last: true }
    }

    /// Says in the buffer's log what tombstones say on the drives. (BUF-3)
    pub(crate) async fn bury_buffered(self: &Rc<Self>, tombstones: &[Tombstone]) -> Result<()> {
        let Some(buffer) = self.buffer.borrow().clone() else { return Ok(()) };
        while !buffer.burials(tombstones).is_empty() {
            let said = match buffer.append(|| buffer.burials(tombstones)).await {
                // Only a log of a version that kept no room for it: with the buffer empty there is nothing to say.
                Ok(false) => self.flush(&buffer, 0).await,
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
        self.buffer_id.set(0);
        self.write_superblock(None).await?;
        // Only now: until then the next opening reads the files, should they be there again.
        let epoch = 0;
        buffer.areas.replace([Filled::new(Area::empty(epoch)), Filled::new(Area::empty(epoch))]);
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
