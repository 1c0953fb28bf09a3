//! The files of the store, as the running engine knows them.
//!
//! # Invariants
//! - OS-FIL-1: an entry's place is reserved before it is appended and pending until the index has it and the file's record
//!   counts it: a file's watermark never passes a pending entry, and a file without one is as live as its record says.
//!   `a_file_whose_entries_can_all_be_read_never_stays`.
//! - OS-FIL-2: a pinned file keeps its chunks. Readers' side of it knows of each change here ([`crate::pins`]).
//! - OS-FIL-3: only what a drive said of a chunk's end proves that an append has landed ([`End`]).
//!   `appends_that_all_fail_are_not_taken_for_landed`.
//! - OS-FIL-4: [`Sums`] are what a walk over all files finds: whoever changes a file does so through [`Change`], which counts. `stats` and
//!   `usage` walk nothing. [`Files::sums`]; `sums_follow_every_change`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use shingle_chunk_store::Stream;

use crate::pins::{Pinnable, Pinnables};
use crate::records::{FileRecord, Position};
use crate::victims::{Rank, Victims};

/// Owner of a file's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// Those of clients.
    Clients,
    /// The copies of one collector: each has files of its own (OS-GC-5).
    Collector(u64),
}

impl Log {
    pub(crate) fn stream(self) -> Stream {
        match self {
            Self::Clients => Stream::Data,
            Self::Collector(_) => Stream::Gc,
        }
    }

    /// True if appends go to all drives. A collector has one place to go to at a time, and would leave a file on each
    /// drive.
    pub(crate) fn spreads(self) -> bool {
        matches!(self, Self::Clients)
    }

    pub(crate) fn collector(self) -> Option<u64> {
        match self {
            Self::Clients => None,
            Self::Collector(number) => Some(number),
        }
    }
}

/// Place for appends to a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    /// The last chunk.
    pub(crate) ordinal: u32,
    /// Its end, reservations included.
    pub(crate) next: u64,
    /// Bytes that it will take beyond that, as far as known.
    pub(crate) room: u64,
    /// It takes no more: it is being sealed.
    pub(crate) rolling: bool,
}

/// End of a closed chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The drive sealed it at this size.
    Sealed(u64),
    /// The drive did not answer when it was to be sealed. It ends here at the latest, where the reservations end; what was
    /// on its way to it may be there or not (OS-FIL-3).
    Within(u64),
}

impl End {
    /// The size, or the most it can be.
    pub(crate) fn most(self) -> u64 {
        match self {
            Self::Sealed(size) | Self::Within(size) => size,
        }
    }

    /// The size, if it is known.
    pub(crate) fn sealed(self) -> Option<u64> {
        match self {
            Self::Sealed(size) => Some(size),
            Self::Within(_) => None,
        }
    }
}

/// A file.
#[derive(Debug)]
pub(crate) struct LogFile {
    /// Its drive's place in the engine's list; none if the drive is missing.
    pub(crate) drive: Option<usize>,
    pub(crate) stream: Stream,
    /// Chunks that are closed, and where they end.
    pub(crate) closed: BTreeMap<u32, End>,
    /// The open chunk; none once the file is finished.
    pub(crate) tail: Option<Tail>,
    /// Reserved places whose entries are not in the index yet.
    pub(crate) pending: BTreeSet<Position>,
    /// Bytes reserved and not yet answered for.
    pub(crate) outstanding: u64,
    /// The index's record of it.
    pub(crate) record: FileRecord,
    /// Its readers' side; none until it is one of [`Files`].
    pins: Option<Arc<Pinnable>>,
    /// GC is at work on it.
    pub(crate) collecting: bool,
    /// The collector that writes copies to it; none for what clients write, and for files of earlier lives (OS-GC-5).
    pub(crate) collector: Option<u64>,
    /// GC could not read all of it: it stays.
    pub(crate) damaged: bool,
    /// It may hold entries that nobody has seen yet: it stays, and nothing is appended to it.
    pub(crate) unseen: bool,
    /// GC has looked at the graves in it: all are needed, until a file is dropped.
    pub(crate) graves_seen: bool,
    /// Number of changes that the index has reported in it.
    pub(crate) changes: u64,
}

impl LogFile {
    pub(crate) fn new(drive: Option<usize>, stream: Stream, record: FileRecord) -> Self {
        Self {
            drive,
            stream,
            closed: BTreeMap::new(),
            tail: None,
            pending: BTreeSet::new(),
            outstanding: 0,
            record,
            pins: None,
            collecting: false,
            collector: None,
            damaged: false,
            unseen: false,
            graves_seen: false,
            changes: 0,
        }
    }

    /// True if readers need its chunks.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.as_ref().is_some_and(|pins| pins.is_pinned())
    }

    /// Bytes appended to it.
    pub(crate) fn size(&self) -> u64 {
        self.closed.values().map(|end| end.most()).sum::<u64>() + self.tail.map_or(0, |tail| tail.next)
    }

    /// Bytes of entries nobody needs.
    pub(crate) fn garbage(&self) -> u64 {
        self.sums().garbage_bytes
    }

    fn sums(&self) -> Sums {
        let bytes = self.size();
        let live_bytes = self.record.live_bytes;
        Sums { files: 1, bytes, live_bytes, garbage_bytes: bytes.saturating_sub(live_bytes) }
    }

    /// Its tail, if it can be appended to now.
    pub(crate) fn appendable(&self) -> Option<&Tail> {
        self.tail.as_ref().filter(|tail| !tail.rolling && !self.record.dropping)
    }

    /// All entries before this are in the index once those at the places `arriving` are (OS-FIL-1).
    pub(crate) fn indexed(&self, arriving: &BTreeSet<Position>) -> Position {
        let end = match self.tail {
            Some(tail) => Position { ordinal: tail.ordinal, offset: tail.next },
            None => Position { ordinal: self.closed.keys().next_back().map_or(0, |last| last + 1), offset: 0 },
        };
        // A place reserved past the end of a chunk that was closed meanwhile was never written.
        let written = |at: &&Position| self.closed.get(&at.ordinal).is_none_or(|end| at.offset < end.most());
        let missing = self.pending.difference(arriving);
        missing.copied().find(|at| written(&at)).unwrap_or(end)
    }
}

/// Sums over files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) files: u64,
    /// Bytes appended to them.
    pub(crate) bytes: u64,
    /// Of them, those of entries that are needed.
    pub(crate) live_bytes: u64,
    /// Those of entries that nobody needs.
    pub(crate) garbage_bytes: u64,
}

impl Sums {
    fn add(&mut self, more: Self) {
        self.files += more.files;
        self.bytes += more.bytes;
        self.live_bytes += more.live_bytes;
        self.garbage_bytes += more.garbage_bytes;
    }

    fn take(&mut self, less: Self) {
        self.files -= less.files;
        self.bytes -= less.bytes;
        self.live_bytes -= less.live_bytes;
        self.garbage_bytes -= less.garbage_bytes;
    }
}

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

    /// GC has looked at a file's graves after so many files had been dropped: it looks at them again once there are more.
    pub(crate) fn see_graves(&mut self, number: u64, dropped: u64) {
        if let Some(drive) = self.map.get(&number).and_then(|file| file.drive) {
            self.look_again(drive, dropped);
        }
        if let Some(mut file) = self.get_mut(number) {
            file.graves_seen = true;
        }
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
