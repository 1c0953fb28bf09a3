//! Blobs: bytes that were written together, with their checksums and places on the drive. (Dissertation, sections 4.4.2 and 4.5.1.)
//!
//! A blob's content is fixed. Extents of an object show parts of it; blocks that no extent needs are let go, each checksum unit as a
//! whole. Places name exactly the blocks that count as live.
//!
//! # Invariants
//! - BLU-BLOB-1: places of a blob that has left memory hold every block that its extents need.

pub(crate) mod checks;
pub(crate) mod packing;
pub(crate) mod ranges;

use std::cell::RefCell;
use std::ops::Range;

use bytes::Bytes;
use shingle_base::BLOCK_SIZE;

use packing::Packing;
use ranges::{Counts, Ranges};

/// Bytes of a block, in the types of this module.
pub(crate) const BLOCK: u32 = BLOCK_SIZE as u32;

/// Checksum units are at most 4 KiB << 5 = 128 KiB.
pub(crate) const UNIT_SHIFT_MAX: u8 = 5;

/// Bytes of a blob's content at most: those of a shard.
pub(crate) const BLOB_MAX: u32 = 512 << 10;

/// Blocks of a blob that follow each other in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// First block in the blob.
    pub(crate) at: u32,
    /// Zone, and first block in it.
    pub(crate) zone: u32,
    pub(crate) block: u32,
    /// Number of blocks.
    pub(crate) count: u32,
}

impl Place {
    /// Blocks of the blob.
    pub(crate) fn range(&self) -> Range<u32> {
        self.at..self.at + self.count
    }

    /// The part of it that is in a range of the blob's blocks.
    pub(crate) fn part(&self, range: &Range<u32>) -> Option<Self> {
        let (from, to) = (self.at.max(range.start), (self.at + self.count).min(range.end));
        let skipped = from.saturating_sub(self.at);
        (from < to).then(|| Self { at: from, zone: self.zone, block: self.block + skipped, count: to - from })
    }
}

/// The part of a blob that may change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Live blocks, in order of `at`. They change in the order in which transactions become durable.
    pub(crate) places: Vec<Place>,
    /// The stored bytes, padded to blocks: until they are written.
    pub(crate) data: Option<Bytes>,
    /// The bytes are metadata: number of the deferred write.
    pub(crate) deferred: Option<u64>,
    /// Several holders: number of the shared blob.
    pub(crate) shared: Option<u64>,
    /// Pool and hash of the objects that share it.
    pub(crate) owner: (u64, u32),
    /// References to the blocks of a shared blob.
    pub(crate) counts: Counts,
    /// Metadata that are durable, or on their way, name it.
    pub(crate) counted: bool,
    /// Bytes that were shown of a thin blob when it was left as it is, since that was no worse. (BLU-THIN-1)
    pub(crate) kept_at: Option<u32>,
}

/// A blob.
#[derive(Debug)]
pub(crate) struct Blob {
    /// Bytes of content.
    pub(crate) raw: u32,
    /// Bytes that are stored for it.
    pub(crate) stored: u32,
    pub(crate) packing: Packing,
    /// A checksum unit has `1 << unit_shift` blocks; the last one may have fewer.
    pub(crate) unit_shift: u8,
    /// CRC-32C of each unit of stored bytes, padding included.
    pub(crate) checks: Vec<u32>,
    pub(crate) state: RefCell<State>,
}

impl Blob {
    /// Blocks that are stored.
    pub(crate) fn blocks(&self) -> u32 {
        self.stored.div_ceil(BLOCK)
    }

    /// Stored blocks that are needed to show bytes of the content: whole units, and everything of a compressed blob.
    pub(crate) fn needed(&self, bytes: Range<u32>) -> Range<u32> {
        if bytes.is_empty() {
            return 0..0;
        }
        if self.packing != Packing::Plain {
            return 0..self.blocks();
        }
        let unit = 1 << self.unit_shift;
        let (first, last) = (bytes.start / BLOCK / unit * unit, bytes.end.div_ceil(BLOCK).div_ceil(unit) * unit);
        first..last.min(self.blocks())
    }

    /// Units that blocks are in, as blocks.
    pub(crate) fn units(&self, blocks: &Range<u32>) -> Range<u32> {
        let unit = 1 << self.unit_shift;
        blocks.start / unit * unit..(blocks.end.div_ceil(unit) * unit).min(self.blocks())
    }

    /// Places of a range of blocks; `None` if one of them has none. (BLU-BLOB-1)
    pub(crate) fn places(&self, range: &Range<u32>) -> Option<Vec<Place>> {
        let state = self.state.borrow();
        let mut at = range.start;
        let mut parts = Vec::new();
        for part in state.places.iter().filter_map(|place| place.part(range)) {
            if part.at != at {
                return None;
            }
            at += part.count;
            parts.push(part);
        }
        (at >= range.end).then_some(parts)
    }
}

impl State {
    /// Keeps the places of some blocks alone.
    pub(crate) fn keep(&mut self, blocks: &Ranges) {
        let parts = |place: &Place| blocks.iter().filter_map(|range| place.part(&range)).collect::<Vec<_>>();
        self.places = self.places.iter().flat_map(parts).collect();
    }

    /// Gives blocks other places, as far as they have one.
    pub(crate) fn move_to(&mut self, moved: &[Place]) {
        let mut places = Vec::new();
        for old in &self.places {
            let range = old.range();
            let new: Vec<Place> = moved.iter().filter_map(|place| place.part(&range)).collect();
            let others: Ranges = [range].into_iter().collect();
            let others = others.without(&new.iter().map(Place::range).collect());
            places.extend(others.iter().filter_map(|range| old.part(&range)));
            places.extend(new);
        }
        places.sort_unstable();
        self.places = places;
    }

    /// Live blocks in each zone, in order of zones.
    pub(crate) fn blocks_by_zone(&self) -> std::collections::BTreeMap<u32, u32> {
        let mut zones = std::collections::BTreeMap::new();
        self.places.iter().for_each(|place| *zones.entry(place.zone).or_insert(0) += place.count);
        zones
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(raw: u32, unit_shift: u8) -> Blob {
        let units = raw.div_ceil(BLOCK << unit_shift) as usize;
        let (packing, state) = (Packing::Plain, RefCell::default());
        Blob { raw, stored: raw, packing, unit_shift, checks: vec![0; units], state }
    }

    #[test]
    fn needed_blocks_are_whole_units() {
        let blob = blob(10 * BLOCK - 5, 1);
        assert_eq!((blob.blocks(), blob.needed(0..1), blob.needed(3 * BLOCK..5 * BLOCK)), (10, 0..2, 2..6));
        assert_eq!((blob.needed(9 * BLOCK..10 * BLOCK - 5), blob.needed(7..7)), (8..10, 0..0));
        let packed = Blob { packing: Packing::Lz4, stored: 3000, ..blob };
        assert_eq!(packed.needed(5..6), 0..1);
    }

    /// BLU-BLOB-1.
    #[test]
    fn places_are_kept_moved_and_found() {
        let blob = blob(8 * BLOCK, 0);
        let place = |at, zone, block, count| Place { at, zone, block, count };
        blob.state.borrow_mut().places = vec![place(0, 1, 10, 5), place(5, 2, 0, 3)];
        assert_eq!(blob.places(&(4..6)), Some(vec![place(4, 1, 14, 1), place(5, 2, 0, 1)]));
        blob.state.borrow_mut().move_to(&[place(1, 7, 100, 2), place(4, 7, 102, 2)]);
        let moved = [
            place(0, 1, 10, 1),
            place(1, 7, 100, 2),
            place(3, 1, 13, 1),
            place(4, 7, 102, 1),
            place(5, 7, 103, 1),
            place(6, 2, 1, 2),
        ];
        assert_eq!(blob.state.borrow().places, moved);
        blob.state.borrow_mut().keep(&[0..2, 6..9].into_iter().collect());
        assert_eq!(blob.state.borrow().places, [place(0, 1, 10, 1), place(1, 7, 100, 1), place(6, 2, 1, 2)]);
        assert_eq!((blob.places(&(1..3)), blob.places(&(6..8)).map(|places| places.len())), (None, Some(1)));
        blob.state.borrow_mut().move_to(&[place(1, 9, 0, 6)]);
        assert_eq!(blob.state.borrow().blocks_by_zone().into_iter().collect::<Vec<_>>(), [(1, 1), (2, 1), (9, 2)]);
    }
}
