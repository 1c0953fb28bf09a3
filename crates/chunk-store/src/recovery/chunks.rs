//! Steps 2 and 3: the chunk table from checkpoint parts and journal, then completed with scanned records.

use std::collections::BTreeMap;

use shingle_base::{ChunkId, ZoneId};

use crate::format::{ChunkEntry, JournalEntry};
use crate::index::{Located, Run};
use crate::mark::Mark;
use crate::recovery::report::Damage;
use crate::table::{Chunk, ChunkTable, Handle};

/// A record the scan found, with its sequence number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) record: Located,
    pub(crate) sequence: u64,
    /// It lies in a landing zone.
    pub(crate) landed: bool,
}

/// Chunks while they are being put together.
#[derive(Default)]
pub(crate) struct Loading {
    pub(crate) chunks: ChunkTable,
    /// The size a chunk was sealed at.
    sealed_at: BTreeMap<Handle, u32>,
    /// Records of chunks whose index has gaps, as the checkpoint had them.
    sparse: BTreeMap<Handle, Vec<Located>>,
    /// Records from the scan.
    scanned: BTreeMap<Handle, Vec<Found>>,
}

impl Loading {
    /// Takes in a chunk of the checkpoint, without its records in lives of zones that are over (`ended`).
    pub(crate) fn load(&mut self, entry: ChunkEntry, ended: &BTreeMap<ZoneId, u64>, is_data: impl Fn(ZoneId) -> bool) {
        let ChunkEntry { id, stream, sealed, birth, size, runs } = entry;
        if self.chunks.find(id).is_some() {
            return;
        }
        let mut chunk = Chunk::new(id, stream, birth);
        let lives = |zone: &ZoneId, epoch: u64| is_data(*zone) && ended.get(zone).is_none_or(|&last| epoch > last);
        let runs = || runs.iter().filter(|(run, epoch)| lives(&run.zone, *epoch)).map(|(run, _)| *run);
        let whole = runs().try_fold(0, |end, run| (run.offset == end).then_some(run.end));
        if whole == Some(size) {
            for run in runs() {
                chunk.groups.push_run(run);
            }
            chunk.groups.shrink();
            chunk.size = size;
            let handle = self.insert(chunk);
            if sealed {
                self.sealed_at.insert(handle, size);
            }
        } else {
            let handle = self.insert(chunk);
            self.sparse.insert(handle, runs().flat_map(Run::records).collect());
            if sealed {
                self.sealed_at.insert(handle, size);
            }
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
    }

    /// Replays one entry. The checkpoint may have its effect, and even later ones, already (CKPT-1).
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
            JournalEntry::Reset { .. } => {}
            JournalEntry::Mark(mark) => self.marked(&mark, sequence),
        }
    }

    /// Takes in the records of a mark of a life that is not over, as if they had been scanned (MARK-2).
    fn marked(&mut self, mark: &Mark, sequence: u64) {
        for (id, records) in mark.chunks() {
            let Some(handle) = self.chunks.find(id) else { continue };
            if self.chunks.get(handle).is_some_and(|chunk| chunk.birth < sequence) {
                let found = records.map(|record| Found { record, sequence, landed: false });
                self.scanned.entry(handle).or_default().extend(found);
            }
        }
    }

    /// Takes in a scanned record of `id` (REC-1).
    pub(crate) fn found(&mut self, id: ChunkId, found: Found) {
        let Some(handle) = self.chunks.find(id) else { return };
        if self.chunks.get(handle).is_some_and(|chunk| chunk.birth < found.sequence) {
            self.scanned.entry(handle).or_default().push(found);
        }
    }

    /// Puts every chunk together (REC-2, REC-3). Returns the table, and the chunks that are to be sealed because they
    /// have lost data.
    pub(crate) fn finish(mut self, damage: &mut Vec<Damage>) -> (ChunkTable, Vec<Handle>) {
        let mut broken = Vec::new();
        for handle in self.chunks.handles() {
            let sealed_at = self.sealed_at.get(&handle).copied();
            let sparse = self.sparse.remove(&handle);
            let scanned = self.scanned.remove(&handle).unwrap_or_default();
            let Some(chunk) = self.chunks.get_mut(handle) else { continue };
            let has_gap = complete(chunk, sparse, scanned, sealed_at);
            let lost = sealed_at.is_some_and(|size| chunk.size < size);
            if lost {
                let size = sealed_at.unwrap_or_default();
                let what = format!("was sealed at {size} bytes, but only the first {} were found", chunk.size);
                damage.push(Damage { chunk: Some(chunk.id), zone: None, what });
            } else if has_gap && sealed_at.is_none() {
                let what = format!("has records past its first missing byte, {}; it is sealed there", chunk.size);
                damage.push(Damage { chunk: Some(chunk.id), zone: None, what });
                broken.push(handle);
            }
            chunk.sealed = sealed_at.is_some();
            if chunk.sealed {
                chunk.groups.shrink();
            }
        }
        (self.chunks, broken)
    }
}

/// Completes a chunk's index from what there is. Returns whether records lie past a missing byte.
fn complete(chunk: &mut Chunk, sparse: Option<Vec<Located>>, scanned: Vec<Found>, limit: Option<u32>) -> bool {
    if sparse.is_none() && scanned.is_empty() {
        return false;
    }
    let limit = limit.unwrap_or(u32::MAX);
    // The index's own records first, then the newest, then what only landed (REC-2).
    let mut records: Vec<((bool, u64), Located)> =
        scanned.into_iter().map(|found| ((found.landed, u64::MAX - found.sequence), found.record)).collect();
    records.extend(sparse.unwrap_or_default().into_iter().map(|record| ((false, 0), record)));
    let start = chunk.groups.end();
    records.retain(|(_, record)| record.offset >= start && record.end() <= limit);
    let last = records.iter().map(|(_, record)| record.offset).max();
    for record in best_cover(records, start) {
        chunk.groups.push(record);
    }
    chunk.size = chunk.groups.end();
    last.is_some_and(|last| last > chunk.size)
}

/// Of records that overlap, those that follow each other from `start` on and reach farthest; of those that reach as far,
/// the one of lowest rank at each place.
///
/// Landed records and the larger ones that they were moved in have different ranges, and of the former some may be gone,
/// so that a choice at one place decides how far others lead.
fn best_cover(mut records: Vec<((bool, u64), Located)>, start: u32) -> Vec<Located> {
    records.sort_unstable_by_key(|&(rank, record)| (std::cmp::Reverse(record.offset), rank));
    // From the last to the first: how far each offset leads, and by which record.
    let mut ways: BTreeMap<u32, (u32, Located)> = BTreeMap::new();
    for (_, record) in records {
        let reach = ways.get(&record.end()).map_or(record.end(), |&(reach, _)| reach);
        let way = ways.entry(record.offset).or_insert((reach, record));
        if reach > way.0 {
            *way = (reach, record);
        }
    }
    let mut cover = Vec::new();
    let mut at = start;
    while let Some(&(_, record)) = ways.get(&at) {
        cover.push(record);
        at = record.end();
    }
    cover
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Stream;

    fn located(zone: u32, block: u32, offset: u32, length: u32) -> Located {
        Located { zone: ZoneId(zone), block, offset, length }
    }

    fn id() -> ChunkId {
        ChunkId::from_u64(1)
    }

    fn zones(table: &ChunkTable) -> Vec<(u32, u32)> {
        let chunk = table.get(table.find(id()).unwrap()).unwrap();
        chunk.groups.iter().map(|group| (group.zone.0, group.end)).collect()
    }

    #[test]
    fn records_of_an_earlier_chunk_of_the_same_id_do_not_count() {
        let mut loading = Loading::default();
        loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 10);
        loading.found(id(), Found { record: located(1, 1, 0, 10), sequence: 11, landed: false });
        loading.replay(JournalEntry::Delete { id: id() }, 12);
        loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 13);
        loading.found(id(), Found { record: located(1, 1, 0, 10), sequence: 11, landed: false });
        loading.found(id(), Found { record: located(1, 2, 0, 20), sequence: 14, landed: false });
        let (table, _) = loading.finish(&mut Vec::new());
        assert_eq!(zones(&table), [(1, 20)]);
    }

    #[test]
    fn a_copy_takes_the_place_of_a_record_whose_zone_was_reset() {
        let entry = ChunkEntry {
            id: id(),
            stream: Stream::Data,
            sealed: true,
            birth: 1,
            size: 30,
            runs: [(located(1, 1, 0, 10), 5), (located(2, 1, 10, 10), 6), (located(1, 2, 20, 10), 5)]
                .map(|(record, epoch)| (Run::of(record), epoch))
                .to_vec(),
        };
        let mut loading = Loading::default();
        loading.load(entry, &BTreeMap::from([(ZoneId(1), 5)]), |_| true);
        loading.found(id(), Found { record: located(3, 1, 0, 10), sequence: 20, landed: false });
        loading.found(id(), Found { record: located(3, 2, 20, 10), sequence: 21, landed: false });
        loading.found(id(), Found { record: located(3, 3, 10, 10), sequence: 22, landed: false });
        let mut damage = Vec::new();
        let (table, _) = loading.finish(&mut damage);
        assert_eq!(zones(&table), [(3, 10), (2, 20), (3, 30)], "the index's own record of 10..20 is kept");
        assert!(damage.is_empty());
    }

    #[test]
    fn moved_records_are_taken_before_what_landed_and_what_landed_goes_on_behind_them() {
        let mut loading = Loading::default();
        loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 1);
        let landed = |block, offset, length| Found {
            record: located(9, block, offset, length),
            sequence: u64::from(block),
            landed: true,
        };
        // Of 0..30 the second piece is gone with its zone; 30..50 has not moved yet; 10..40 is of no use.
        for found in [landed(50, 0, 10), landed(52, 20, 10), landed(53, 30, 5), landed(54, 35, 15)] {
            loading.found(id(), found);
        }
        loading.found(id(), Found { record: located(2, 1, 0, 30), sequence: 40, landed: false });
        loading.found(id(), Found { record: located(3, 1, 10, 30), sequence: 90, landed: false });
        let mut damage = Vec::new();
        let (table, broken) = loading.finish(&mut damage);
        assert_eq!(zones(&table), [(2, 30), (9, 50)]);
        assert!(broken.is_empty() && damage.is_empty());
    }

    #[test]
    fn a_gap_ends_a_chunk_and_is_reported() {
        let mut loading = Loading::default();
        loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 1);
        loading.found(id(), Found { record: located(1, 1, 0, 10), sequence: 2, landed: false });
        loading.found(id(), Found { record: located(1, 3, 20, 10), sequence: 4, landed: false });
        let mut damage = Vec::new();
        let (table, broken) = loading.finish(&mut damage);
        assert_eq!(zones(&table), [(1, 10)]);
        assert_eq!((broken.len(), damage.len()), (1, 1));
    }

    #[test]
    fn what_lies_past_a_seal_is_not_part_of_the_chunk() {
        let mut loading = Loading::default();
        loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 1);
        loading.found(id(), Found { record: located(1, 1, 0, 10), sequence: 2, landed: false });
        loading.found(id(), Found { record: located(1, 2, 10, 10), sequence: 3, landed: false });
        loading.replay(JournalEntry::Seal { id: id(), size: 10 }, 4);
        let mut damage = Vec::new();
        let (table, broken) = loading.finish(&mut damage);
        assert_eq!(zones(&table), [(1, 10)]);
        assert!(broken.is_empty() && damage.is_empty());
    }
}
