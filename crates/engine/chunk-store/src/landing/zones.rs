//! Landing zones: those that are written, and what lives in each.

use std::collections::{BTreeMap, VecDeque};

use shingle_base::ZoneId;
use shingle_runtime::Instant;

/// A landing zone that takes records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenZone {
    pub(crate) zone: ZoneId,
    /// Block of the next record.
    pub(crate) next: u32,
    pub(crate) capacity: u32,
    /// When the last write to it ended: the angle at which it goes on.
    pub(crate) last: Option<Instant>,
}

impl OpenZone {
    pub(crate) fn room(&self) -> u32 {
        self.capacity - self.next
    }
}

/// Landed records of a zone, in order, from the first that lives on.
#[derive(Debug, Default)]
struct Records {
    /// First block, and whether it lives.
    records: VecDeque<(u32, bool)>,
    /// End of the last of them.
    end: u32,
    live: u32,
}

/// All landing zones.
#[derive(Debug)]
pub(crate) struct LandingZones {
    most: u32,
    pub(crate) open: Vec<OpenZone>,
    /// By zone; also of zones that take no more.
    records: BTreeMap<ZoneId, Records>,
}

impl LandingZones {
    pub(crate) fn new(most: u32) -> Self {
        Self { most, open: Vec::new(), records: BTreeMap::new() }
    }

    pub(crate) fn missing(&self) -> u32 {
        self.most.saturating_sub(self.open.len() as u32)
    }

    pub(crate) fn most(&self) -> u32 {
        self.most
    }

    pub(crate) fn add(&mut self, zone: ZoneId, now: Instant, capacity: u32) {
        self.open.push(OpenZone { zone, next: 1, capacity, last: Some(now) });
    }

    /// True if a zone has room for a record of `blocks`.
    pub(crate) fn fits(&self, blocks: u32) -> bool {
        self.open.iter().any(|zone| zone.room() >= blocks)
    }

    /// The zone takes no more.
    pub(crate) fn close(&mut self, zone: ZoneId) {
        self.open.retain(|open| open.zone != zone);
    }

    /// A record became durable at `block`, `blocks` long.
    pub(crate) fn landed(&mut self, zone: ZoneId, block: u32, blocks: u32) {
        let records = self.records.entry(zone).or_default();
        records.records.push_back((block, true));
        records.end = block + blocks;
        records.live += 1;
    }

    /// A record is dead, or in the index. Returns the zone's new `indexed_to` (CS-LAND-3).
    pub(crate) fn gone(&mut self, zone: ZoneId, block: u32) -> Option<u32> {
        let records = self.records.get_mut(&zone)?;
        let at = records.records.binary_search_by_key(&block, |record| record.0).ok()?;
        let (_, live) = records.records.get_mut(at)?;
        records.live -= u32::from(std::mem::replace(live, false));
        while records.records.pop_front_if(|record| !record.1).is_some() {}
        let indexed_to = records.records.front().map_or(records.end, |record| record.0);
        if records.live == 0 {
            self.records.remove(&zone);
        }
        Some(indexed_to)
    }

    /// Zones that take no more and hold something that lives.
    pub(crate) fn lingering(&self) -> Vec<ZoneId> {
        let closed = |zone: &ZoneId| self.open.iter().all(|open| open.zone != *zone);
        self.records.keys().copied().filter(closed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_indexed_up_to_its_oldest_live_record() {
        let mut zones = LandingZones::new(2);
        let zone = ZoneId(3);
        zones.add(zone, Instant::default(), 64);
        for (block, blocks) in [(1, 2), (3, 2), (5, 3), (8, 2)] {
            zones.landed(zone, block, blocks);
        }
        assert_eq!(zones.gone(zone, 3), Some(1));
        assert_eq!(zones.gone(zone, 1), Some(5));
        assert_eq!(zones.gone(zone, 8), Some(5));
        assert_eq!(zones.lingering(), []);
        zones.close(zone);
        assert_eq!(zones.lingering(), [zone]);
        assert_eq!(zones.gone(zone, 5), Some(10));
        assert_eq!((zones.lingering(), zones.gone(zone, 5)), (vec![], None));
    }
}
