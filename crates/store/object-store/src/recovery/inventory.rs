//! Contents of the drives: their chunk lists, sorted into files and backups.

use std::collections::{BTreeMap, BTreeSet};

use shingle_chunk_store::{ChunkStat, Stream};
use shingle_store_api::StoreResult;

use super::report::Damage;
use crate::backup::BackupFile;
use crate::errors::from_chunk;
use crate::files::{End, Files, LogFile, Tail};
use crate::format::ChunkName;
use crate::options::{Drive, Options};
use crate::records::{FileRecord, Position};

/// The index's records of the files, for comparison.
pub(super) type FileRecords = BTreeMap<u64, FileRecord>;

/// Chunks asked for at a time.
const PAGE: usize = 1024;

/// A file as the chunk list shows it.
#[derive(Clone, Debug)]
pub(super) struct FoundFile {
    pub(super) drive: usize,
    pub(super) stream: Stream,
    pub(super) chunks: BTreeMap<u32, ChunkStat>,
}

impl FoundFile {
    /// Its last chunk and that one's end, if `indexed` is behind it: in that chunk, or in one that is not there.
    pub(super) fn short_of(&self, indexed: Position) -> Option<(u32, u64)> {
        let (last, chunk) = self.chunks.last_key_value()?;
        let beyond = indexed.ordinal > last + 1 || (indexed.ordinal == *last && indexed.offset > chunk.size);
        beyond.then_some((*last, chunk.size))
    }
}

/// Contents of the drives.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    pub(super) files: BTreeMap<u64, FoundFile>,
    pub(super) backups: BTreeMap<u64, BackupFile>,
    /// Store sets found, and on which drive.
    pub(super) sets: BTreeMap<u32, usize>,
    /// A file that is on two drives.
    pub(super) twice: Option<u64>,
    pub(super) chunks: u64,
    pub(super) foreign: u64,
}

impl Inventory {
    /// Lists all chunks of all drives.
    pub(super) async fn take(drives: &[Drive]) -> StoreResult<Self> {
        let mut inventory = Self::default();
        for (number, drive) in drives.iter().enumerate() {
            let mut after = None;
            loop {
                let page = drive.client.list(after, PAGE).await.map_err(from_chunk)?;
                let Some(last) = page.last() else { break };
                after = Some(last.id);
                for chunk in page {
                    inventory.add(number, chunk);
                }
            }
        }
        Ok(inventory)
    }

    fn add(&mut self, drive: usize, chunk: ChunkStat) {
        self.chunks += 1;
        let Some(name) = ChunkName::parse(chunk.id) else {
            self.foreign += 1;
            return;
        };
        self.sets.entry(name.set).or_insert(drive);
        if name.stream == Stream::Meta {
            let backup = self.backups.entry(name.file);
            let backup = backup.or_insert_with(|| BackupFile { number: name.file, drive, chunks: Vec::new() });
            if backup.drive != drive {
                self.twice = Some(name.file);
            }
            backup.chunks.push(name.ordinal);
            return;
        }
        let fresh = || FoundFile { drive, stream: name.stream, chunks: BTreeMap::new() };
        let file = self.files.entry(name.file).or_insert_with(fresh);
        if file.drive != drive || file.stream != name.stream {
            self.twice = Some(name.file);
        }
        file.chunks.insert(name.ordinal, chunk);
    }

    /// The highest file number.
    pub(super) fn highest_file(&self) -> u64 {
        let file = self.files.keys().next_back().copied().unwrap_or(0);
        file.max(self.backups.keys().next_back().copied().unwrap_or(0))
    }

    /// The engine's files, and open chunks that are to be sealed: of files that could not all be read, of an index that was made again
    /// (OS-REC-3), and more than the engine keeps open.
    pub(super) fn engine_files(
        &self,
        records: &FileRecords,
        drives: &[Drive],
        options: &Options,
        (damage, given_up): (&[Damage], &[Damage]),
        index_kept: bool,
    ) -> (Files, Vec<(u64, u32)>) {
        let unseen: BTreeSet<u64> =
            damage.iter().filter(|damage| damage.again).map(|damage| damage.place.file).collect();
        let given_up: BTreeSet<u64> = given_up.iter().map(|damage| damage.place.file).collect();
        let mut files = Files::default();
        let mut open: BTreeMap<(usize, Stream), usize> = BTreeMap::new();
        let mut to_close = Vec::new();
        for (number, found) in &self.files {
            let Some(drive) = drives.get(found.drive) else { continue };
            let record =
                records.get(number).copied().unwrap_or(FileRecord { store: drive.store.0, ..FileRecord::default() });
            let mut file = LogFile::new(Some(found.drive), found.stream, record);
            let last = found.chunks.keys().next_back().copied();
            file.unseen = unseen.contains(number);
            file.given_up = given_up.contains(number) && !file.unseen;
            for (ordinal, chunk) in &found.chunks {
                if Some(*ordinal) != last || chunk.sealed {
                    file.closed.insert(*ordinal, End::Sealed(chunk.size));
                } else if drive.hides {
                    // It may be longer: what it holds is seen by a later opening if nobody writes to it (OS-REC-4).
                    file.closed.insert(*ordinal, End::Within(chunk.size));
                    file.unseen = true;
                } else {
                    let used = open.entry((found.drive, found.stream)).or_default();
                    *used += 1;
                    // A watermark beyond it is of a life in which it could not be sealed, or was longer: what would be
                    // appended now would lie before the watermark, where nobody looks after a crash.
                    let passed = record.indexed.ordinal > *ordinal;
                    // Empty ones stay: they tell how far numbers have gone, should nothing else be left on the drives.
                    let foreign = !index_kept && chunk.size > 0;
                    if foreign
                        || file.unseen
                        || file.given_up
                        || record.dropping
                        || passed
                        || *used > options.files_open_max
                    {
                        to_close.push((*number, *ordinal));
                    }
                    let tail = Tail { ordinal: *ordinal, next: chunk.size, room: chunk.room, rolling: false };
                    file.tail = Some(tail);
                }
            }
            files.insert(*number, file);
        }
        // Files of drives that are missing: what points to them says so.
        for (number, record) in records.iter().filter(|(number, _)| !self.files.contains_key(number)) {
            files.insert(*number, LogFile::new(None, Stream::Data, *record));
        }
        (files, to_close)
    }
}
