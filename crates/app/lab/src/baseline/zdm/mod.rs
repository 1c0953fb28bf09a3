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
mod layer;
mod map;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{BLOCK_SIZE, Blocks};
use shingle_runtime::Runtime;
use shingle_store_api::{BlockStore, Durability, LocalStoreFuture, StoreError, StoreErrorKind, StoreResult, accessed};
use shingle_zoned::ZonedDevice;
use tokio::sync::Notify;

use super::zones::Zones;
use cache::PageCache;
use layer::{Layer, State, WRITES};
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
