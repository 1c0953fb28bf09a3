//! The records of one chunk in one zone: equal ones as runs. (Beyond SMRstore, section 6.5, which has an entry a record
//! and says that they compress; decision 0010.)
//!
//! A chunk that owns its zone, or shares it with others in equal turns, has records of one length at one distance: a run
//! of any number of them takes no more memory than two that differ. Records of many lengths that lie side by side take
//! half of what lone ones do: where each begins in the zone follows from the lengths before it.
//!
//! # Invariants
//! - CS-IDX-2: the records of a group lie in one zone and cover a consecutive range of the chunk.
//! - CS-IDX-3: a run's data ends where the next one's begins, so that a lone record needs two numbers, 8 bytes, and a run
//!   of any length four.
//! - CS-IDX-4: all records of a run are equally long but the last, which may be shorter, and begin `stride` blocks apart.
//! - CS-IDX-5: no group takes more than 8 bytes a record.

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

/// Consecutive records of a chunk at equal distances in a zone (CS-IDX-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) zone: ZoneId,
    /// Block of the first record in the zone.
    pub(crate) block: u32,
    /// Offset of its data in the chunk.
    pub(crate) offset: u32,
    /// End of the last record's data in the chunk.
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

    /// True if a record begins in the zone at the end of the run's last.
    fn adjoins(&self, next: Located) -> bool {
        let last = self.record(self.count() - 1);
        u64::from(next.block) == u64::from(last.block) + last.blocks().0
    }

    /// The run with one more record, if that goes on as it does.
    pub(crate) fn extended(&self, next: Located) -> Option<Self> {
        debug_assert!(next.zone == self.zone && next.offset == self.end, "CS-IDX-2");
        // A shorter record is the last; one that follows a lone record begins no run.
        let fits = if self.stride == 0 { next.length == self.length } else { next.length <= self.length };
        if !fits || !(self.end - self.offset).is_multiple_of(self.length) {
            return None;
        }
        let last = self.block + (self.count() - 1) * self.stride;
        let stride = next.block.checked_sub(last).filter(|&stride| stride > 0)?;
        (self.stride == 0 || self.stride == stride).then_some(Self { end: next.end(), stride, ..*self })
    }

    /// True if the run makes sense, if it came from a drive.
    pub(crate) fn is_sound(&self) -> bool {
        let Some(bytes) = self.end.checked_sub(self.offset).filter(|&bytes| bytes > 0) else { return false };
        if self.length == 0 || self.length > bytes || (self.stride == 0 && self.length != bytes) {
            return false;
        }
        let last = u64::from(self.block) + u64::from(self.count() - 1) * u64::from(self.stride);
        (self.stride == 0 || self.length < bytes) && last < ZONE_BLOCKS_MAX
    }
}

/// Element of groups' lists. A list can be searched from any entry, since heads and the rest differ.
///
/// | entry | first | second |
/// |---|---|---|
/// | lone record | offset in the chunk | block in the zone |
/// | head of a run | the same | the same, with [`HEAD`](Self::HEAD) |
/// | second entry of a run | length | stride, with [`REST`](Self::REST) |
/// | after a lone record: two that lie behind it, side by side | offset from its own | the same, with `REST`; or 0 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    first: u32,
    second: u32,
}

/// Pairs that follow a lone record at most: the blocks before a record are summed up to find it.
const PAIRS_MAX: usize = 7;

const _: () = assert!(size_of::<Entry>() == 8);

impl Entry {
    /// Marks the head of a run.
    const HEAD: u32 = 1 << 31;
    /// Marks a run's second entry.
    const REST: u32 = 1 << 30;

    fn is_rest(self) -> bool {
        self.second & Self::REST != 0
    }

    fn is_run(self) -> bool {
        self.second & Self::HEAD != 0
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
    /// End of the last record's data in the chunk.
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

    /// Start of the group in the chunk.
    pub(crate) fn start(&self) -> u32 {
        match &self.runs {
            Runs::One { offset, .. } => *offset,
            Runs::List(entries) => entries[0].first,
        }
    }

    /// Adds the record that follows the group's last in the chunk.
    pub(crate) fn push(&mut self, record: Located) {
        let (at, last, parts) = self.last();
        if parts == 1
            && let Some(longer) = last.extended(record)
        {
            self.end = longer.end;
            if last.stride == 0 {
                self.lengthen(longer);
            }
        } else if last.stride == 0
            && last.length != record.length
            && last.adjoins(record)
            && self.pair(at, parts, record)
        {
            self.end = record.end();
        } else {
            self.add(Run::of(record));
        }
    }

    /// Puts a record behind the lone one at entry `at`, which has `parts - 1` there, if it has room.
    fn pair(&mut self, at: usize, parts: usize, record: Located) -> bool {
        let start = match &self.runs {
            Runs::One { offset, .. } => *offset,
            Runs::List(entries) => entries[at].first,
        };
        let offset = record.offset - start;
        if parts > 2 * PAIRS_MAX || offset >= Entry::REST {
            return false;
        }
        let entries = self.list();
        match entries.last_mut() {
            Some(pair) if parts.is_multiple_of(2) => pair.second |= offset,
            _ => {
                grow(entries, 1);
                entries.push(Entry { first: offset, second: Entry::REST });
            }
        }
        true
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
        debug_assert!(run.zone == self.zone && run.offset == self.end, "CS-IDX-2");
        let entries = self.list();
        grow(entries, 2);
        put(entries, run);
        self.end = run.end;
    }

    /// The entries, which a group of one run has none of until then.
    fn list(&mut self) -> &mut Vec<Entry> {
        if let Runs::One { .. } = self.runs {
            let mut entries = Vec::with_capacity(4);
            let (_, run, _) = self.last();
            put(&mut entries, run);
            self.runs = Runs::List(entries);
        }
        match &mut self.runs {
            Runs::List(entries) => entries,
            Runs::One { .. } => unreachable!("it was made a list"),
        }
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

    /// All runs; those of one record, too, whose entries are shared.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        let mut cursor = Cursor::default();
        std::iter::from_fn(move || self.next_run(&mut cursor))
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
        let mut cursor = Cursor { at: self.holding(offset), ..Cursor::default() };
        let first = std::iter::from_fn(|| self.next_run(&mut cursor)).find(|run| run.end > offset);
        let first =
            first.into_iter().flat_map(move |run| (run.holding(offset)..run.count()).map(move |n| run.record(n)));
        first.chain(std::iter::from_fn(move || self.next_run(&mut cursor)).flat_map(Run::records))
    }

    /// The run at the cursor, which goes on to the next.
    fn next_run(&self, cursor: &mut Cursor) -> Option<Run> {
        let (zone, Cursor { at, part, block }) = (self.zone, *cursor);
        let entries = match &self.runs {
            Runs::List(entries) => entries,
            Runs::One { block, offset, length, stride } => {
                cursor.at = 1;
                let (block, offset, length, stride) = (*block, *offset, *length, *stride);
                return (at == 0).then_some(Run { zone, block, offset, end: self.end, length, stride });
            }
        };
        let head = *entries.get(at)?;
        let start = |at: usize| entries.get(at).map_or(self.end, |next| next.first);
        if head.is_run() {
            let rest = *entries.get(at + 1)?;
            *cursor = Cursor { at: at + 2, ..Cursor::default() };
            let (length, stride) = (rest.first, rest.block());
            return Some(Run { zone, block: head.block(), offset: head.first, end: start(at + 2), length, stride });
        }
        // A lone record, or one of those behind it.
        let block = if part == 0 { head.block() } else { block };
        let behind = |part: usize| {
            let pair = entries.get(at + part.div_ceil(2)).filter(|pair| pair.is_rest())?;
            let offset = if part % 2 == 1 { pair.first } else { pair.block() };
            (offset > 0).then_some(head.first + offset)
        };
        let offset = if part == 0 { head.first } else { behind(part)? };
        let end = match behind(part + 1) {
            Some(end) => {
                let blocks = sliced_record_blocks(u64::from(end - offset)).0 as u32;
                *cursor = Cursor { at, part: part + 1, block: block + blocks };
                end
            }
            None => {
                *cursor = Cursor { at: at + 1 + part.div_ceil(2), ..Cursor::default() };
                start(cursor.at)
            }
        };
        Some(Run { zone, block, offset, end, length: end - offset, stride: 0 })
    }

    /// The last run, the entry it begins at, and which of the records that begin there it is, from 1.
    fn last(&self) -> (usize, Run, usize) {
        let at = match &self.runs {
            Runs::One { .. } => 0,
            Runs::List(entries) => head_of(entries, entries.len() - 1),
        };
        let (mut cursor, mut parts, mut last) = (Cursor { at, ..Cursor::default() }, 0, None);
        while let Some(run) = self.next_run(&mut cursor) {
            (last, parts) = (Some(run), parts + 1);
        }
        // A group is never empty.
        (at, last.unwrap_or_else(|| unreachable!("CS-IDX-2")), parts)
    }

    /// The entry at which the runs begin of which one holds `offset`.
    fn holding(&self, offset: u32) -> usize {
        let Runs::List(entries) = &self.runs else { return 0 };
        // A head at or before `offset`, and a place at and past which all heads lie after it.
        let (mut low, mut high) = (0, entries.len());
        loop {
            let middle = low + (high - low) / 2;
            let middle = head_of(entries, middle);
            if middle == low {
                // No head between, or those that are lie in the later half.
                let next = next_head(entries, low);
                if next >= high || entries[next].first > offset {
                    return low;
                }
                low = next;
            } else if entries[middle].first <= offset {
                low = middle;
            } else {
                high = middle;
            }
        }
    }
}

/// A place in a group: a head, which of the records behind it, and the block that one begins at.
#[derive(Clone, Copy, Default)]
struct Cursor {
    at: usize,
    part: usize,
    block: u32,
}

/// The head that entry `at` belongs to.
fn head_of(entries: &[Entry], mut at: usize) -> usize {
    while entries[at].is_rest() {
        at -= 1;
    }
    at
}

/// The head after entry `at`.
fn next_head(entries: &[Entry], at: usize) -> usize {
    let rest = entries[at + 1..].iter().take_while(|entry| entry.is_rest()).count();
    at + 1 + rest
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
