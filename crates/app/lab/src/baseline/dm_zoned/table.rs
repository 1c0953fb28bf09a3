//! Chunks, zones, and which of their blocks are valid.

use std::collections::{BTreeMap, VecDeque};

use crate::baseline::disk::runs;

/// Valid blocks of a zone that is in use.
#[derive(Default)]
struct Bitmap {
    words: Vec<u64>,
    weight: u64,
}

/// Place of a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chunk {
    /// The zone that it is mapped to.
    pub(super) data: Option<u32>,
    /// A random zone with blocks that were written out of order.
    pub(super) buffer: Option<u32>,
    /// Accesses under way.
    pub(super) active: u32,
    /// It is being reclaimed.
    pub(super) reclaimed: bool,
    /// Somebody waits for the reclaim to end.
    pub(super) terminates: bool,
}

/// The zone table.
pub(super) struct Table {
    pub(super) chunks: Vec<Chunk>,
    bitmaps: BTreeMap<u32, Bitmap>,
    pub(super) free_random: VecDeque<u32>,
    free_sequential: VecDeque<u32>,
    reserve: VecDeque<u32>,
    reserve_most: usize,
    pub(super) randoms: u32,
    conventional: u32,
    zone_blocks: u64,
    /// Random zones in use, by when they were last used, with their chunks.
    used: BTreeMap<u64, (u32, u32)>,
    stamps: BTreeMap<u32, u64>,
    clock: u64,
}

impl Table {
    /// `meta` zones at the beginning hold metadata; `reserved` sequential ones are for reclaim alone.
    pub(super) fn new(zones: u32, conventional: u32, meta: u32, reserved: u32, zone_blocks: u64) -> Self {
        let mut free_sequential: VecDeque<u32> = (conventional..zones).collect();
        let reserve = free_sequential.split_off(free_sequential.len().saturating_sub(reserved as usize));
        Self {
            chunks: vec![Chunk::default(); (zones - meta).saturating_sub(reserved) as usize],
            bitmaps: BTreeMap::new(),
            free_random: (meta..conventional).collect(),
            free_sequential,
            reserve,
            reserve_most: reserved as usize,
            randoms: conventional - meta,
            conventional,
            zone_blocks,
            used: BTreeMap::new(),
            stamps: BTreeMap::new(),
            clock: 0,
        }
    }

    pub(super) fn is_random(&self, zone: u32) -> bool {
        zone < self.conventional
    }

    /// Takes a free random zone for a chunk.
    pub(super) fn take_random(&mut self, chunk: u32) -> Option<u32> {
        let zone = self.free_random.pop_front()?;
        self.use_random(zone, chunk);
        Some(zone)
    }

    /// Takes a free sequential zone for reclaim, of the reserve if there is no other.
    pub(super) fn take_sequential(&mut self) -> Option<u32> {
        self.free_sequential.pop_front().or_else(|| self.reserve.pop_front())
    }

    /// True if no sequential zone is free, not even in the reserve.
    pub(super) fn lacks_sequential(&self) -> bool {
        self.free_sequential.is_empty() && self.reserve.is_empty()
    }

    /// A zone is free again; a sequential one was reset.
    pub(super) fn free(&mut self, zone: u32) {
        self.bitmaps.remove(&zone);
        if let Some(stamp) = self.stamps.remove(&zone) {
            self.used.remove(&stamp);
        }
        match self.is_random(zone) {
            true => self.free_random.push_back(zone),
            false if self.reserve.len() < self.reserve_most => self.reserve.push_back(zone),
            false => self.free_sequential.push_back(zone),
        }
    }

    /// Notes that a random zone is used.
    pub(super) fn use_random(&mut self, zone: u32, chunk: u32) {
        if !self.is_random(zone) {
            return;
        }
        self.clock += 1;
        if let Some(before) = self.stamps.insert(zone, self.clock) {
            self.used.remove(&before);
        }
        self.used.insert(self.clock, (zone, chunk));
    }

    /// Chunks with random zones, that of the least recently used zone first.
    pub(super) fn by_age(&self) -> impl Iterator<Item = u32> {
        self.used.values().map(|&(_, chunk)| chunk)
    }

    /// Makes blocks of a zone valid, or not.
    pub(super) fn mark(&mut self, zone: u32, blocks: std::ops::Range<u64>, valid: bool) {
        let words = self.zone_blocks.div_ceil(64) as usize;
        let bitmap = self.bitmaps.entry(zone).or_default();
        bitmap.words.resize(words, 0);
        for block in blocks {
            let (word, bit) = (&mut bitmap.words[(block / 64) as usize], 1 << (block % 64));
            match ((*word & bit) != 0, valid) {
                (false, true) => bitmap.weight += 1,
                (true, false) => bitmap.weight -= 1,
                _ => continue,
            }
            *word ^= bit;
        }
    }

    pub(super) fn is_valid(&self, zone: u32, block: u64) -> bool {
        let bitmap = self.bitmaps.get(&zone).filter(|bitmap| bitmap.weight > 0);
        bitmap.is_some_and(|bitmap| bitmap.words[(block / 64) as usize] >> (block % 64) & 1 == 1)
    }

    /// Valid blocks of a zone.
    pub(super) fn weight(&self, zone: u32) -> u64 {
        self.bitmaps.get(&zone).map_or(0, |bitmap| bitmap.weight)
    }

    /// Runs of valid blocks of a zone, in order: first block and number.
    pub(super) fn valid_runs(&self, zone: u32) -> Vec<(u64, u64)> {
        runs((0..self.zone_blocks).filter(|&block| self.is_valid(zone, block)))
    }
}
