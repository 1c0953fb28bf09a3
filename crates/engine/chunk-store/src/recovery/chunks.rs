//! Steps 2 and 3: the chunk table from checkpoint parts and journal, then completed with scanned records.

use std::collections::BTreeMap;

use shingle_base::{ChunkId, ZoneId};

use crate::format::{ChunkEntry, JournalEntry, Mark};
use crate::index::ChunkTable;
use crate::index::{Chunk, Handle};
use crate::index::{Groups, Located, Run};
use crate::journal::{Continuation, Resumed};
use crate::recovery::complete::{Bad, choose_again, complete};
use crate::recovery::found::{Found, Trust};
use crate::recovery::report::Damage;

/// Chunks while they are being put together.
#[derive(Default)]
pub(crate) struct Loading {
    pub(crate) chunks: ChunkTable,
    /// The size a chunk was sealed at.
    sealed_at: BTreeMap<Handle, u32>,
    /// Chunks whose index has gaps: the size and the records that the checkpoint had.
    sparse: BTreeMap<Handle, (u32, Vec<Located>)>,
    /// Records from the scan.
    scanned: BTreeMap<Handle, Vec<Found>>,
    /// When and where chunks were gone on with: older records past that are dead (CS-APP-5).
    resumed: BTreeMap<Handle, Vec<Continuation>>,
    /// Blocks could not be read in which a later opening may find records. A zone that is away does not count: it may
    /// stay away for ever.
    pub(crate) unread: bool,
}

impl Loading {
    /// Takes in a chunk of the checkpoint, without its records in generations of zones that are over (`ended`).
    pub(crate) fn load(&mut self, entry: ChunkEntry, ended: &BTreeMap<ZoneId, u64>, is_data: impl Fn(ZoneId) -> bool) {
        let ChunkEntry { id, stream, sealed, birth, size, since, runs } = entry;
        if self.chunks.find(id).is_some() {
            return;
        }
        let mut chunk = Chunk::new(id, stream, birth);
        let lives = |zone: &ZoneId, epoch: u64| is_data(*zone) && ended.get(zone).is_none_or(|&last| epoch > last);
        let runs = || runs.iter().filter(|(run, epoch)| lives(&run.zone, *epoch)).map(|(run, _)| *run);
        let whole = runs().try_fold(0, |end, run| (run.offset == end).then_some(run.end));
        let handle = if whole == Some(size) {
            for run in runs() {
                chunk.groups.push_run(run);
            }
            chunk.groups.shrink();
            chunk.size = size;
            self.insert(chunk)
        } else {
            let handle = self.insert(chunk);
            self.sparse.insert(handle, (size, runs().flat_map(Run::records).collect()));
            handle
        };
        if sealed {
            self.sealed_at.insert(handle, size);
        }
        if since != 0 {
            self.resumed.insert(handle, vec![(since, size)]);
        }
    }

    fn insert(&mut self, chunk: Chunk) -> Handle {
        self.chunks.insert(chunk)
    }

    fn remove(&mut self, handle: Handle) {
        self.chunks.remove(handle);
        self.sealed_at.remove(&handle);
        self.sparse.remove(&handle);
        self.scanned.remove(&handle);
        self.resumed.remove(&handle);
    }

    /// Replays one entry. The checkpoint may have its effect, and even later ones, already (CS-CKPT-1).
    pub(crate) fn replay(&mut self, entry: JournalEntry, sequence: u64) {
        let before = |chunks: &ChunkTable, id: ChunkId| {
            let handle = chunks.find(id)?;
            (chunks.get(handle)?.birth < sequence).then_some(handle)
        };
        match entry {
            JournalEntry::Create { id, stream } => {
                if let Some(handle) = before(&self.chunks, id) {
                    self.remove(handle);
                }
                if self.chunks.find(id).is_none() {
                    self.insert(Chunk::new(id, stream, sequence));
                }
            }
            JournalEntry::Seal { id, size } => {
                if let Some(handle) = before(&self.chunks, id) {
                    self.sealed_at.insert(handle, size);
                }
            }
            JournalEntry::Delete { id } => {
                if let Some(handle) = before(&self.chunks, id) {
                    self.remove(handle);
                }
            }
            // Taken into account when the checkpoint was loaded.
            JournalEntry::Reset { .. } | JournalEntry::Open { .. } => {}
            JournalEntry::Mark(mark) => self.marked(&mark, sequence),
            JournalEntry::Resume { id, size } => {
                if let Some(handle) = before(&self.chunks, id) {
                    self.resumed.entry(handle).or_default().push((sequence, size));
                }
            }
        }
    }

    /// Takes in the records of a mark of a generation that is not over, as if they had been scanned (CS-MARK-2).
    fn marked(&mut self, mark: &Mark, sequence: u64) {
        for (id, records) in mark.chunks() {
            let Some(handle) = self.chunks.find(id) else { continue };
            if self.chunks.get(handle).is_some_and(|chunk| chunk.birth < sequence) {
                let found = records.map(|record| Found {
                    record,
                    sequence,
                    landed: false,
                    trust: Trust::Sure,
                    bad: None,
                    unreadable: false,
                });
                self.scanned.entry(handle).or_default().extend(found);
            }
        }
    }

    /// Takes in a scanned record of `id` (CS-REC-1).
    pub(crate) fn found(&mut self, id: ChunkId, found: Found) {
        let Some(handle) = self.chunks.find(id) else { return };
        if self.chunks.get(handle).is_some_and(|chunk| chunk.birth < found.sequence) {
            self.scanned.entry(handle).or_default().push(found);
        }
    }

    /// Puts every chunk together (CS-REC-2, CS-REC-3).
    pub(crate) fn finish(mut self, damage: &mut Vec<Damage>) -> Chunks {
        let mut places = Resumed::default();
        let mut undecided: BTreeMap<ZoneId, Vec<Located>> = BTreeMap::new();
        let mut hidden = self.unread;
        for handle in self.chunks.handles() {
            let sealed_at = self.sealed_at.get(&handle).copied();
            let (known_to, mut sparse) = self.sparse.remove(&handle).unzip();
            let scanned = self.scanned.remove(&handle).unwrap_or_default();
            let Some(chunk) = self.chunks.get_mut(handle) else { continue };
            let mut resumed = self.resumed.remove(&handle).unwrap_or_default();
            // A checkpoint journals them again, perhaps several did.
            resumed.sort_unstable();
            resumed.dedup();
            // The chunk had all bytes before its last continuation, found or not.
            let last = resumed.last();
            resumed.iter().for_each(|&place| places.note(handle, place));
            let mut known_to = known_to.unwrap_or(0).max(last.map_or(0, |&(_, size)| size));
            let lives = |found: &Found| {
                resumed.iter().all(|&(sequence, size)| found.sequence > sequence || found.record.end() <= size)
            };
            let mut scanned: Vec<Found> = scanned.into_iter().filter(lives).collect();
            let mut taken_out = Vec::new();
            if scanned.iter().any(|found| found.bad.is_some()) {
                let own = || chunk.groups.iter().flat_map(|group| group.records()).collect();
                let mut indexed = sparse.clone().unwrap_or_else(own);
                taken_out = choose_again(&mut indexed, &mut scanned);
                if !taken_out.is_empty() {
                    known_to = known_to.max(chunk.size);
                    chunk.groups = Groups::default();
                    sparse = Some(indexed);
                }
            }
            let lost = complete(chunk, sparse, scanned, sealed_at, known_to, self.unread);
            for Bad { zone, bytes: (from, to), unreadable } in &lost.bad {
                hidden |= unreadable;
                let what = format!("bytes {from} to {to} cannot be read, or fail their check");
                damage.push(Damage { chunk: Some(chunk.id), zone: Some(*zone), what });
            }
            for (from, to) in &lost.holes {
                let what = format!("bytes {from} to {to} are lost: no record of them was found");
                damage.push(Damage { chunk: Some(chunk.id), zone: None, what });
            }
            hidden |= !lost.undecided.is_empty();
            // The checkpoint has them until the next one, and so has an opening that does not look at their zones.
            let kept = |record: &Located| chunk.groups.iter().any(|group| group.records().any(|kept| kept == *record));
            taken_out.retain(|record| !kept(record) && !lost.undecided.contains(record));
            for record in lost.undecided.into_iter().chain(taken_out) {
                undecided.entry(record.zone).or_default().push(record);
            }
            chunk.sealed = sealed_at.is_some();
            if chunk.sealed {
                chunk.groups.shrink();
            }
        }
        Chunks { table: self.chunks, resumed: places, undecided, hidden }
    }
}

/// The chunks that there are.
pub(crate) struct Chunks {
    pub(crate) table: ChunkTable,
    /// Sizes at which chunks were continued.
    pub(crate) resumed: Resumed,
    /// Records that an opening which can read all has to judge, by zone.
    pub(crate) undecided: BTreeMap<ZoneId, Vec<Located>>,
    /// Blocks could not be read that have records, or may have some.
    pub(crate) hidden: bool,
}

#[cfg(test)]
mod tests;
