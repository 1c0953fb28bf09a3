//! The records of one chunk in one zone: equal ones as runs. (Beyond SMRstore, section 6.5, which has an entry a record
//! and says that they compress; decision 0010.)
//!
//! A chunk that owns its zone, or shares it with others in equal turns, has records of one length at one distance: a run
//! of any number of them takes no more memory than two that differ.
//!
//! # Invariants
//! - IDX-2: the records of a group lie in one zone and cover a consecutive range of the chunk.
//! - IDX-3: a run's data ends where the next one's begins, so that a lone record needs two numbers, 8 bytes, and a run
//!   of any length four.
//! - IDX-4: all records of a run are equally long but the last, which may be shorter, and begin `stride` blocks apart.

use shingle_base::{Blocks, ZoneId};
use shingle_record::sliced_record_blocks;

/// Zones have fewer blocks than this: two bits of a block's number tell entries apart.
pub(crate) const ZONE_BLOCKS_MAX: u64 = 1 << 30;

/// A record as found through the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) zone: ZoneId,
    pub(crate) block: u32,
    /// Bytes from the chunk's start.
    pub(crate) offset: u32,
    /// Bytes of data.
    pub(crate) length: u32,
}

impl Located {
    pub(crate) fn end(&self) -> u32 {
        self.offset + self.length
    }

    /// The record's length in its zone.
    pub(crate) fn blocks(&self) -> Blocks {
        sliced_record_blocks(u64::from(self.length))
    }
}

/// Consecutive records of a chunk at equal distances in a zone (IDX-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) zone: ZoneId,
    /// Where the first record begins in the zone.
    pub(crate) block: u32,
    /// Where its data begins in the chunk.
    pub(crate) offset: u32,
    /// Where the last record's data ends in the chunk.
    pub(crate) end: u32,
    /// Bytes of every record's data; the last may have fewer.
    pub(crate) length: u32,
    /// Blocks from each record to the next; zero if there is one only.
    pub(crate) stride: u32,
}

impl Run {
    /// A run of one record.
    pub(crate) fn of(record: Located) -> Self {
        let Located { zone, block, offset, length } = record;
        Self { zone, block, offset, end: record.end(), length, stride: 0 }
    }

    /// Number of records.
    pub(crate) fn count(&self) -> u32 {
        if self.stride == 0 { 1 } else { (self.end - self.offset).div_ceil(self.length) }
    }

    /// The record of that number, from 0.
    pub(crate) fn record(&self, number: u32) -> Located {
        let offset = self.offset + number * self.length;
        let length = self.length.min(self.end - offset);
        Located { zone: self.zone, block: self.block + number * self.stride, offset, length }
    }

    /// The number of the record that holds `offset`, which must lie in the run.
    fn holding(&self, offset: u32) -> u32 {
        if self.stride == 0 { 0 } else { (offset - self.offset) / self.length }
    }

    pub(crate) fn records(self) -> impl Iterator<Item = Located> {
        (0..self.count()).map(move |number| self.record(number))
    }

    /// The blocks that the records take.
    pub(crate) fn blocks(&self) -> Blocks {
        let last = self.count() - 1;
        Blocks(sliced_record_blocks(u64::from(self.length)).0 * u64::from(last)) + self.record(last).blocks()
    }

    /// The run with one more record, if that goes on as it does.
    fn extended(&self, next: Located) -> Option<Self> {
        debug_assert!(next.zone == self.zone && next.offset == self.end, "IDX-2");
        // A shorter record was the last.
        if next.length > self.length || !(self.end - self.offset).is_multiple_of(self.length) {
            return None;
        }
        let last = self.block + (self.count() - 1) * self.stride;
        let stride = next.block.checked_sub(last).filter(|&stride| stride > 0)?;
        (self.stride == 0 || self.stride == stride).then_some(Self { end: next.end(), stride, ..*self })
    }

    /// What the run makes no sense for, if it came from a drive.
    pub(crate) fn is_sound(&self) -> bool {
        let Some(bytes) = self.end.checked_sub(self.offset).filter(|&bytes| bytes > 0) else { return false };
        if self.length == 0 || self.length > bytes || (self.stride == 0 && self.length != bytes) {
            return false;
        }
        let last = u64::from(self.block) + u64::from(self.count() - 1) * u64::from(self.stride);
        (self.stride == 0 || self.length < bytes) && last < ZONE_BLOCKS_MAX
    }
}

/// A lone record: offset in the chunk, block in the zone. The head of a run: the same, marked. A run's second entry:
/// length and stride, marked. So a list of them can be searched from any entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    first: u32,
    second: u32,
}

const _: () = assert!(size_of::<Entry>() == 8);

impl Entry {
    /// Marks the head of a run.
    const HEAD: u32 = 1 << 31;
    /// Marks a run's second entry.
    const REST: u32 = 1 << 30;

    fn is_rest(self) -> bool {
        self.second & Self::REST != 0
    }

    /// Entries of the run that begins here.
    fn width(self) -> usize {
        if self.second & Self::HEAD != 0 { 2 } else { 1 }
    }

    fn block(self) -> u32 {
        self.second & !(Self::HEAD | Self::REST)
    }
}

/// The runs of a group. Most groups of large chunks have one, which needs no memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Runs {
    One { block: u32, offset: u32, length: u32, stride: u32 },
    List(Vec<Entry>),
}

/// The records of one chunk in one zone that cover a consecutive range of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexGroup {
    pub(crate) zone: ZoneId,
    /// Where the last record's data ends in the chunk.
    pub(crate) end: u32,
    runs: Runs,
}

const _: () = assert!(size_of::<IndexGroup>() == 32);

impl IndexGroup {
    /// A group of one run.
    pub(crate) fn new(run: Run) -> Self {
        let Run { zone, block, offset, end, length, stride } = run;
        Self { zone, end, runs: Runs::One { block, offset, length, stride } }
    }

    /// Where the group begins in the chunk.
    pub(crate) fn start(&self) -> u32 {
        match &self.runs {
            Runs::One { offset, .. } => *offset,
            Runs::List(entries) => entries[0].first,
        }
    }

    /// Adds the record that follows the group's last in the chunk.
    pub(crate) fn push(&mut self, record: Located) {
        let last = self.last();
        match last.extended(record) {
            None => self.add(Run::of(record)),
            Some(longer) => {
                self.end = longer.end;
                if last.stride == 0 {
                    self.lengthen(longer);
                }
            }
        }
    }

    /// Lets the last run, of one record so far, be `longer`.
    fn lengthen(&mut self, longer: Run) {
        match &mut self.runs {
            Runs::One { stride, .. } => *stride = longer.stride,
            Runs::List(entries) => {
                grow(entries, 1);
                if let Some(last) = entries.last_mut() {
                    last.second |= Entry::HEAD;
                }
                entries.push(Entry { first: longer.length, second: longer.stride | Entry::REST });
            }
        }
    }

    /// Adds the run that follows the group's last in the chunk.
    pub(crate) fn add(&mut self, run: Run) {
        debug_assert!(run.zone == self.zone && run.offset == self.end, "IDX-2");
        if let Runs::One { .. } = self.runs {
            let mut entries = Vec::with_capacity(4);
            put(&mut entries, self.last());
            self.runs = Runs::List(entries);
        }
        if let Runs::List(entries) = &mut self.runs {
            grow(entries, 2);
            put(entries, run);
        }
        self.end = run.end;
    }

    /// Gives back memory that no record uses.
    pub(crate) fn shrink(&mut self) {
        if let Runs::List(entries) = &mut self.runs {
            entries.shrink_to_fit();
        }
    }

    /// Bytes of memory beside the group itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.runs {
            Runs::One { .. } => 0,
            Runs::List(entries) => entries.capacity() * size_of::<Entry>(),
        }
    }

    /// All runs.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (run, next) = self.run(at)?;
            at = next;
            Some(run)
        })
    }

    /// All records.
    pub(crate) fn records(&self) -> impl Iterator<Item = Located> + '_ {
        self.runs().flat_map(Run::records)
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.runs().map(|run| run.count() as usize).sum()
    }

    /// The blocks that the records take.
    pub(crate) fn blocks(&self) -> Blocks {
        self.runs().map(|run| run.blocks()).sum()
    }

    /// The records from the one that holds `offset`, which must lie in the group.
    pub(crate) fn records_from(&self, offset: u32) -> impl Iterator<Item = Located> + '_ {
        let mut at = self.holding(offset);
        let mut current = None;
        std::iter::from_fn(move || {
            let (run, number) = match current {
                Some((run, number)) if number < Run::count(&run) => (run, number),
                _ => {
                    let (run, next) = self.run(at)?;
                    at = next;
                    (run, if offset > run.offset { run.holding(offset) } else { 0 })
                }
            };
            current = Some((run, number + 1));
            Some(run.record(number))
        })
    }

    /// The run whose head is entry `at`, and the place of the next one's.
    fn run(&self, at: usize) -> Option<(Run, usize)> {
        match &self.runs {
            Runs::One { block, offset, length, stride } => {
                let (block, offset, length, stride) = (*block, *offset, *length, *stride);
                (at == 0).then_some((Run { zone: self.zone, block, offset, end: self.end, length, stride }, 1))
            }
            Runs::List(entries) => {
                let head = *entries.get(at)?;
                let next = at + head.width();
                let (offset, end) = (head.first, entries.get(next).map_or(self.end, |next| next.first));
                let (length, stride) = match entries.get(at + 1) {
                    Some(rest) if rest.is_rest() => (rest.first, rest.block()),
                    _ => (end - offset, 0),
                };
                Some((Run { zone: self.zone, block: head.block(), offset, end, length, stride }, next))
            }
        }
    }

    fn last(&self) -> Run {
        let at = match &self.runs {
            Runs::List(entries) if entries.last().is_some_and(|entry| entry.is_rest()) => entries.len() - 2,
            Runs::List(entries) => entries.len() - 1,
            Runs::One { .. } => 0,
        };
        // A group is never empty.
        let (run, _) = self.run(at).unwrap_or_else(|| unreachable!("IDX-2"));
        run
    }

    /// The entry at which the run that holds `offset` begins.
    fn holding(&self, offset: u32) -> usize {
        let Runs::List(entries) = &self.runs else { return 0 };
        // A head at or before `offset`, and an end past which all heads lie after it.
        let (mut low, mut high) = (0, entries.len());
        loop {
            let next = low + entries[low].width();
            if next >= high {
                return low;
            }
            let middle = next + (high - next) / 2;
            // `next` is a head, so this one's head is not before it.
            let middle = middle - usize::from(entries[middle].is_rest());
            if entries[middle].first <= offset { low = middle } else { high = middle }
        }
    }
}

/// Makes room: an eighth more, not twice as much, since entries are most of the engine's memory.
fn grow(entries: &mut Vec<Entry>, more: usize) {
    if entries.capacity() - entries.len() < more {
        entries.reserve_exact((entries.len() / 8).max(4));
    }
}

fn put(entries: &mut Vec<Entry>, run: Run) {
    debug_assert!(u64::from(run.block) < ZONE_BLOCKS_MAX && u64::from(run.stride) < ZONE_BLOCKS_MAX);
    if run.stride == 0 {
        entries.push(Entry { first: run.offset, second: run.block });
    } else {
        entries.push(Entry { first: run.offset, second: run.block | Entry::HEAD });
        entries.push(Entry { first: run.length, second: run.stride | Entry::REST });
    }
}
