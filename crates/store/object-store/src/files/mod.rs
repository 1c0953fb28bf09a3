//! The files of the store, as the running engine knows them.
//!
//! # Invariants
//! - OS-FIL-1: an entry's place is reserved before it is appended and pending until the index has it and the file's record
//!   counts it: a file's watermark never passes a pending entry, and a file without one is as live as its record says.
//!   `a_file_whose_entries_can_all_be_read_never_stays`.
//! - OS-FIL-2: a pinned file keeps its chunks. Readers' side of it knows of each change here ([`crate::files::pins`]).
//! - OS-FIL-4: [`Sums`] are what a walk over all files finds: whoever changes a file does so through [`Change`], which counts. `stats` and
//!   `usage` walk nothing. [`Files::sums`]; `sums_follow_every_change`.

mod file;
pub(crate) mod pins;
pub(crate) mod victims;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use shingle_chunk_store::Stream;

use crate::records::Position;
use pins::{Pinnable, Pinnables};
use victims::{Rank, Victims};

pub(crate) use file::{End, Log, LogFile, Sums, Tail};

/// A file that is being changed; the sums and GC's lists follow when this is dropped (OS-FIL-4, OS-VIC-1).
pub(crate) struct Change<'f> {
    number: u64,
    file: &'f mut LogFile,
    sums: &'f mut Sums,
    victims: &'f mut Victims,
    before: (Sums, Option<Rank>, bool),
}

impl Deref for Change<'_> {
    type Target = LogFile;

    fn deref(&self) -> &LogFile {
        self.file
    }
}

impl DerefMut for Change<'_> {
    fn deref_mut(&mut self) -> &mut LogFile {
        self.file
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.sums.take(self.before.0);
        self.sums.add(self.file.sums());
        self.victims.change(self.number, self.before.1, Rank::of(self.file));
        let going = self.file.record.dropping;
        if going != self.before.2
            && let Some(pins) = &self.file.pins
        {
            pins.set_going(going);
        }
    }
}

/// All files.
#[derive(Debug, Default)]
pub(crate) struct Files {
    map: BTreeMap<u64, LogFile>,
    /// The same for readers, on any thread.
    pub(crate) pinnables: Arc<Pinnables>,
    sums: Sums,
    victims: Victims,
    /// Files with an open chunk, by drive and stream.
    open: BTreeMap<(usize, Stream), BTreeSet<u64>>,
}

impl Files {
    pub(crate) fn get(&self, file: u64) -> Option<&LogFile> {
        self.map.get(&file)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<Change<'_>> {
        let file = self.map.get_mut(&number)?;
        let before = (file.sums(), Rank::of(file), file.record.dropping);
        Some(Change { number, file, sums: &mut self.sums, victims: &mut self.victims, before })
    }

    /// Totals of all files.
    pub(crate) fn sums(&self) -> Sums {
        #[cfg(debug_assertions)]
        {
            let mut walked = Sums::default();
            self.map.values().for_each(|file| walked.add(file.sums()));
            assert_eq!(self.sums, walked, "OS-FIL-4: a file was changed and not counted");
        }
        self.sums
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &LogFile)> {
        self.map.iter().map(|(number, file)| (*number, file))
    }

    /// Files that GC may work on.
    pub(crate) fn victims(&self) -> &Victims {
        &self.victims
    }

    /// So many files have been dropped so far: graves on a drive that were needed before may be needless.
    pub(crate) fn look_again(&mut self, drive: usize, dropped: u64) {
        for number in self.victims.take_seen(drive, dropped) {
            if let Some(mut file) = self.get_mut(number) {
                file.graves_seen = false;
            }
        }
    }

    pub(crate) fn insert(&mut self, number: u64, mut file: LogFile) {
        self.remove(number);
        let pins = Pinnable::new(number, file.drive, file.stream, file.record.dropping);
        self.pinnables.insert(pins.clone());
        file.pins = Some(pins);
        if let (Some(drive), Some(_)) = (file.drive, file.tail) {
            self.open.entry((drive, file.stream)).or_default().insert(number);
        }
        self.sums.add(file.sums());
        self.victims.change(number, None, Rank::of(&file));
        self.map.insert(number, file);
    }

    pub(crate) fn remove(&mut self, number: u64) {
        let Some(file) = self.map.remove(&number) else { return };
        self.pinnables.remove(number);
        self.sums.take(file.sums());
        self.victims.change(number, Rank::of(&file), None);
        if let Some(drive) = file.drive {
            self.open.entry((drive, file.stream)).or_default().remove(&number);
        }
    }

    /// Closes a file's open chunk; it goes on in the next chunk if that one's room is given.
    pub(crate) fn close_chunk(&mut self, number: u64, ordinal: u32, end: End, next_room: Option<u64>) {
        let Some(mut file) = self.get_mut(number) else { return };
        file.closed.insert(ordinal, end);
        file.tail = next_room.map(|room| Tail { ordinal: ordinal + 1, next: 0, room, rolling: false });
        let (ended, stream) = (file.drive.filter(|_| file.tail.is_none()), file.stream);
        drop(file);
        if let Some(drive) = ended {
            self.open.entry((drive, stream)).or_default().remove(&number);
        }
    }

    /// Files on `drive` with an open chunk to which `log` is written.
    pub(crate) fn open(&self, drive: usize, log: Log) -> impl Iterator<Item = (u64, &LogFile)> {
        let numbers = self.open.get(&(drive, log.stream())).into_iter().flatten();
        let files = numbers.filter_map(|number| Some((*number, self.map.get(number)?)));
        files.filter(move |(_, file)| file.collector.is_none() || file.collector == log.collector())
    }

    /// Open files to which that collector writes.
    pub(crate) fn of_collector(&self, collector: u64) -> Vec<u64> {
        let open = self.open.values().flatten().copied();
        open.filter(|number| self.map.get(number).is_some_and(|file| file.collector == Some(collector))).collect()
    }

    /// Forgets that a place was reserved: its entry is in the index, or was never written.
    pub(crate) fn settle(&mut self, file: u64, position: Position) {
        if let Some(found) = self.map.get_mut(&file) {
            found.pending.remove(&position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::FileRecord;

    /// OS-FIL-4: [`Files::sums`] compares with a walk.
    #[test]
    fn sums_follow_every_change() {
        let mut files = Files::default();
        for number in 0..4 {
            let mut file =
                LogFile::new((number != 3).then_some(number as usize % 2), Stream::Data, FileRecord::default());
            file.tail = Some(Tail { ordinal: 0, next: 10 * number, room: 1000, rolling: false });
            files.insert(number, file);
        }
        assert_eq!(files.sums(), Sums { files: 4, bytes: 60, live_bytes: 0, garbage_bytes: 60 });
        // An append, and the index hears of it; a record that is ahead of the file.
        files.get_mut(1).unwrap().tail.as_mut().unwrap().next += 100;
        files.get_mut(1).unwrap().record.live_bytes = 105;
        files.get_mut(2).unwrap().record.live_bytes = 50;
        assert_eq!(files.sums(), Sums { files: 4, bytes: 160, live_bytes: 155, garbage_bytes: 35 });
        // The reserved bytes never landed.
        files.close_chunk(1, 0, End::Sealed(105), Some(1000));
        files.get_mut(1).unwrap().tail.as_mut().unwrap().next += 7;
        assert_eq!(files.sums(), Sums { files: 4, bytes: 162, live_bytes: 155, garbage_bytes: 37 });
        files.close_chunk(1, 1, End::Within(7), None);
        files.remove(2);
        files.remove(2);
        files.insert(3, LogFile::new(None, Stream::Data, FileRecord::default()));
        assert_eq!(files.sums(), Sums { files: 3, bytes: 112, live_bytes: 105, garbage_bytes: 7 });
    }
}
