//! A page-mapped translation layer with a cached map, after Seagate's ZDM-Device-Mapper, which FSTL compares TL2 with.
//!
//! Pages of 4 KiB are written at one frontier. The map, both ways, lies page by page at fixed places in the conventional zones; a
//! bounded number of its pages is in memory.
//!
//! | constant | value | |
//! |---|---|---|
//! | pages | 4 KiB | published (README, "Architecture") |
//! | place of the map | conventional zones, 0.2 % of the drive | published (the same) |
//! | to spare | 1 % | published (the same) |
//! | memory | 25 MiB: 6,400 pages | published (README, "ZDM #109": 12 MiB in the first fill, 25 MiB while cleaning) |
//! | journal of the map | none: pages are written in place | published (README, "ZDM #114": off by default) |
//! | changed pages are written | at a flush, and to make room | the paper, section III-A |
//! | cleaning | of the zone with the fewest live pages, below 7 free zones | assumed |
//! | durable writes | a write and a flush | assumed |
//! | data kept in memory until a flush | none | the paper says "some"; that gains only while memory lasts |
//!
//! It gets the benefit of the doubt: a write waits for its map page and its data at once, map pages cost no memory traffic, and the
//! block layer merges writes of one zone. It keeps no state for a crash: nothing here reads a map from the drive.

mod cache;
mod clean;
mod map;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::{join, try_join_all};
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks};
use shingle_runtime::Runtime;
use shingle_store_api::{BlockStore, Durability, LocalStoreFuture, StoreError, StoreErrorKind, StoreResult, accessed};
use shingle_zoned::ZonedDevice;
use tokio::sync::Notify;

use super::disk::runs;
use super::zones::{Zones, blocks_of, joined, take_blocks};
use cache::PageCache;
use map::{ENTRIES, Map};

/// Map pages in memory.
const CACHED: usize = 6400;

/// Of a hundred blocks so many are to spare.
const SPARE_PERCENT: u64 = 1;

/// Zones to spare at least: two that are written, one for copies, and those below which cleaning begins.
const SPARE_ZONES_MIN: u32 = 12;

/// The layer.
#[derive(Clone)]
pub struct Zdm(Rc<Layer>);

struct Layer {
    rt: Runtime,
    zones: Rc<Zones>,
    pages: u64,
    state: RefCell<State>,
    cleaning: Cell<bool>,
    /// A zone became free.
    room: Notify,
}

struct State {
    map: Map,
    cache: PageCache,
    free: VecDeque<u32>,
    /// Zones that are written: by callers, and by copies.
    open: [Option<u32>; 2],
    /// Reads and writes under way in each zone.
    pins: Vec<u32>,
}

/// The frontier of callers.
const WRITES: usize = 0;

/// That of copies.
const COPIES: usize = 1;

impl Zdm {
    /// A fresh layer on a fresh drive.
    ///
    /// # Errors
    /// `Invalid` if the drive has too few conventional zones for the map, or too few others.
    pub fn format(rt: &Runtime, device: Rc<dyn ZonedDevice>) -> StoreResult<Self> {
        Self::with_cache(rt, device, CACHED)
    }

    fn with_cache(rt: &Runtime, device: Rc<dyn ZonedDevice>, cached: usize) -> StoreResult<Self> {
        let zones = Zones::new(rt, device);
        let (count, conventional) = (zones.geometry().zone_count, zones.geometry().conventional_zones);
        let sequential = u64::from(count - conventional);
        let spare = (sequential * SPARE_PERCENT).div_ceil(100).max(u64::from(SPARE_ZONES_MIN));
        let pages = sequential.saturating_sub(spare) * zones.blocks();
        let all = u64::from(count) * zones.blocks();
        let map_pages = pages.div_ceil(ENTRIES) + all.div_ceil(ENTRIES);
        if pages == 0 || map_pages > u64::from(conventional) * zones.blocks() || all > u64::from(u32::MAX) {
            let text = format!("a page-mapped layer needs {map_pages} conventional blocks for its map");
            return Err(StoreError::new(StoreErrorKind::Invalid, text));
        }
        let state = State {
            map: Map::new(count, zones.blocks()),
            cache: PageCache::new(cached),
            free: (conventional..count).collect(),
            open: [None; 2],
            pins: vec![0; count as usize],
        };
        let (state, cleaning, room) = (RefCell::new(state), Cell::new(false), Notify::new());
        Ok(Self(Rc::new(Layer { rt: rt.clone(), zones, pages, state, cleaning, room })))
    }
}

impl Layer {
    /// Number of the map page that has the places of pages.
    fn forward(page: u64) -> u64 {
        page / ENTRIES
    }

    /// That of the map page that has the pages of places.
    fn backward(&self, zone: u32, block: u64) -> u64 {
        self.pages.div_ceil(ENTRIES) + (u64::from(zone) * self.zones.blocks() + block) / ENTRIES
    }

    /// Brings map pages into memory.
    async fn touch(&self, pages: BTreeSet<u64>, changes: bool) -> StoreResult<()> {
        let loads: Vec<_> = {
            let mut state = self.state.borrow_mut();
            pages.into_iter().map(|page| (page, state.cache.touch(page, changes))).collect()
        };
        let blocks = self.zones.blocks();
        let load = |(page, load): (u64, cache::Load)| async move {
            if let Some(old) = load.writes {
                self.write_map(old, 1).await?;
            }
            if load.reads {
                self.zones.read((page / blocks) as u32, page % blocks, 1).await?;
            }
            Ok(())
        };
        try_join_all(loads.into_iter().map(load)).await.map(drop)
    }

    /// Writes map pages in their places.
    async fn write_map(&self, page: u64, pages: u64) -> StoreResult<()> {
        let blocks = self.zones.blocks();
        let (mut page, end) = (page, page + pages);
        while page < end {
            let now = (end - page).min(blocks - page % blocks);
            let zeros = AlignedBuf::zeroed(Blocks(now)).freeze();
            self.zones.write((page / blocks) as u32, page % blocks, vec![zeros]).await?;
            page += now;
        }
        Ok(())
    }

    async fn flush(&self) -> StoreResult<()> {
        let dirty = self.state.borrow_mut().cache.take_dirty();
        try_join_all(runs(dirty).into_iter().map(|(page, pages)| self.write_map(page, pages))).await?;
        self.zones.flush().await
    }

    /// Writes pages at a frontier; `enters` says which of them are then to be found there.
    async fn write_at(
        self: &Rc<Self>,
        stream: usize,
        first: u64,
        data: Vec<Bytes>,
        enters: impl Fn(&Map, u64) -> bool,
    ) -> StoreResult<()> {
        let (mut page, mut left, mut data) = (first, blocks_of(&data), VecDeque::from(data));
        while left > 0 {
            let (zone, block) = self.frontier(stream).await?;
            let now = left.min(self.zones.blocks() - block);
            let written = self.zones.append(zone, take_blocks(&mut data, now));
            self.state.borrow_mut().pins[zone as usize] += 1;
            let mut pages: BTreeSet<u64> = (page..page + now).map(Self::forward).collect();
            pages.extend((block..block + now).map(|block| self.backward(zone, block)));
            let (written, loaded) = join(written, self.touch(pages, true)).await;
            let mut state = self.state.borrow_mut();
            state.pins[zone as usize] -= 1;
            written?;
            loaded?;
            for at in 0..now {
                if enters(&state.map, page + at) {
                    state.map.set(page + at, Some((zone, block + at)));
                }
            }
            drop(state);
            (page, left) = (page + now, left - now);
        }
        Ok(())
    }

    /// Zone and block where a stream goes on.
    async fn frontier(self: &Rc<Self>, stream: usize) -> StoreResult<(u32, u64)> {
        loop {
            let waits = self.room.notified();
            {
                let mut state = self.state.borrow_mut();
                if let Some(zone) = state.open[stream] {
                    let given = self.zones.given(zone);
                    if given < self.zones.blocks() {
                        return Ok((zone, given));
                    }
                    state.open[stream] = None;
                }
                // The last free zone is for copies.
                if state.free.len() > usize::from(stream == WRITES) {
                    state.open[stream] = state.free.pop_front();
                }
                self.clean_if_needed(&state);
                if state.open[stream].is_some() {
                    continue;
                }
            }
            if !self.cleaning.get() && self.state.borrow().pins.iter().any(|&pins| pins > 0) {
                // Zones that somebody reads or writes may be cleaned soon.
                self.rt.sleep(clean::PATIENCE).await;
                continue;
            }
            if !self.cleaning.get() {
                return Err(StoreError::new(StoreErrorKind::NoSpace, "no zone can be cleaned"));
            }
            waits.await;
        }
    }

    async fn read(&self, pages: Range<u64>) -> StoreResult<Bytes> {
        self.touch(pages.clone().map(Self::forward).collect(), false).await?;
        // Runs of pages that lie one behind the other, or nowhere.
        let mut found: Vec<(Option<(u32, u64)>, u64)> = Vec::new();
        {
            let mut state = self.state.borrow_mut();
            for page in pages {
                let place = state.map.place(page);
                match (found.last_mut(), place) {
                    (Some((None, count)), None) => *count += 1,
                    (Some((Some((zone, block)), count)), Some(next)) if next == (*zone, *block + *count) => *count += 1,
                    _ => found.push((place, 1)),
                }
            }
            found.iter().filter_map(|run| run.0).for_each(|(zone, _)| state.pins[zone as usize] += 1);
        }
        let part = |&(place, count): &(Option<(u32, u64)>, u64)| async move {
            match place {
                Some((zone, block)) => self.zones.read(zone, block, count).await,
                None => Ok(AlignedBuf::zeroed(Blocks(count)).freeze()),
            }
        };
        let parts = try_join_all(found.iter().map(part)).await;
        let mut state = self.state.borrow_mut();
        found.iter().filter_map(|run| run.0).for_each(|(zone, _)| state.pins[zone as usize] -= 1);
        parts.map(joined)
    }

    async fn trim(&self, pages: Range<u64>) -> StoreResult<()> {
        self.touch(pages.clone().map(Self::forward).collect(), true).await?;
        let mut state = self.state.borrow_mut();
        pages.for_each(|page| state.map.set(page, None));
        Ok(())
    }
}

/// Pages of an access.
fn pages_of(bytes: Range<u64>) -> Range<u64> {
    bytes.start / BLOCK_SIZE as u64..bytes.end / BLOCK_SIZE as u64
}

impl BlockStore for Zdm {
    fn size_bytes(&self) -> u64 {
        Blocks(self.0.pages).bytes()
    }

    fn sector_bytes(&self) -> u64 {
        BLOCK_SIZE as u64
    }

    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        Box::pin(async move { self.0.read(pages_of(accessed(self, offset, length)?)).await })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> LocalStoreFuture<'_, ()> {
        Box::pin(async move {
            let pages = pages_of(accessed(self, offset, data.iter().map(|piece| piece.len() as u64).sum())?);
            self.0.write_at(WRITES, pages.start, data, |_, _| true).await?;
            if durability == Durability::Durable { self.0.flush().await } else { Ok(()) }
        })
    }

    fn flush(&self) -> LocalStoreFuture<'_, ()> {
        Box::pin(self.0.flush())
    }

    fn trim(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, ()> {
        Box::pin(async move { self.0.trim(pages_of(accessed(self, offset, length)?)).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::model::{lives_up_to_its_model, zoned};

    #[test]
    fn reads_give_what_was_written_through_cleaning_and_a_small_cache() {
        lives_up_to_its_model(zoned(4, 40), |rt, device| Ok(Rc::new(Zdm::with_cache(rt, device, 3)?)));
    }

    #[test]
    fn a_drive_without_room_for_the_map_is_refused() {
        shingle_sim::Sim::new(1).run(|rt| async move {
            let refused = Zdm::format(&rt, zoned(0, 40)(&rt)).map(drop).unwrap_err();
            assert_eq!(refused.kind, StoreErrorKind::Invalid);
        });
    }
}
