//! Opening the buffer: which of its files count, what is in them, and bringing the other one up to date.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use tokio::sync::{Mutex, Notify};

use super::log::{AREAS, Area, Entry, FileHead, area_head, file_head, parse};
use super::{Buffer, BufferFiles, Filled};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Tombstone;
use crate::index::{Change, PartKey};
use crate::types::{Part, Version};

/// A file as it was found.
struct Found {
    raw: Bytes,
    head: FileHead,
    areas: [Area; AREAS],
}

impl Engine {
    /// Takes up the buffer that the superblock names (`id`, if not 0), or a new one, and enters what it holds. Reading only,
    /// what its files hold is entered and they stay as they are. Files that were not there, or old, in words.
    ///
    /// # Errors
    /// `Format` if objects may be in a buffer that is not given, or of which neither file is left; or if a file is another
    /// array's buffer, with objects in it.
    pub(crate) async fn attach_buffer(
        self: &Rc<Self>,
        files: Option<BufferFiles>,
        id: u64,
        abandon: bool,
    ) -> Result<Vec<String>> {
        let lost = |what: &str| {
            let message = format!(
                "objects that were acknowledged wait in the array's buffer, and {what}: name the two files that it was used \
                 with last. Only if both are lost, have it abandoned (`shingle array snapshot --abandon-buffer`), and those \
                 objects with it"
            );
            Err(Error::new(ErrorKind::Format, message))
        };
        let Some(BufferFiles(files)) = files else {
            return if id == 0 || abandon { Ok(Vec::new()) } else { lost("it was not named") };
        };
        let mut found = Vec::new();
        for (file, which) in files.iter().zip(["first", "second"]) {
            found.push(self.look_at(&**file, which, id).await?);
        }
        let newest = found.iter().flatten().map(|found| found.head.generation).max();
        if newest.is_none() && id != 0 && !abandon {
            return lost("neither of the files that were named holds it");
        }
        let (head, areas) = match newest {
            None => (
                FileHead {
                    array: self.array,
                    id: self.rt.random() | 1,
                    generation: 1,
                    area: u64::from(self.options.buffer_area),
                },
                [Area::empty(1), Area::empty(2)],
            ),
            Some(generation) => {
                let current: Vec<&Found> =
                    found.iter().flatten().filter(|found| found.head.generation == generation).collect();
                (current[0].head, [0, 1].map(|area| newest_area(&current, area)))
            }
        };
        let buffer = Buffer {
            good: [Cell::new(true), Cell::new(true)],
            head: Cell::new(head),
            // Where the log ends: the younger area.
            current: Cell::new(usize::from(areas[1].epoch > areas[0].epoch)),
            areas: RefCell::new(Filled::both(&areas)),
            held: RefCell::default(),
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
        let notes = if newest.is_none() {
            Vec::new()
        } else {
            let old = found.iter().zip(["first", "second"]).filter(|(found, _)| !current(found));
            let how = if self.options.read_only { "the other is read" } else { "it gets what the other holds" };
            old.map(|(_, which)| format!("the buffer's {which} file was not there, or not up to date: {how}")).collect()
        };
        if self.options.read_only {
            self.replay(&buffer, areas)?;
            self.buffer.replace(Some(Rc::new(buffer)));
            return Ok(notes);
        }
        bring_up_to_date(&buffer, &found, &areas).await?;
        self.buffer_id.set(head.id);
        let unsaid = self.replay(&buffer, areas)?;
        self.buffer.replace(Some(Rc::new(buffer)));
        // Deletions that a power cut kept from the log: their tombstones may be gone by the next opening (BUF-3).
        self.bury_buffered(&unsaid).await?;
        Ok(notes)
    }

    async fn look_at(&self, file: &dyn super::BufferFile, which: &str, id: u64) -> Result<Option<Found>> {
        let raw = match file.read().await {
            Ok(raw) => raw,
            Err(error) => {
                tracing::warn!(%error, "a file of the buffer cannot be read");
                return Ok(None);
            }
        };
        let Some((head, areas)) = parse(&raw) else { return Ok(None) };
        if head.array != self.array && areas.iter().any(|area| !area.entries.is_empty()) {
            let message = format!(
                "the buffer's {which} file belongs to array {}, and objects may wait in it that are nowhere else: name a file \
                 of this array's own. If that array is no more, delete the file",
                head.array
            );
            return Err(Error::new(ErrorKind::Format, message));
        }
        Ok((id != 0 && head.array == self.array && head.id == id).then_some(Found { raw, head, areas }))
    }

    /// Enters what the log holds and the drives have not. Tombstones of the drives that the log does not know of.
    fn replay(self: &Rc<Self>, buffer: &Buffer, areas: [Area; AREAS]) -> Result<Vec<Tombstone>> {
        let found = self.found_tombstones.take();
        let unsaid = found.iter().filter(|(name, version)| buffer.needs_burial(name, **version));
        let unsaid = unsaid.map(|(name, version)| Tombstone { name: name.clone(), version: *version }).collect();
        let mut deleted: BTreeMap<Bytes, Version> = found;
        for entry in areas.iter().flat_map(|area| &area.entries) {
            if let Entry::Delete { name, version } = entry {
                let newest = deleted.entry(name.clone()).or_default();
                *newest = (*newest).max(*version);
            }
        }
        let order = oldest_first(&areas);
        for (area, entry) in
            order.into_iter().flat_map(|area| areas[area].entries.iter().map(move |entry| (area, entry)))
        {
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
            let place = self.hold(buffer, area, &part, completion, data);
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

/// The areas' numbers, that of the older one first.
pub(super) fn oldest_first(areas: &[Area; AREAS]) -> [usize; AREAS] {
    if areas[1].epoch < areas[0].epoch { [1, 0] } else { [0, 1] }
}

/// Of an area's copies the youngest, and of those the longest: it begins with what the other holds.
fn newest_area(found: &[&Found], area: usize) -> Area {
    let areas = found.iter().map(|found| &found.areas[area]);
    areas.max_by_key(|area| (area.epoch, area.end)).cloned().unwrap_or_else(|| Area::empty(0))
}

/// Makes both files hold the same, a file's head last: until then it does not count. One that was missing joins in a new
/// generation, which the other's head learns last: should it turn up again, old as it is, it is not believed. (BUF-1)
async fn bring_up_to_date(buffer: &Buffer, found: &[Option<Found>], areas: &[Area; AREAS]) -> Result<()> {
    let before = buffer.head.get();
    let source = |number: usize| {
        let same = |found: &&Found| {
            found.head.generation == before.generation
                && found.areas[number].epoch == areas[number].epoch
                && found.areas[number].end == areas[number].end
        };
        let from = before.area_start(number) as usize;
        let found = found.iter().flatten().find(same)?;
        found.raw.get(from..from + areas[number].end as usize).map(|bytes| found.raw.slice_ref(bytes))
    };
    let own = |at: usize| found[at].as_ref().filter(|found| found.head.generation == before.generation);
    let joins = [0, 1].map(|at| own(at).is_none());
    if joins != [false; 2] {
        buffer.head.set(FileHead { generation: before.generation + 1, ..before });
    }
    let [first, second] = joins;
    // Who joins comes first.
    for at in if second && !first { [1, 0] } else { [0, 1] } {
        let file = &buffer.files[at];
        let mut written = Ok(());
        for (number, area) in areas.iter().enumerate() {
            let same =
                own(at).is_some_and(|own| own.areas[number].epoch == area.epoch && own.areas[number].end == area.end);
            if !same && written.is_ok() {
                let bytes = source(number).unwrap_or_else(|| area_head(area.epoch));
                written = file.write(before.area_start(number), bytes).await;
            }
        }
        if joins != [false; 2] && written.is_ok() {
            written = file.write(0, file_head(&buffer.head.get())).await;
        }
        if let Err(error) = written {
            tracing::error!(%error, "a file of the buffer cannot be written to; going on with the other");
            buffer.good[at].set(false);
        }
    }
    match buffer.good.each_ref().map(Cell::get) {
        [true, true] => Ok(()),
        [false, false] => Err(Error::new(ErrorKind::Device, "neither file of the buffer can be written to")),
        // The one that is left behind is not believed any more.
        [first, _] => {
            let file = &buffer.files[usize::from(!first)];
            let head = FileHead { generation: buffer.head.get().generation + 1, ..before };
            buffer.head.set(head);
            let written = file.write(0, file_head(&head)).await;
            written.map_err(|error| {
                Error::caused(ErrorKind::Device, "neither file of the buffer can be written to", error)
            })
        }
    }
}
