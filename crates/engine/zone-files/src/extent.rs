//! Extents of a file: runs of records that follow each other in a zone.
//!
//! All records of an extent but the last have the same length, so that one extent stands for a whole table, and the record of any
//! byte is found by a division.
//!
//! # Invariants
//! - ZF-EXT-1: extents of a file follow each other from byte 0 to its size, without gaps; a gap is an extent that is lost.

use std::collections::BTreeMap;
use std::ops::Range;

use shingle_base::ZoneId;
use shingle_record::sliced_record_blocks;

/// The zone of an extent that is lost.
const LOST: ZoneId = ZoneId(u32::MAX);

/// Bytes of a file in records that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// First byte in the file.
    pub(crate) offset: u64,
    /// Bytes of it that belong to the file.
    pub(crate) length: u64,
    pub(crate) zone: ZoneId,
    /// First block of the first record.
    pub(crate) block: u32,
    /// Bytes of each record but the last.
    pub(crate) record: u32,
    /// Bytes of the last record, as it was written.
    pub(crate) last: u32,
}

/// A record of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordAt {
    /// Its first byte in the file.
    pub(crate) offset: u64,
    /// Bytes that it holds.
    pub(crate) length: u32,
    /// Its first block in the zone.
    pub(crate) block: u32,
}

fn record_blocks(bytes: u32) -> u64 {
    sliced_record_blocks(u64::from(bytes)).0
}

impl Extent {
    /// One record.
    pub(crate) fn of_record(offset: u64, length: u32, zone: ZoneId, block: u32) -> Self {
        Self { offset, length: u64::from(length), zone, block, record: length, last: length }
    }

    /// Bytes whose place is not known any more.
    pub(crate) fn lost(offset: u64, length: u64) -> Self {
        Self { offset, length, zone: LOST, block: 0, record: 0, last: 0 }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.zone == LOST
    }

    pub(crate) fn end(&self) -> u64 {
        self.offset + self.length
    }

    pub(crate) fn records(&self) -> u64 {
        if self.is_lost() { 0 } else { self.length.div_ceil(u64::from(self.record.max(1))) }
    }

    /// Blocks of its records.
    pub(crate) fn blocks(&self) -> u64 {
        let records = self.records();
        if records == 0 { 0 } else { (records - 1) * record_blocks(self.record) + record_blocks(self.last) }
    }

    /// The block behind it.
    pub(crate) fn end_block(&self) -> u64 {
        u64::from(self.block) + self.blocks()
    }

    /// False for numbers that no writer makes, for zones of so many blocks.
    pub(crate) fn makes_sense(&self, zone_blocks: u32) -> bool {
        let ends = self.offset.checked_add(self.length).is_some_and(|end| end < 1 << 62);
        if self.is_lost() {
            return ends && self.length > 0;
        }
        let (record, last) = (u64::from(self.record), u64::from(self.last));
        ends && (1..=record).contains(&last)
            && self.length > 0
            && self.length.div_ceil(record) <= u64::from(zone_blocks)
            && self.length <= (self.records() - 1) * record + last
            && self.end_block() <= u64::from(zone_blocks)
    }

    /// The record that holds byte `at` of the file.
    pub(crate) fn record_at(&self, at: u64) -> RecordAt {
        let number = (at - self.offset) / u64::from(self.record.max(1));
        let length = if number + 1 == self.records() { self.last } else { self.record };
        RecordAt {
            offset: self.offset + number * u64::from(self.record),
            length,
            block: self.block + (number * record_blocks(self.record)) as u32,
        }
    }

    /// The end of as many whole records as have `most` bytes, from byte `at` on, at which one begins: of one at least.
    pub(crate) fn records_end(&self, at: u64, most: u64) -> u64 {
        let record = u64::from(self.record.max(1));
        self.end().min(at + (most / record).max(1) * record)
    }

    /// The parts of it before, in and behind some of its records, which are these bytes of the file. `None` where records cannot be cut.
    pub(crate) fn around(&self, records: &Range<u64>) -> Option<(Option<Self>, Self, Option<Self>)> {
        let front = (records.start > self.offset).then(|| self.before(records.start));
        let inside = self.behind(records.start)?.before(records.end);
        let rest = if records.end < self.end() { Some(self.behind(records.end)?) } else { None };
        debug_assert!(
            front.map_or(0, |front| front.blocks()) + inside.blocks() + rest.map_or(0, |rest| rest.blocks())
                == self.blocks(),
            "parts of an extent have its records"
        );
        Some((front, inside, rest))
    }

    /// The part before byte `at` of the file, which lies inside.
    pub(crate) fn before(&self, at: u64) -> Self {
        let mut part = Self { length: at - self.offset, ..*self };
        if part.records() < self.records() {
            part.last = part.record;
        }
        part
    }

    /// The part from byte `at` on; `None` if no record begins there.
    pub(crate) fn behind(&self, at: u64) -> Option<Self> {
        let skipped = at - self.offset;
        let part = Self { offset: at, length: self.length - skipped, ..*self };
        if self.is_lost() {
            return Some(part);
        }
        let record = u64::from(self.record.max(1));
        let begins = skipped.is_multiple_of(record);
        begins.then(|| {
            let block = self.block + (skipped / record * record_blocks(self.record)) as u32;
            let one = part.length <= u64::from(self.last) && part.records() == 1;
            Self { block, record: if one { self.last } else { self.record }, ..part }
        })
    }

    /// Takes in the extent behind it, if both are one.
    fn joins(&mut self, next: &Self) -> bool {
        if self.is_lost() || next.is_lost() {
            let both = self.is_lost() && next.is_lost();
            self.length += if both { next.length } else { 0 };
            return both;
        }
        let full = self.length == self.records() * u64::from(self.record) && self.last == self.record;
        let alike = next.record == self.record || (next.records() == 1 && next.last <= self.record);
        let follows = self.zone == next.zone && self.end_block() == u64::from(next.block);
        let joins = full && alike && follows;
        if joins {
            self.length += next.length;
            self.last = next.last;
        }
        joins
    }
}

/// Extents of a file. (ZF-EXT-1)
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extents(Vec<Extent>);

/// An extent that lies where records cannot be cut.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Uncuttable;

impl Extents {
    pub(crate) fn size(&self) -> u64 {
        self.0.last().map_or(0, Extent::end)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.0.iter()
    }

    /// Adds an extent behind the last.
    pub(crate) fn push(&mut self, extent: Extent) {
        debug_assert!(extent.offset == self.size(), "ZF-EXT-1");
        if !self.0.last_mut().is_some_and(|last| last.joins(&extent)) {
            self.0.push(extent);
        }
    }

    /// These extents, which follow each other, with as few as possible.
    pub(crate) fn merged(extents: &[Extent]) -> Vec<Extent> {
        let mut merged = Self(extents.first().copied().into_iter().collect());
        extents.iter().skip(1).for_each(|extent| merged.push(*extent));
        merged.0
    }

    /// True if `extent` is one of them.
    pub(crate) fn has(&self, extent: &Extent) -> bool {
        let at = self.0.partition_point(|other| other.offset < extent.offset);
        self.0.get(at) == Some(extent)
    }

    /// Extents, and parts of them, from the record on that holds byte `from`.
    pub(crate) fn from(&self, from: u64) -> Vec<Extent> {
        let first = self.0.partition_point(|extent| extent.end() <= from);
        let mut extents = self.0[first..].to_vec();
        if let Some(first) = extents.first_mut().filter(|first| first.offset < from) {
            let begins = if first.is_lost() { from } else { first.record_at(from).offset };
            *first = first.behind(begins).unwrap_or(*first);
        }
        extents
    }

    /// Extents, and parts of them, from the record on that holds byte `from`, to byte `to`.
    pub(crate) fn range(&self, from: u64, to: u64) -> Vec<Extent> {
        let mut extents = self.from(from);
        extents.retain(|extent| extent.offset < to);
        if let Some(last) = extents.last_mut().filter(|last| last.end() > to) {
            *last = last.before(to);
        }
        extents
    }

    /// Extents that hold some of these bytes.
    pub(crate) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = &Extent> {
        let first = self.0.partition_point(|extent| extent.end() <= from);
        self.0[first..].iter().take_while(move |extent| extent.offset < to)
    }

    /// Cuts all from byte `size` on.
    pub(crate) fn truncate(&mut self, size: u64) {
        self.0.truncate(self.0.partition_point(|extent| extent.offset < size));
        if let Some(last) = self.0.last_mut().filter(|last| last.end() > size) {
            *last = last.before(size);
        }
    }

    /// Puts extents that follow each other in their places, and takes away those whose bytes they have: all in one, for their records
    /// may end where those of the others do not.
    pub(crate) fn place(&mut self, extents: &[Extent]) -> Result<(), Uncuttable> {
        let (Some(first), Some(last)) = (extents.first(), extents.last()) else { return Ok(()) };
        let size = self.size();
        if first.offset > size {
            self.push(Extent::lost(size, first.offset - size));
        }
        let rest = if last.end() < size { self.from(last.end()) } else { Vec::new() };
        if rest.first().is_some_and(|first| first.offset != last.end()) {
            return Err(Uncuttable);
        }
        self.truncate(first.offset);
        extents.iter().copied().chain(rest).for_each(|extent| self.push(extent));
        Ok(())
    }

    /// Puts `new` in the place of `old`, which is one of the extents; false if it is none of them.
    pub(crate) fn replace(&mut self, old: &Extent, new: &[Extent]) -> bool {
        let at = self.0.partition_point(|extent| extent.offset < old.offset);
        let found = self.0.get(at) == Some(old);
        if found {
            self.0.splice(at..=at, new.iter().copied());
        }
        found
    }

    /// Blocks by zone.
    pub(crate) fn blocks_by_zone(&self) -> BTreeMap<ZoneId, u64> {
        let mut blocks = BTreeMap::new();
        for extent in self.0.iter().filter(|extent| !extent.is_lost()) {
            *blocks.entry(extent.zone).or_default() += extent.blocks();
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(offset: u64, length: u32, block: u32) -> Extent {
        Extent::of_record(offset, length, ZoneId(7), block)
    }

    #[test]
    fn records_of_one_length_are_one_extent_and_the_last_may_be_shorter() {
        let mut extents = Extents::default();
        // A record of 8,000 bytes has two slices and takes two blocks.
        for (number, block) in [(0, 10), (1, 12), (2, 14)] {
            extents.push(record(number * 8_000, 8_000, block));
        }
        extents.push(record(24_000, 5, 16));
        assert_eq!(extents.iter().count(), 1);
        let whole = *extents.iter().next().unwrap();
        assert_eq!((whole.length, whole.blocks(), whole.end_block()), (24_005, 7, 17));
        assert!(whole.makes_sense(17) && !whole.makes_sense(16));
        assert_eq!(whole.record_at(16_001), RecordAt { offset: 16_000, length: 8_000, block: 14 });
        assert_eq!(whole.record_at(24_004), RecordAt { offset: 24_000, length: 5, block: 16 });
        // Nothing joins behind a short one.
        extents.push(record(24_005, 5, 17));
        assert_eq!(extents.iter().count(), 2);
    }

    #[test]
    fn cuts_keep_the_lengths_of_records() {
        let mut extents = Extents::default();
        (0..3).for_each(|number| extents.push(record(number * 8_000, 8_000, number as u32 * 2)));
        let whole = *extents.iter().next().unwrap();
        assert_eq!(extents.from(8_000), [whole.behind(8_000).unwrap()]);
        assert_eq!(extents.from(8_001), extents.from(8_000));
        assert_eq!(extents.from(24_000), []);
        assert_eq!(whole.behind(16_000), Some(record(16_000, 8_000, 4)));
        extents.truncate(9_000);
        let cut = *extents.iter().next().unwrap();
        assert_eq!((cut.length, cut.blocks(), cut.record_at(8_999).length), (9_000, 4, 8_000));
        // The next record does not join a cut one.
        extents.push(record(9_000, 8_000, 4));
        assert_eq!((extents.iter().count(), extents.size()), (2, 17_000));
        extents.truncate(0);
        assert_eq!((extents.len(), extents.size()), (0, 0));
    }

    #[test]
    fn records_are_taken_out_of_an_extent() {
        let mut extents = Extents::default();
        (0..3).for_each(|number| extents.push(record(number * 8_000, 8_000, number as u32 * 2)));
        extents.push(record(24_000, 5, 6));
        let whole = *extents.iter().next().unwrap();
        assert_eq!(
            [1, 8_000, 15_999, 16_000, 99_000].map(|most| whole.records_end(8_000, most)),
            [16_000, 16_000, 16_000, 24_000, 24_005]
        );
        let behind = |at| whole.behind(at).unwrap();
        assert_eq!(whole.around(&(0..8_000)), Some((None, whole.before(8_000), Some(behind(8_000)))));
        assert_eq!(
            whole.around(&(8_000..24_000)),
            Some((Some(whole.before(8_000)), behind(8_000).before(24_000), Some(record(24_000, 5, 6))))
        );
        assert_eq!(whole.around(&(24_000..24_005)), Some((Some(whole.before(24_000)), record(24_000, 5, 6), None)));
        assert_eq!(whole.around(&(0..24_005)), Some((None, whole, None)));
        assert_eq!((whole.around(&(1..8_000)), whole.around(&(0..8_001))), (None, None));
    }

    #[test]
    fn an_extent_takes_the_place_of_others() {
        let mut extents = Extents::default();
        (0..4).for_each(|number| extents.push(record(number * 8_000, 8_000, number as u32 * 2)));
        let moved = Extent::of_record(8_000, 16_000, ZoneId(9), 3);
        extents.place(&[moved]).unwrap();
        let places: Vec<_> = extents.iter().map(|extent| (extent.offset, extent.zone.0, extent.block)).collect();
        assert_eq!(places, [(0, 7, 0), (8_000, 9, 3), (24_000, 7, 6)]);
        assert_eq!(extents.place(&[Extent::of_record(0, 100, ZoneId(9), 0)]), Err(Uncuttable));
        extents.place(&[record(40_000, 10, 20)]).unwrap();
        assert_eq!(extents.iter().filter(|extent| extent.is_lost()).map(|lost| lost.length).sum::<u64>(), 8_000);
        let old = moved;
        assert!(extents.replace(&old, &[Extent::of_record(8_000, 16_000, ZoneId(1), 1)]));
        assert!(!extents.replace(&old, &[]));
        assert_eq!(extents.blocks_by_zone()[&ZoneId(7)], 2 + 2 + 1);
    }
}
