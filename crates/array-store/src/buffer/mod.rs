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
//!   array is not opened without it meanwhile.

mod file;
mod flush;
mod log;
mod replay;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{Mutex, Notify};

pub use file::BufferFile;
pub(crate) use file::open_file;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Change;
use crate::put::{InFlight, Progress};
use crate::stats::add;
use crate::types::{Completion, Part, PartPlace, SetId, Version};
pub(crate) use log::AREA_MAX;
use log::{AREAS, Area, Entry, FileHead, area_head, file_head};

/// In the index: the object is buffered.
pub(crate) const BUFFER_SET: SetId = SetId(u32::MAX);

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
    /// Names that it has records of.
    names: BTreeSet<Bytes>,
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
    flushing: Cell<bool>,
    flushed: Notify,
}

impl Filled {
    fn new(area: Area) -> Self {
        let names = area.entries.iter().map(|entry| entry.name().clone()).collect();
        Self { area: Area { entries: Vec::new(), ..area }, names }
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty()
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
        self.areas.borrow().iter().all(Filled::is_empty)
    }

    /// Some area has records of that name.
    pub(crate) fn has_name(&self, name: &Bytes) -> bool {
        self.areas.borrow().iter().any(|filled| filled.names.contains(name))
    }

    /// Writes the same to all files that are good; goes on with one if the other fails, which the first then says. (BUF-1)
    async fn write(&self, offset: u64, data: Bytes) -> Result<()> {
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

    /// Appends records, durably, if they are still wanted when it is their turn. `false` if there is no room: nothing was
    /// written.
    async fn append(&self, entries: &[Entry], wanted: impl Fn() -> bool) -> Result<bool> {
        let _turn = self.writing.lock().await;
        let most = self.head.get().area;
        let length: u64 = entries.iter().map(Entry::length).sum();
        if self.areas.borrow()[self.current.get()].area.end + length > most && !self.next_area().await? {
            return Ok(false);
        }
        // From here to its name nothing is waited for (BUF-3).
        if !wanted() {
            return Ok(true);
        }
        let number = self.current.get();
        let (offset, bytes, end, chain) = {
            let mut areas = self.areas.borrow_mut();
            let Filled { area, names } = &mut areas[number];
            if area.end + length > most {
                return Ok(false);
            }
            let mut out = Vec::with_capacity(length as usize);
            let chain = entries.iter().fold(area.chain, |chain, entry| entry.encode(chain, area.epoch, &mut out));
            names.extend(entries.iter().map(|entry| entry.name().clone()));
            (self.head.get().area_start(number) + area.end, Bytes::from(out), area.end + length, chain)
        };
        self.write(offset, bytes).await?;
        let area = &mut self.areas.borrow_mut()[number].area;
        (area.end, area.chain) = (end, chain);
        Ok(true)
    }

    /// Goes on in the other area, if that is empty.
    async fn next_area(&self) -> Result<bool> {
        let next = 1 - self.current.get();
        if !self.areas.borrow()[next].is_empty() {
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
        let older = 1 - self.current.get();
        for number in [older, self.current.get()] {
            if self.areas.borrow()[number].is_empty() {
                continue;
            }
            if self.held.borrow().values().any(|held| held.area == number) {
                return Ok(());
            }
            self.begin_area(number).await?;
        }
        Ok(())
    }
}

impl Engine {
    /// The buffer, if there is one that can be written to.
    pub(crate) fn usable_buffer(&self) -> Option<Rc<Buffer>> {
        self.buffer.borrow().clone().filter(|buffer| buffer.good.iter().any(Cell::get))
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
        if !buffer.append(&[entry], || !overtaken()).await? {
            self.flush_soon(buffer, 0);
            return Ok(false);
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
    pub(crate) async fn bury_buffered(self: &Rc<Self>, tombstones: &[crate::format::Tombstone]) -> Result<()> {
        let Some(buffer) = self.buffer.borrow().clone() else { return Ok(()) };
        let delete = |tombstone: &crate::format::Tombstone| Entry::Delete {
            name: tombstone.name.clone(),
            version: tombstone.version,
        };
        loop {
            let needed = tombstones.iter().filter(|tombstone| buffer.has_name(&tombstone.name));
            let entries: Vec<Entry> = needed.map(delete).collect();
            if entries.is_empty() || buffer.append(&entries, || true).await? {
                return Ok(());
            }
            // No room for it: with the buffer empty there is nothing to say.
            self.flush(&buffer, 0).await?;
        }
    }
}
