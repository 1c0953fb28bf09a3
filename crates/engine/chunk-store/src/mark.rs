//! Progress marks: what was recently written, in a few bytes in the journal, so that recovery need not scan for it. See
//! `docs/decisions/0011-progress-marks.md`.
//!
//! A mark names the live records of a zone between two blocks, a run of equal records once, and each chunk once. Marks
//! are made from the index by a task of their own, for all zones together whenever so much was written, and in front of
//! resets; appends only count.
//!
//! # Invariants
//! - CS-MARK-1: a mark names only records that are in the index, and so durable, when it takes its place in the journal;
//!   and of its blocks all such. Records that it leaves out there are dead, since `to` is not past `indexed_to`
//!   (CS-ZONE-3).
//! - CS-MARK-2: the chunk of each of its records lives when the mark is journaled. So the mark's own number stands for
//!   those of its records: a chunk of that id that is younger than the mark is another one (CS-REC-1).
//! - CS-MARK-3: a zone's marks adjoin, or overlap with what the checkpoint has; recovery trusts one that does not for its
//!   records, but not to cover any blocks. Such a one names the records that an opening found behind blocks that it
//!   could not read, and is the only one to reach past `indexed_to`. It too has no block between its ends that the
//!   opening could not read or judge: the checkpoint, or marks that the opening did not heed, may have more of the zone
//!   than the opening could read, and it then covers what it has.
//!   `marks_of_what_lies_between_bad_blocks_cover_none_of_them`.
//! - CS-MARK-4: where the journal wants a checkpoint, no marks are made but those that a reset needs.
//! - CS-MARK-5: no zone is reset before marks, or a checkpoint, name all that was moved, by GC or out of landing zones.
//!   Until then the original is there; from then on the copy has not only itself to say that it was durable.
//!   `a_bad_copy_costs_its_own_bytes_once_the_original_is_reset`, `copies_behind_what_cannot_be_read_are_marked_too`.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::{BLOCK_SIZE, ChunkId, ZoneId};

use crate::error::Result;
use crate::format::{JournalEntry, stream_from, stream_number};
use crate::index::{Located, Run};
use crate::state::State;
use crate::store::Inner;
use crate::types::Stream;
use crate::zones::ZoneStatus;
use shingle_base::wire::Fields;

/// The longest mark: small beside a device write of the journal.
const BYTES_MAX: usize = 16 << 10;

/// Bytes of a mark beside its chunks.
const HEAD_BYTES: usize = 26;
/// Bytes of a chunk beside its runs.
const CHUNK_BYTES: usize = 28;
/// Bytes of a run.
const RUN_BYTES: usize = 20;

/// Bit of the stream's byte: the zone is closed, and the mark reaches to its end.
const CLOSED: u8 = 0x80;

/// The run with the record that follows, if that is as long as the others.
fn with(run: Run, record: &Located) -> Option<Run> {
    (record.length == run.length && record.offset == run.end).then(|| run.extended(*record)).flatten()
}

/// A run of records of one length.
///
/// | at | size | field    | meaning                                                |
/// |---:|-----:|----------|--------------------------------------------------------|
/// |  0 |    4 | `count`  | records, at least one                                  |
/// |  4 |    4 | `offset` | of the first in its chunk                              |
/// |  8 |    4 | `length` | bytes of data of each                                  |
/// | 12 |    4 | `block`  | of the first in the zone                               |
/// | 16 |    4 | `stride` | blocks from one to the next; zero where there is one   |
fn encode_run(run: &Run, bytes: &mut Vec<u8>) {
    for field in [run.count(), run.offset, run.length, run.block, run.stride] {
        bytes.extend(field.to_le_bytes());
    }
}

/// A run of which every record lies in its chunk and between the mark's blocks.
fn decode_run(fields: &mut Fields<'_>, zone: ZoneId, from: u32, to: u32) -> Option<Run> {
    let mut field = || fields.u32();
    let (count, offset, length, block, stride) = (field()?, field()?, field()?, field()?, field()?);
    let end = offset.checked_add(count.checked_mul(length)?)?;
    let run = Run { zone, block, offset, end, length, stride };
    let within = run.is_sound() && block >= from && run.record(count.checked_sub(1)?).block < to;
    within.then_some(run)
}

/// The live records of a stretch of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub(crate) zone: ZoneId,
    /// The zone's generation.
    pub(crate) epoch: u64,
    pub(crate) stream: Stream,
    /// The zone is closed, and `to` is its end: recovery need not look at it.
    pub(crate) closed: bool,
    /// The first block.
    pub(crate) from: u32,
    /// The block behind the last.
    pub(crate) to: u32,
    chunks: BTreeMap<ChunkId, Vec<Run>>,
}

impl Mark {
    /// Bytes that the record adds.
    fn cost(&self, id: ChunkId, record: &Located) -> usize {
        match self.chunks.get(&id) {
            None => CHUNK_BYTES + RUN_BYTES,
            Some(runs) if runs.last().and_then(|&run| with(run, record)).is_some() => 0,
            Some(_) => RUN_BYTES,
        }
    }

    fn push(&mut self, id: ChunkId, record: &Located) {
        let runs = self.chunks.entry(id).or_default();
        match runs.last_mut().and_then(|last| Some((with(*last, record)?, last))) {
            Some((longer, last)) => *last = longer,
            None => runs.push(Run::of(*record)),
        }
    }

    /// Its chunks, each with its records.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (ChunkId, impl Iterator<Item = Located> + '_)> {
        self.chunks.iter().map(|(&id, runs)| (id, runs.iter().copied().flat_map(Run::records)))
    }

    /// Adds the mark to the bytes of a journal entry.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.zone.0.to_le_bytes());
        bytes.extend(self.epoch.to_le_bytes());
        bytes.push(stream_number(self.stream) | if self.closed { CLOSED } else { 0 });
        bytes.extend(self.from.to_le_bytes());
        bytes.extend(self.to.to_le_bytes());
        bytes.extend((self.chunks.len() as u32).to_le_bytes());
        for (id, runs) in &self.chunks {
            bytes.extend(id.0);
            bytes.extend((runs.len() as u32).to_le_bytes());
            runs.iter().for_each(|run| encode_run(run, bytes));
        }
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let (zone, epoch, flags) = (ZoneId(fields.u32()?), fields.u64()?, fields.u8()?);
        let (stream, closed) = (stream_from(flags & !CLOSED)?, flags & CLOSED != 0);
        let (from, to) = (fields.u32()?, fields.u32()?);
        let mut chunks = BTreeMap::new();
        for _ in 0..fields.u32()? {
            let (id, count) = (ChunkId(fields.array()?), fields.u32()?);
            let runs: Vec<Run> = (0..count).map(|_| decode_run(fields, zone, from, to)).collect::<Option<_>>()?;
            chunks.insert(id, runs);
        }
        Some(Self { zone, epoch, stream, closed, from, to, chunks })
    }
}

/// Records without a mark yet.
#[derive(Debug, Default)]
pub(crate) struct Unmarked {
    /// Blocks between marks; `None` where none are made.
    every: Option<u64>,
    /// Blocks written since the last.
    blocks: u64,
    /// Zones that have something to say.
    zones: BTreeSet<ZoneId>,
    /// Zones with records of which another copy was acknowledged, and may be reset (CS-MARK-5).
    moved: BTreeSet<ZoneId>,
    /// Stretches of zones that an opening read, behind what it could not read (CS-MARK-3).
    behind: BTreeMap<ZoneId, Vec<(u32, u32)>>,
}

impl Unmarked {
    /// Nothing, with marks due after so many bytes.
    pub(crate) fn new(every: Option<u64>) -> Self {
        Self { every: every.map(|bytes| bytes / BLOCK_SIZE as u64), ..Self::default() }
    }

    /// Blocks of a zone entered the index, or it was closed. Returns whether marks are due.
    pub(crate) fn note(&mut self, zone: ZoneId, blocks: u64) -> bool {
        let Some(every) = self.every else { return false };
        self.zones.insert(zone);
        self.blocks += blocks;
        self.blocks >= every
    }

    /// An opening read all between two blocks of a zone, and could not read what is before them.
    pub(crate) fn note_behind(&mut self, zone: ZoneId, stretch: (u32, u32)) {
        self.behind.entry(zone).or_default().push(stretch);
        self.moved.insert(zone);
    }

    /// Records that lie elsewhere, too, entered the index: the next reset waits for a mark of them, whether others are
    /// made or not.
    pub(crate) fn note_moved(&mut self, zone: ZoneId) {
        self.moved.insert(zone);
    }
}

impl State {
    /// Marks for what a zone has to say, none longer than `bytes_max`.
    fn marks_of(&self, zone: ZoneId, bytes_max: usize) -> Vec<Mark> {
        let slot = self.zones.get(zone);
        // A garbage zone may be reset, and an offline one is lost. The index of a landing zone does not have all of its
        // live records (CS-MARK-1).
        let marked = matches!(slot.status, ZoneStatus::Activated | ZoneStatus::Closed | ZoneStatus::ReadOnly);
        if !marked || slot.landing {
            return Vec::new();
        }
        let closed = slot.status == ZoneStatus::Closed && slot.indexed_to >= slot.needed_to();
        let mut marks = Vec::new();
        if slot.marked_to < slot.indexed_to || closed {
            marks = self.marks_between(zone, slot.marked_to, slot.indexed_to, bytes_max);
        }
        if let Some(last) = marks.last_mut() {
            last.closed = closed;
        }
        for &(from, to) in self.unmarked.behind.get(&zone).into_iter().flatten() {
            marks.extend(self.marks_between(zone, from, to, bytes_max));
        }
        marks
    }

    /// Marks for what lies between two blocks of a zone: one at least, none longer than `bytes_max`.
    fn marks_between(&self, zone: ZoneId, from: u32, to: u32, bytes_max: usize) -> Vec<Mark> {
        let slot = self.zones.get(zone);
        let (epoch, stream) = (slot.epoch, slot.stream);
        let new = |from| Mark { zone, epoch, stream, closed: false, from, to: from, chunks: BTreeMap::new() };
        let mut marks = Vec::new();
        let mut mark = new(from);
        let mut length = HEAD_BYTES;
        for (id, record) in self.live_records(zone, from, to) {
            let cost = mark.cost(id, &record);
            if length + cost > bytes_max && !mark.chunks.is_empty() {
                mark.to = record.block;
                let next = new(record.block);
                marks.push(std::mem::replace(&mut mark, next));
                length = HEAD_BYTES;
            }
            length += mark.cost(id, &record);
            mark.push(id, &record);
        }
        mark.to = to;
        marks.push(mark);
        marks
    }

    /// The records of a zone that live and begin between two blocks, in the order they lie.
    fn live_records(&self, zone: ZoneId, from: u32, to: u32) -> Vec<(ChunkId, Located)> {
        let mut handles = self.zones.get(zone).groups.to_vec();
        handles.sort_unstable();
        handles.dedup();
        let mut live = Vec::new();
        for chunk in handles.into_iter().filter_map(|handle| self.chunks.get(handle)) {
            for group in chunk.groups.iter().filter(|group| group.zone == zone) {
                let here = group.records().filter(|record| (from..to).contains(&record.block));
                live.extend(here.map(|record| (chunk.id, record)));
            }
        }
        live.sort_unstable_by_key(|(_, record)| record.block);
        live
    }

    /// Indexed end of every zone with records: a checkpoint that begins here covers this.
    pub(crate) fn indexed_zones(&self) -> Vec<(ZoneId, u64, u32)> {
        let entry = |&zone: &ZoneId| (zone, self.zones.get(zone).epoch, self.zones.get(zone).indexed_to);
        self.unmarked.zones.union(&self.unmarked.moved).map(entry).collect()
    }

    /// A checkpoint covers zones as far as this: later marks need not say it again.
    pub(crate) fn covered(&mut self, zones: Vec<(ZoneId, u64, u32)>) {
        for (zone, epoch, indexed_to) in zones {
            let slot = self.zones.get_mut(zone);
            if slot.epoch == epoch {
                slot.marked_to = slot.marked_to.max(indexed_to);
            }
        }
    }
}

impl Inner {
    /// Takes note of what entered the index, or of a closed zone (with no blocks).
    pub(crate) fn note_unmarked(&self, state: &mut State, zone: ZoneId, blocks: u64) {
        if state.unmarked.note(zone, blocks) {
            self.mark_wake.notify_one();
        }
    }

    /// Makes marks whenever they are due, until the store stops.
    pub(crate) async fn mark_task(self: Rc<Self>) {
        loop {
            self.mark_wake.notified().await;
            if self.state.borrow().stopped.is_some() || self.write_marks().await.is_err() {
                return;
            }
        }
    }

    /// Journals marks for all zones that have something to say.
    async fn write_marks(self: &Rc<Self>) -> Result<()> {
        let journaled = {
            let mut state = self.state.borrow_mut();
            state.running()?;
            state.unmarked.blocks = 0;
            if self.log.needs_checkpoint() {
                self.checkpoint_wake.notify_one();
                return Ok(());
            }
            let zones = std::mem::take(&mut state.unmarked.zones);
            self.journal_marks(&mut state, zones)
        };
        join_all(journaled).await.into_iter().collect()
    }

    /// Journals marks for all that was moved, in front of the entry of a reset (CS-MARK-5): they become durable with it.
    pub(crate) fn mark_moved(self: &Rc<Self>, state: &mut State) -> Vec<impl Future<Output = Result<()>> + use<>> {
        let zones = std::mem::take(&mut state.unmarked.moved);
        self.journal_marks(state, zones)
    }

    fn journal_marks(
        self: &Rc<Self>,
        state: &mut State,
        zones: BTreeSet<ZoneId>,
    ) -> Vec<impl Future<Output = Result<()>> + use<>> {
        let bytes_max = BYTES_MAX.min(self.log.entry_max()) - 1;
        let mut journaled = Vec::new();
        for zone in zones {
            let marks = state.marks_of(zone, bytes_max);
            if !marks.is_empty() {
                let slot = state.zones.get_mut(zone);
                slot.marked_to = slot.marked_to.max(slot.indexed_to);
                state.unmarked.behind.remove(&zone);
            }
            state.counters.marks += marks.len() as u64;
            journaled
                .extend(marks.into_iter().map(|mark| self.journal(JournalEntry::Mark(mark), self.sequence.next())));
        }
        journaled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: ZoneId = ZoneId(7);

    fn mark(records: &[(u64, Located)]) -> Mark {
        let (epoch, stream, chunks) = (0x99, Stream::Gc, BTreeMap::new());
        let mut mark = Mark { zone: ZONE, epoch, stream, closed: true, from: 1, to: 100, chunks };
        records.iter().for_each(|(id, record)| mark.push(ChunkId::from_u64(*id), record));
        mark
    }

    fn located(block: u32, offset: u32, length: u32) -> Located {
        Located { zone: ZONE, block, offset, length }
    }

    /// Two chunks whose equal records take turns in the zone, and one that ends with a shorter record.
    fn sample() -> Vec<(u64, Located)> {
        let mut records: Vec<(u64, Located)> =
            (0..8).map(|at| (u64::from(at % 2), located(1 + 3 * at, at / 2 * 8000, 8000))).collect();
        records.push((1, located(25, 32_000, 77)));
        records
    }

    #[test]
    fn equal_records_are_one_run() {
        let mark = mark(&sample());
        assert_eq!(mark.chunks.values().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
        let mut back: Vec<(ChunkId, Located)> = Vec::new();
        for (id, records) in mark.chunks() {
            back.extend(records.map(|record| (id, record)));
        }
        back.sort_unstable_by_key(|(_, record)| record.block);
        let expected: Vec<_> = sample().into_iter().map(|(id, record)| (ChunkId::from_u64(id), record)).collect();
        assert_eq!(back, expected);
    }

    #[test]
    fn a_mark_has_its_golden_bytes_and_comes_back() {
        let entry = JournalEntry::Mark(mark(&[(5, located(1, 0x10, 0x1000)), (5, located(4, 0x1010, 0x1000))]));
        let bytes = entry.encode();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let id = ChunkId::from_u64(5);
        let head = "0507000000990000000000000081010000006400000001000000";
        assert_eq!(hex, format!("{head}{id}010000000200000010000000001000000100000003000000"));
        assert_eq!(JournalEntry::decode(&bytes), Some(entry));
        for cut in 0..bytes.len() {
            assert_eq!(JournalEntry::decode(&bytes[..cut]), None, "cut at {cut}");
        }
        let whole = JournalEntry::Mark(mark(&sample()));
        assert_eq!(JournalEntry::decode(&whole.encode()), Some(whole));
    }

    #[test]
    fn runs_that_leave_their_chunk_or_zone_are_refused() {
        let mut bytes = JournalEntry::Mark(mark(&[(1, located(1, 0, 10))])).encode();
        bytes.truncate(bytes.len() - RUN_BYTES);
        let accepted = |fields: [u32; 5]| {
            let run = fields.into_iter().flat_map(u32::to_le_bytes);
            JournalEntry::decode(&bytes.iter().copied().chain(run).collect::<Vec<u8>>()).is_some()
        };
        let [count, offset, length, block, stride] = [3, 0, 10, 1, 2];
        assert!(accepted([count, offset, length, block, stride]));
        for bad in [
            [0, offset, length, block, stride],
            [count, offset, 0, block, stride],
            [count, offset, length, block, 0],
            [1, offset, length, block, stride],
            [count, offset, length, 0, stride],
            [count, offset, length, 96, stride],
            [count, u32::MAX - 20, length, block, stride],
            [u32::MAX, offset, length, block, stride],
        ] {
            assert!(!accepted(bad), "{bad:?}");
        }
    }
}
