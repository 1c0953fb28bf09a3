//! Steps 2 and 3: the chunk table from checkpoint parts and journal, then completed with scanned records.

use std::collections::BTreeMap;

use shingle_base::{ChunkId, ZoneId};

use crate::format::{ChunkEntry, JournalEntry};
use crate::index::{Located, Run};
use crate::mark::Mark;
use crate::recovery::report::Damage;
use crate::resumed::{Place, Resumed};
use crate::table::{Chunk, ChunkTable, Handle};

/// A record the scan found, with its sequence number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) record: Located,
    pub(crate) sequence: u64,
    /// It lies in a landing zone.
    pub(crate) landed: bool,
    pub(crate) trust: Trust,
    /// The bytes of the chunk, first and end, that lie in slices of it that fail their checks.
    pub(crate) bad: Option<(u32, u32)>,
    /// That is because they cannot be read: perhaps they can, another time.
    pub(crate) unreadable: bool,
}

/// How far a scanned record can be trusted to have been durable before the power failed (REC-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It was, and so was all of its chunk before it.
    Sure,
    /// It is whole, but something before it in the same write is torn.
    Behind,
    /// It fails its check, and nothing in its zone says that it ever was durable.
    Torn,
}

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
    /// When and where chunks were gone on with: older records past that are dead (APP-5).
    resumed: BTreeMap<Handle, Vec<Place>>,
    /// Blocks could not be read in which a later opening may find records. A zone that is away does not count: it may stay away
    /// for ever.
    pub(crate) unread: bool,
}

impl Loading {
    /// Takes in a chunk of the checkpoint, without its records in lives of zones that are over (`ended`).
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
            JournalEntry::Reset { .. } | JournalEntry::Open { .. } => {}
            JournalEntry::Mark(mark) => self.marked(&mark, sequence),
            JournalEntry::Resume { id, size } => {
                if let Some(handle) = before(&self.chunks, id) {
                    self.resumed.entry(handle).or_default().push((sequence, size));
                }
            }
        }
    }

    /// Takes in the records of a mark of a life that is not over, as if they had been scanned (MARK-2).
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

    /// Takes in a scanned record of `id` (REC-1).
    pub(crate) fn found(&mut self, id: ChunkId, found: Found) {
        let Some(handle) = self.chunks.find(id) else { return };
        if self.chunks.get(handle).is_some_and(|chunk| chunk.birth < found.sequence) {
            self.scanned.entry(handle).or_default().push(found);
        }
    }

    /// Puts every chunk together (REC-2, REC-3).
    pub(crate) fn finish(mut self, damage: &mut Vec<Damage>) -> Chunks {
        let mut places = Resumed::default();
        let mut passed_over: BTreeMap<ZoneId, u32> = BTreeMap::new();
        let mut hidden = self.unread;
        for handle in self.chunks.handles() {
            let sealed_at = self.sealed_at.get(&handle).copied();
            let (known_to, sparse) = self.sparse.remove(&handle).unzip();
            let scanned = self.scanned.remove(&handle).unwrap_or_default();
            let Some(chunk) = self.chunks.get_mut(handle) else { continue };
            let mut resumed = self.resumed.remove(&handle).unwrap_or_default();
            // A checkpoint journals them again, perhaps several did.
            resumed.sort_unstable();
            resumed.dedup();
            // Where it was last gone on with it had all bytes before, whether they are found now or not.
            let last = resumed.last();
            resumed.iter().for_each(|&place| places.note(handle, place));
            let known_to = known_to.unwrap_or(0).max(last.map_or(0, |&(_, size)| size));
            let lives = |found: &Found| {
                resumed.iter().all(|&(sequence, size)| found.sequence > sequence || found.record.end() <= size)
            };
            let scanned = scanned.into_iter().filter(lives).collect();
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
            for record in &lost.passed_over {
                let first = passed_over.entry(record.zone).or_insert(record.block);
                *first = record.block.min(*first);
            }
            chunk.sealed = sealed_at.is_some();
            if chunk.sealed {
                chunk.groups.shrink();
            }
        }
        Chunks { table: self.chunks, resumed: places, passed_over, hidden }
    }
}

/// The chunks that there are.
pub(crate) struct Chunks {
    pub(crate) table: ChunkTable,
    /// Where they were gone on with.
    pub(crate) resumed: Resumed,
    /// Zones with records that an opening which can read all has to judge, each with the block of the first.
    pub(crate) passed_over: BTreeMap<ZoneId, u32>,
    /// Blocks could not be read that have records, or may have some.
    pub(crate) hidden: bool,
}

/// Losses of a chunk: bytes that no record has, and bytes that records have but that fail their checks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lost {
    holes: Vec<(u32, u32)>,
    bad: Vec<Bad>,
    /// Torn records that could have had some of what no other has.
    passed_over: Vec<Located>,
}

/// Bytes of a chunk in a record that fail their checks.
#[derive(Debug, PartialEq, Eq)]
struct Bad {
    zone: ZoneId,
    bytes: (u32, u32),
    /// They could not be read.
    unreadable: bool,
}

/// Rank and record: the lower rank is taken where ranges are equal.
type Ranked = ((bool, u64), Located);

/// Completes a chunk's index from what there is, with holes where bytes are lost that were once durable (REC-3): those up
/// to `limit`, where the chunk was sealed, up to `known_to`, and up to any record that was durable itself.
///
/// A record that is torn for good, perhaps a copy that GC was writing, takes no place if others are `unread`, which may be better.
/// It is passed over, and an opening that can read all decides (REC-8).
fn complete(
    chunk: &mut Chunk,
    sparse: Option<Vec<Located>>,
    scanned: Vec<Found>,
    limit: Option<u32>,
    known_to: u32,
    unread: bool,
) -> Lost {
    let start = chunk.groups.end();
    let mut lost = Lost::default();
    if sparse.is_none() && scanned.is_empty() && limit.unwrap_or(0).max(known_to) <= start {
        return lost;
    }
    let end = limit.unwrap_or(u32::MAX);
    let scanned: Vec<Found> =
        scanned.into_iter().filter(|found| found.record.offset >= start && found.record.end() <= end).collect();
    // Up to here the chunk was durable: what is missing is lost.
    let sure = scanned.iter().filter(|found| found.trust == Trust::Sure);
    let sure = sure.map(|found| if found.bad.is_some() { found.record.end() } else { found.record.offset });
    let sure_to = sure.max().unwrap_or(0).max(limit.unwrap_or(0)).max(known_to);
    // The index's own records first, then the newest, then what only landed (REC-2).
    let rank = |found: &Found| ((found.landed, u64::MAX - found.sequence), found.record);
    let mut whole: Vec<Ranked> = scanned.iter().filter(|found| found.bad.is_none()).map(rank).collect();
    whole.extend(sparse.unwrap_or_default().into_iter().filter(|record| record.end() <= end).map(|r| ((false, 0), r)));
    // Records with bad slices have what nothing else has. First those that a later opening may be able to read: a record
    // that is passed over is forgotten once its zone is reset.
    let spoilt: Vec<Found> = scanned.into_iter().filter(|found| found.bad.is_some()).collect();
    let tier = |wanted: fn(&Found) -> bool| spoilt.iter().filter(|found| wanted(found)).map(rank).collect();
    let tiers: [Vec<Ranked>; 5] = [
        whole,
        tier(|found| found.trust != Trust::Torn && found.unreadable),
        tier(|found| found.trust != Trust::Torn && !found.unreadable),
        tier(|found| found.trust == Trust::Torn && found.unreadable),
        if unread { Vec::new() } else { tier(torn_for_good) },
    ];
    for step in steps(&tiers, start, sure_to) {
        match step {
            Step::Record(record) => {
                let bad = spoilt.iter().find(|found| found.record == record);
                let bad = bad.and_then(|&Found { bad, unreadable, .. }| Some((bad?, unreadable)));
                lost.bad.extend(bad.map(|(bytes, unreadable)| Bad { zone: record.zone, bytes, unreadable }));
                chunk.groups.push(record);
            }
            Step::Hole(from, to) => lost.holes.push((from, to)),
        }
    }
    if unread {
        let passed = spoilt.iter().filter(|found| torn_for_good(found)).map(|found| found.record);
        let missing = |record: &Located| {
            let in_hole = |&(from, to): &(u32, u32)| record.offset < to && from < record.end();
            record.end() > chunk.groups.end() || lost.holes.iter().any(in_hole)
        };
        lost.passed_over = passed.filter(missing).collect();
    }
    chunk.size = chunk.groups.end().max(sure_to);
    lost
}

fn torn_for_good(found: &Found) -> bool {
    found.trust == Trust::Torn && !found.unreadable
}

/// A step from a chunk's start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Record(Located),
    Hole(u32, u32),
}

/// The steps through the first tier, and those through the others where that has holes.
fn steps(tiers: &[Vec<Ranked>], start: u32, sure_to: u32) -> Vec<Step> {
    let Some((first, others)) = tiers.split_first() else { return vec![Step::Hole(start, sure_to)] };
    let mut all = Vec::new();
    for step in cover(first.clone(), start, sure_to) {
        match step {
            Step::Record(_) => all.push(step),
            Step::Hole(from, to) => {
                let within = |record: &Located| record.offset >= from && record.end() <= to;
                let others: Vec<Vec<Ranked>> = others
                    .iter()
                    .map(|tier| tier.iter().copied().filter(|(_, record)| within(record)).collect())
                    .collect();
                all.extend(steps(&others, from, to));
            }
        }
    }
    all
}

/// Of records that overlap, those that follow each other from `start` on and reach farthest; of those that reach as far,
/// the one of lowest rank at each place. Where none goes on there is a hole, if it lies before `sure_to`; else the end.
///
/// Landed records and the larger ones that they were moved in have different ranges, and of the former some may be gone,
/// so that a choice at one place decides how far others lead.
fn cover(mut records: Vec<Ranked>, start: u32, sure_to: u32) -> Vec<Step> {
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
    let mut steps = Vec::new();
    let mut at = start;
    loop {
        if let Some(&(_, record)) = ways.get(&at) {
            steps.push(Step::Record(record));
            at = record.end();
        } else if at < sure_to {
            let next = ways.range(at..).next().map_or(sure_to, |(&next, _)| next.min(sure_to));
            steps.push(Step::Hole(at, next));
            at = next;
        } else {
            return steps;
        }
    }
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
        loading.found(
            id(),
            Found {
                record: located(1, 1, 0, 10),
                sequence: 11,
                landed: false,
                trust: Trust::Sure,
                bad: None,
                unreadable: false,
            },
        );
        loading.replay(JournalEntry::Delete { id: id() }, 12);
        loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 13);
        loading.found(
            id(),
            Found {
                record: located(1, 1, 0, 10),
                sequence: 11,
                landed: false,
                trust: Trust::Sure,
                bad: None,
                unreadable: false,
            },
        );
        loading.found(
            id(),
            Found {
                record: located(1, 2, 0, 20),
                sequence: 14,
                landed: false,
                trust: Trust::Sure,
                bad: None,
                unreadable: false,
            },
        );
        let Chunks { table, .. } = loading.finish(&mut Vec::new());
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
            since: 0,
            runs: [(located(1, 1, 0, 10), 5), (located(2, 1, 10, 10), 6), (located(1, 2, 20, 10), 5)]
                .map(|(record, epoch)| (Run::of(record), epoch))
                .to_vec(),
        };
        let mut loading = Loading::default();
        loading.load(entry, &BTreeMap::from([(ZoneId(1), 5)]), |_| true);
        loading.found(
            id(),
            Found {
                record: located(3, 1, 0, 10),
                sequence: 20,
                landed: false,
                trust: Trust::Sure,
                bad: None,
                unreadable: false,
            },
        );
        loading.found(
            id(),
            Found {
                record: located(3, 2, 20, 10),
                sequence: 21,
                landed: false,
                trust: Trust::Sure,
                bad: None,
                unreadable: false,
            },
        );
        loading.found(
            id(),
            Found {
                record: located(3, 3, 10, 10),
                sequence: 22,
                landed: false,
                trust: Trust::Sure,
                bad: None,
                unreadable: false,
            },
        );
        let mut damage = Vec::new();
        let Chunks { table, .. } = loading.finish(&mut damage);
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
            trust: Trust::Sure,
            bad: None,
            unreadable: false,
        };
        // Of 0..30 the second piece is gone with its zone; 30..50 has not moved yet; 10..40 is of no use.
        for found in [landed(50, 0, 10), landed(52, 20, 10), landed(53, 30, 5), landed(54, 35, 15)] {
            loading.found(id(), found);
        }
        loading.found(
            id(),
            Found {
                record: located(2, 1, 0, 30),
                sequence: 40,
                landed: false,
                trust: Trust::Sure,
                bad: None,
                unreadable: false,
            },
        );
        loading.found(
            id(),
            Found {
                record: located(3, 1, 10, 30),
                sequence: 90,
                landed: false,
                trust: Trust::Sure,
                bad: None,
                unreadable: false,
            },
        );
        let mut damage = Vec::new();
        let Chunks { table, .. } = loading.finish(&mut damage);
        assert_eq!(zones(&table), [(2, 30), (9, 50)]);
        assert!(damage.is_empty());
    }

    fn found(block: u32, offset: u32, trust: Trust, bad: Option<(u32, u32)>) -> Found {
        Found {
            record: located(1, block, offset, 10),
            sequence: u64::from(block),
            landed: false,
            trust,
            bad,
            unreadable: false,
        }
    }

    /// The damage of a chunk of which these records were found; where its records end, and its size.
    fn completed(records: &[Found], sealed_at: Option<u32>) -> (Vec<String>, u32, u32) {
        let mut loading = Loading::default();
        loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 1);
        records.iter().for_each(|&found| loading.found(id(), found));
        if let Some(size) = sealed_at {
            loading.replay(JournalEntry::Seal { id: id(), size }, 1000);
        }
        let mut damage = Vec::new();
        let Chunks { table, .. } = loading.finish(&mut damage);
        let chunk = table.get(table.find(id()).unwrap()).unwrap();
        let what = damage.into_iter().map(|damage| damage.what).collect();
        (what, chunk.groups.end(), chunk.size)
    }

    #[test]
    fn a_hole_is_reported_and_what_lies_behind_it_is_kept() {
        let records = [found(2, 0, Trust::Sure, None), found(4, 20, Trust::Sure, None)];
        let hole = |to: u32| format!("bytes 10 to {to} are lost: no record of them was found");
        assert_eq!(completed(&records, None), (vec![hole(20)], 30, 30));
        assert_eq!(completed(&records, Some(30)), (vec![hole(20)], 30, 30), "one that is sealed stays so");
        assert_eq!(completed(&records[..1], Some(30)), (vec![hole(30)], 10, 30), "its end may be lost, too");
    }

    #[test]
    fn a_tear_ends_a_chunk_and_is_no_damage() {
        let behind = [found(2, 0, Trust::Sure, None), found(4, 20, Trust::Behind, None)];
        assert_eq!(completed(&behind, None), (vec![], 10, 10));
        let torn = [found(2, 0, Trust::Sure, None), found(3, 10, Trust::Torn, Some((10, 20))), behind[1]];
        assert_eq!(completed(&torn, None), (vec![], 10, 10));
        let adjoins = [found(2, 0, Trust::Sure, None), found(4, 10, Trust::Behind, None)];
        assert_eq!(completed(&adjoins, None), (vec![], 20, 20), "what is there all the same is whole");
    }

    #[test]
    fn a_record_with_bad_slices_keeps_its_place_if_it_was_durable() {
        let bad = "bytes 12 to 15 cannot be read, or fail their check".to_owned();
        let records = |trust| [found(2, 0, Trust::Sure, None), found(3, 10, trust, Some((12, 15)))];
        assert_eq!(completed(&records(Trust::Sure), None), (vec![bad.clone()], 20, 20));
        assert_eq!(completed(&records(Trust::Torn), Some(20)), (vec![bad.clone()], 20, 20), "the seal says so");
        let [first, torn] = records(Trust::Torn);
        let later = [first, torn, found(9, 20, Trust::Sure, None)];
        assert_eq!(completed(&later, None), (vec![bad], 30, 30), "a later record says so");
        let copied = [first, torn, Found { sequence: 2, ..found(7, 10, Trust::Sure, None) }];
        assert_eq!(completed(&copied, None), (vec![], 20, 20), "a whole copy is taken first");
    }

    /// A landed record that cannot be read now, and a torn copy of it in its chunk's zone: the copy will never be better.
    #[test]
    fn of_bad_copies_that_is_taken_that_may_be_read_again() {
        let torn = Found { record: located(2, 9, 0, 20), ..found(9, 0, Trust::Torn, Some((4, 5))) };
        let landed = Found { landed: true, unreadable: true, ..found(3, 0, Trust::Sure, Some((0, 10))) };
        let next = Found { record: located(1, 50, 10, 5), ..found(50, 10, Trust::Sure, None) };
        let bad = "bytes 0 to 10 cannot be read, or fail their check".to_owned();
        assert_eq!(completed(&[torn, landed, next], None), (vec![bad.clone()], 15, 15));
        let rotten = Found { record: located(2, 9, 0, 10), ..found(9, 0, Trust::Sure, Some((4, 5))) };
        assert_eq!(completed(&[rotten, landed, next], None), (vec![bad], 15, 15));
    }

    /// REC-8: a copy that GC was writing when the power failed, and an original that this opening cannot see. The next one can.
    #[test]
    fn a_torn_copy_does_not_take_the_place_of_a_record_that_may_be_read_later() {
        let torn = found(9, 0, Trust::Torn, Some((0, 10)));
        let next = found(50, 10, Trust::Sure, None);
        for unread in [true, false] {
            let mut loading = Loading { unread, ..Loading::default() };
            loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 1);
            [torn, next].into_iter().for_each(|found| loading.found(id(), found));
            let mut damage = Vec::new();
            let Chunks { table, passed_over, .. } = loading.finish(&mut damage);
            let chunk = table.get(table.find(id()).unwrap()).unwrap();
            let first = chunk.groups.iter().next().map(|group| group.start());
            assert_eq!((first, chunk.size, damage.len()), (Some(if unread { 10 } else { 0 }), 20, 1), "{unread}");
            let held = passed_over.into_iter().collect::<Vec<_>>();
            assert_eq!(held, if unread { vec![(torn.record.zone, 9)] } else { vec![] }, "{unread}");
        }
    }

    /// APP-5: the entry says that all before its place was durable, and that older records past it are dead.
    #[test]
    fn a_chunk_that_was_gone_on_with_has_all_bytes_before_that_place() {
        let resumed = |found: &[Found]| {
            let mut loading = Loading::default();
            loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 1);
            found.iter().for_each(|&found| loading.found(id(), found));
            loading.replay(JournalEntry::Resume { id: id(), size: 20 }, 30);
            let mut damage = Vec::new();
            let Chunks { table, resumed, .. } = loading.finish(&mut damage);
            assert_eq!(resumed.iter().map(|(_, place)| place).collect::<Vec<_>>(), [(30, 20)]);
            let chunk = table.get(table.find(id()).unwrap()).unwrap();
            (chunk.groups.end(), chunk.size, damage.len())
        };
        let [first, second, dead] = [(2, 0), (3, 10), (4, 20)].map(|(block, at)| found(block, at, Trust::Sure, None));
        let newer = found(40, 20, Trust::Sure, None);
        assert_eq!(resumed(&[first, second, dead]), (20, 20, 0));
        assert_eq!(resumed(&[first, dead]), (10, 20, 1), "its end is lost");
        assert_eq!(resumed(&[first, second, dead, newer]), (30, 30, 0));
    }

    #[test]
    fn what_lies_past_a_seal_is_not_part_of_the_chunk() {
        let mut loading = Loading::default();
        loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 1);
        loading.found(
            id(),
            Found {
                record: located(1, 1, 0, 10),
                sequence: 2,
                landed: false,
                trust: Trust::Sure,
                bad: None,
                unreadable: false,
            },
        );
        loading.found(
            id(),
            Found {
                record: located(1, 2, 10, 10),
                sequence: 3,
                landed: false,
                trust: Trust::Sure,
                bad: None,
                unreadable: false,
            },
        );
        loading.replay(JournalEntry::Seal { id: id(), size: 10 }, 4);
        let mut damage = Vec::new();
        let Chunks { table, .. } = loading.finish(&mut damage);
        assert_eq!(zones(&table), [(1, 10)]);
        assert!(damage.is_empty());
    }
}
