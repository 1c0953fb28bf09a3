//! A progress mark: the live records of a stretch of a zone, in few bytes of the journal.

use std::collections::BTreeMap;

use shingle_base::wire::Fields;
use shingle_base::{ChunkId, ZoneId};

use crate::format::{stream_from, stream_number};
use crate::index::{Located, Run};
use crate::types::Stream;

/// Bytes of a mark beside its chunks.
pub(crate) const HEAD_BYTES: usize = 26;
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
    /// A mark of nothing yet, from that block on.
    pub(crate) fn new(zone: ZoneId, epoch: u64, stream: Stream, from: u32) -> Self {
        Self { zone, epoch, stream, closed: false, from, to: from, chunks: BTreeMap::new() }
    }

    /// True if it names no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Records that it names.
    pub(crate) fn records(&self) -> u64 {
        self.chunks.values().flatten().map(|run| u64::from(run.count())).sum()
    }

    /// Bytes that the record adds.
    pub(crate) fn cost(&self, id: ChunkId, record: &Located) -> usize {
        match self.chunks.get(&id) {
            None => CHUNK_BYTES + RUN_BYTES,
            Some(runs) if runs.last().and_then(|&run| with(run, record)).is_some() => 0,
            Some(_) => RUN_BYTES,
        }
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, id: ChunkId, record: &Located) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::JournalEntry;

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
