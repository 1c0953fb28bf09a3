//! Shape of the metadata on the drive: two sets of mapping table and bitmaps, in the first conventional zones.

use std::collections::BTreeSet;

/// Entries of a mapping block: of 8 bytes each.
const MAPPINGS: u64 = 512;

/// Bits of a bitmap block.
const BITS: u64 = 32_768;

/// Shape of a set of metadata.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    mapping: u64,
    in_zone: u64,
    pub(super) zone_blocks: u64,
    /// Zones of a set.
    pub(super) zones: u32,
}

impl Shape {
    pub(super) fn new(zones: u32, zone_blocks: u64) -> Self {
        let (mapping, in_zone) = (u64::from(zones).div_ceil(MAPPINGS), zone_blocks.div_ceil(BITS));
        let blocks = 1 + mapping + u64::from(zones) * in_zone;
        Self { mapping, in_zone, zone_blocks, zones: blocks.div_ceil(zone_blocks) as u32 }
    }

    /// The block of a set with a chunk's mapping.
    pub(super) fn of_chunk(&self, chunk: u32) -> u64 {
        1 + u64::from(chunk) / MAPPINGS
    }

    /// Blocks with the bits of blocks of a zone.
    pub(super) fn of_bits(&self, zone: u32, blocks: &std::ops::Range<u64>) -> std::ops::Range<u64> {
        let base = 1 + self.mapping + u64::from(zone) * self.in_zone;
        base + blocks.start / BITS..base + blocks.end.div_ceil(BITS)
    }
}

/// Changes that are not on the drive yet.
#[derive(Default)]
pub(super) struct Changes(BTreeSet<u64>);

impl Changes {
    pub(super) fn add(&mut self, blocks: impl IntoIterator<Item = u64>) {
        self.0.extend(blocks);
    }

    /// Takes all of them, in order.
    pub(super) fn take(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.0)
    }
}
