//! The zone table: state of each data zone, and blocks that live in it.
//!
//! # Invariants
//! - ZF-ZONE-1: `live` of a zone is the number of blocks of records in it that a file has, or that a copy is about to give to one.
//! - ZF-ZONE-2: free zones are taken in the order in which they became free, so that all wear alike.

use std::collections::VecDeque;
use std::ops::Range;

use shingle_base::ZoneId;

/// Use of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Status {
    /// Nothing in it is needed.
    #[default]
    Free,
    /// It is written to.
    Open,
    /// Nothing more is written to it.
    Closed,
    /// It holds nothing, and can be written no more.
    Dead,
}

/// A data zone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Zone {
    pub(crate) status: Status,
    /// The stream that it was opened for.
    pub(crate) stream: u8,
    /// Its generation.
    pub(crate) epoch: u64,
    /// Its number among the zones that were opened in this life, from 1; 0 for older ones.
    pub(crate) order: u64,
    /// The block behind the last record.
    pub(crate) next: u32,
    /// Its blocks before this one are durable.
    pub(crate) durable: u32,
    /// Blocks of records that are needed. (ZF-ZONE-1)
    pub(crate) live: u64,
    /// Reads and copies that go on in it.
    pub(crate) pins: u32,
    /// The drive neither writes nor resets it any more.
    pub(crate) broken: bool,
    /// Some of its records cannot be read, so they cannot leave it.
    pub(crate) stuck: bool,
    /// Nothing could be copied out of it, and nothing of it or of other zones has become free since.
    pub(crate) tried: bool,
    /// Failed writes.
    pub(crate) failures: u32,
    /// Free, and not reset yet.
    pub(crate) dirty: bool,
}

impl Zone {
    /// It can be reset once nobody reads it.
    pub(crate) fn is_empty(&self) -> bool {
        self.status == Status::Closed && self.live == 0
    }
}

/// All data zones.
#[derive(Debug)]
pub(crate) struct ZoneTable {
    first: u32,
    zones: Vec<Zone>,
    /// The longest free first. (ZF-ZONE-2)
    free: VecDeque<ZoneId>,
}

impl ZoneTable {
    /// Zones of which none is used, and none free.
    pub(crate) fn new(zones: &Range<u32>) -> Self {
        Self { first: zones.start, zones: vec![Zone::default(); zones.len()], free: VecDeque::new() }
    }

    fn at(&self, zone: ZoneId) -> Option<usize> {
        zone.0.checked_sub(self.first).map(|at| at as usize)
    }

    /// A zone; `None` if it is no data zone.
    pub(crate) fn get(&self, zone: ZoneId) -> Option<&Zone> {
        self.zones.get(self.at(zone)?)
    }

    /// As [`get`](Self::get), to be changed.
    pub(crate) fn get_mut(&mut self, zone: ZoneId) -> Option<&mut Zone> {
        let at = self.at(zone)?;
        self.zones.get_mut(at)
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ZoneId, &Zone)> {
        self.zones.iter().enumerate().map(|(at, zone)| (ZoneId(self.first + at as u32), zone))
    }

    /// Number of free zones.
    pub(crate) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Takes the zone that was free longest.
    pub(crate) fn take_free(&mut self) -> Option<ZoneId> {
        self.free.pop_front()
    }

    /// A zone is free from now on.
    pub(crate) fn add_free(&mut self, zone: ZoneId, dirty: bool) {
        if let Some(entry) = self.get_mut(zone) {
            *entry = Zone { dirty, ..Zone::default() };
            self.free.push_back(zone);
        }
    }

    /// A zone that holds nothing can be used no more.
    pub(crate) fn bury(&mut self, zone: ZoneId) {
        if let Some(entry) = self.get_mut(zone) {
            *entry = Zone { status: Status::Dead, broken: true, ..Zone::default() };
        }
    }

    /// Blocks of a zone are needed from now on.
    pub(crate) fn add_live(&mut self, zone: ZoneId, blocks: u64) {
        if let Some(entry) = self.get_mut(zone) {
            entry.live += blocks;
        }
    }

    /// Blocks of a zone are needed no more. True if it is closed, and empty now.
    pub(crate) fn take_live(&mut self, zone: ZoneId, blocks: u64) -> bool {
        let Some(entry) = self.get_mut(zone) else { return false };
        debug_assert!(entry.live >= blocks, "ZF-ZONE-1: {zone} has {} live blocks, not {blocks}", entry.live);
        entry.live -= blocks.min(entry.live);
        entry.tried = false;
        entry.is_empty()
    }

    /// A zone has become free: copies that had no room may have some.
    pub(crate) fn try_all_again(&mut self) {
        self.zones.iter_mut().for_each(|zone| zone.tried = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ZF-ZONE-2
    #[test]
    fn the_longest_free_zone_comes_first() {
        let mut table = ZoneTable::new(&(5..9));
        [7, 5, 8].into_iter().for_each(|zone| table.add_free(ZoneId(zone), false));
        assert_eq!(table.take_free(), Some(ZoneId(7)));
        table.add_free(ZoneId(7), true);
        let order: Vec<_> = std::iter::from_fn(|| table.take_free()).map(|zone| zone.0).collect();
        assert_eq!(order, [5, 8, 7]);
        assert!(table.get(ZoneId(4)).is_none() && table.get(ZoneId(9)).is_none());
    }
}
