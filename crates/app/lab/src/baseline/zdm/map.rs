//! The page map, with the correct place of each page in memory, whichever of its own pages are cached.

use std::collections::BTreeMap;

/// Entries of a map page: of 4 bytes each.
pub(super) const ENTRIES: u64 = 1024;

/// No place.
const NOWHERE: u32 = u32::MAX;

/// Places of pages, both ways.
pub(super) struct Map {
    forward: BTreeMap<u64, Box<[u32]>>,
    /// Pages by place, for zones that are in use.
    back: BTreeMap<u32, Box<[u32]>>,
    /// Live pages of each zone.
    live: Vec<u32>,
    zone_blocks: u64,
}

impl Map {
    pub(super) fn new(zones: u32, zone_blocks: u64) -> Self {
        Self { forward: BTreeMap::new(), back: BTreeMap::new(), live: vec![0; zones as usize], zone_blocks }
    }

    /// Zone and block of a page.
    pub(super) fn place(&self, page: u64) -> Option<(u32, u64)> {
        let place = self.forward.get(&(page / ENTRIES))?[(page % ENTRIES) as usize];
        (place != NOWHERE).then(|| self.split(place))
    }

    fn split(&self, place: u32) -> (u32, u64) {
        ((u64::from(place) / self.zone_blocks) as u32, u64::from(place) % self.zone_blocks)
    }

    /// Gives a page a place, or none.
    pub(super) fn set(&mut self, page: u64, place: Option<(u32, u64)>) {
        let number = place.map_or(NOWHERE, |(zone, block)| (u64::from(zone) * self.zone_blocks + block) as u32);
        let entries = self.forward.entry(page / ENTRIES).or_insert_with(|| vec![NOWHERE; ENTRIES as usize].into());
        let old = std::mem::replace(&mut entries[(page % ENTRIES) as usize], number);
        if old != NOWHERE {
            let (zone, _) = self.split(old);
            self.live[zone as usize] -= 1;
        }
        if let Some((zone, block)) = place {
            self.live[zone as usize] += 1;
            let blocks = self.zone_blocks as usize;
            self.back.entry(zone).or_insert_with(|| vec![NOWHERE; blocks].into())[block as usize] = page as u32;
        }
    }

    /// Live pages of a zone.
    pub(super) fn live(&self, zone: u32) -> u32 {
        self.live[zone as usize]
    }

    /// Live pages of a zone with their blocks, in the order of blocks.
    pub(super) fn pages_of(&self, zone: u32) -> Vec<(u64, u64)> {
        let Some(back) = self.back.get(&zone) else { return Vec::new() };
        let pages = back.iter().enumerate().filter(|&(_, &page)| page != NOWHERE);
        let pages = pages.map(|(block, &page)| (block as u64, u64::from(page)));
        pages.filter(|&(block, page)| self.place(page) == Some((zone, block))).collect()
    }

    /// Nothing lies in a zone any more.
    pub(super) fn forget(&mut self, zone: u32) {
        self.back.remove(&zone);
    }
}
