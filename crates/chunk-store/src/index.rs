//! Where a chunk's bytes lie: index groups of records, in chunk order. (SMRstore, section 5.3.)
//!
//! # Invariants
//! - IDX-1: a chunk's groups are in chunk order, adjoin, begin at 0 and end at the chunk's durable size.
//! - IDX-2: the records of a group lie in one zone and cover a consecutive range of the chunk.
//! - IDX-3: a record's data ends where the next one's begins, so that an entry needs two numbers: 8 bytes.

use shingle_base::{Blocks, ZoneId};
use shingle_record::sliced_record_blocks;

/// One record of a chunk: where its data begins in the chunk, and where the record begins in its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordEntry {
    /// Bytes from the chunk's start.
    pub(crate) offset: u32,
    /// Blocks from the zone's start.
    pub(crate) block: u32,
}

const _: () = assert!(size_of::<RecordEntry>() == 8);

/// The records of one chunk in one zone that cover a consecutive range of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexGroup {
    pub(crate) zone: ZoneId,
    /// Where the last record's data ends in the chunk.
    pub(crate) end: u32,
    records: Vec<RecordEntry>,
}

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

impl IndexGroup {
    /// A group of one record.
    pub(crate) fn new(record: Located) -> Self {
        let records = vec![RecordEntry { offset: record.offset, block: record.block }];
        Self { zone: record.zone, end: record.end(), records }
    }

    /// Where the group begins in the chunk.
    pub(crate) fn start(&self) -> u32 {
        self.records[0].offset
    }

    /// Adds the record that follows the group's last in the chunk.
    pub(crate) fn push(&mut self, record: Located) {
        debug_assert!(record.zone == self.zone && record.offset == self.end, "IDX-2");
        if self.records.len() == self.records.capacity() {
            // An eighth more, not twice as many: records are most of the engine's memory.
            self.records.reserve_exact((self.records.len() / 8).max(4));
        }
        self.records.push(RecordEntry { offset: record.offset, block: record.block });
        self.end = record.end();
    }

    /// Gives back memory that no record uses.
    pub(crate) fn shrink(&mut self) {
        self.records.shrink_to_fit();
    }

    /// All records.
    pub(crate) fn records(&self) -> impl ExactSizeIterator<Item = Located> + '_ {
        (0..self.records.len()).map(|at| self.record(at))
    }

    /// The blocks that the records take.
    pub(crate) fn blocks(&self) -> Blocks {
        self.records().map(|record| record.blocks()).sum()
    }

    /// The number of the record that holds `offset`, which must lie in the group.
    fn holding(&self, offset: u32) -> usize {
        self.records.partition_point(|record| record.offset <= offset).saturating_sub(1)
    }

    fn record(&self, at: usize) -> Located {
        let RecordEntry { offset, block } = self.records[at];
        let end = self.records.get(at + 1).map_or(self.end, |next| next.offset);
        Located { zone: self.zone, block, offset, length: end - offset }
    }
}

/// All groups of a chunk (IDX-1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Groups(Vec<IndexGroup>);

/// What a change to the index did to a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// The zone has one more group of the chunk.
    Group,
    /// A group that was there has grown.
    Record,
}

impl Groups {
    /// Where the indexed bytes end.
    pub(crate) fn end(&self) -> u32 {
        self.0.last().map_or(0, |group| group.end)
    }

    /// Adds the record that follows the last.
    pub(crate) fn push(&mut self, record: Located) -> Added {
        debug_assert_eq!(record.offset, self.end(), "IDX-1");
        match self.0.last_mut() {
            Some(last) if last.zone == record.zone => {
                last.push(record);
                Added::Record
            }
            _ => {
                self.0.reserve_exact(1);
                self.0.push(IndexGroup::new(record));
                Added::Group
            }
        }
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, IndexGroup> {
        self.0.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn shrink(&mut self) {
        self.0.shrink_to_fit();
        self.0.iter_mut().for_each(IndexGroup::shrink);
    }

    /// The records that hold bytes `from..to`, in order.
    pub(crate) fn covering(&self, from: u32, to: u32) -> impl Iterator<Item = Located> + '_ {
        let first = self.0.partition_point(|group| group.end <= from);
        self.0[first..].iter().take_while(move |group| group.start() < to).flat_map(move |group| {
            let begin = group.holding(from.max(group.start()));
            (begin..group.records.len()).map(|at| group.record(at)).take_while(move |record| record.offset < to)
        })
    }

    /// Replaces records that GC copied: each of `moved` has the range of a record that lies in `victim`.
    /// Ranges that are in no record of `victim` any more are left out. Returns the new groups.
    pub(crate) fn moved(&self, victim: ZoneId, moved: &[Located]) -> Self {
        let mut result = Self::default();
        let mut copies = moved.iter().peekable();
        for record in self.0.iter().flat_map(IndexGroup::records) {
            while copies.next_if(|copy| copy.offset < record.offset).is_some() {}
            let copy = copies.next_if(|copy| copy.offset == record.offset && copy.length == record.length);
            match copy {
                Some(copy) if record.zone == victim => result.push(*copy),
                _ => result.push(record),
            };
        }
        result.shrink();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(zone: u32, block: u32, offset: u32, length: u32) -> Located {
        Located { zone: ZoneId(zone), block, offset, length }
    }

    fn sample() -> Groups {
        let mut groups = Groups::default();
        assert_eq!(groups.push(located(1, 1, 0, 100)), Added::Group);
        assert_eq!(groups.push(located(1, 9, 100, 50)), Added::Record);
        assert_eq!(groups.push(located(2, 1, 150, 10)), Added::Group);
        assert_eq!(groups.push(located(1, 20, 160, 40)), Added::Group);
        groups
    }

    #[test]
    fn a_range_is_covered_by_exactly_the_records_it_touches() {
        let groups = sample();
        let all: Vec<_> = groups.iter().flat_map(IndexGroup::records).collect();
        for from in 0..200 {
            for to in from + 1..=200 {
                let expected: Vec<_> =
                    all.iter().copied().filter(|record| record.offset < to && record.end() > from).collect();
                assert_eq!(groups.covering(from, to).collect::<Vec<_>>(), expected, "{from}..{to}");
            }
        }
    }

    #[test]
    fn moving_records_keeps_the_order_and_leaves_other_zones_alone() {
        let groups = sample();
        let moved = groups.moved(ZoneId(1), &[located(5, 1, 0, 100), located(5, 4, 100, 50), located(6, 1, 160, 40)]);
        let zones: Vec<_> = moved.iter().map(|group| (group.zone.0, group.start(), group.end)).collect();
        assert_eq!(zones, [(5, 0, 150), (2, 150, 160), (6, 160, 200)]);
        let partly = groups.moved(ZoneId(1), &[located(5, 4, 100, 50)]);
        let zones: Vec<_> = partly.iter().map(|group| (group.zone.0, group.start(), group.end)).collect();
        assert_eq!(zones, [(1, 0, 100), (5, 100, 150), (2, 150, 160), (1, 160, 200)]);
    }
}
