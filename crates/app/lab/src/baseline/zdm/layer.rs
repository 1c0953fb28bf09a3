//! Accesses to pages, and the map pages that they need.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join, try_join_all};
use shingle_base::{AlignedBuf, Blocks};
use shingle_runtime::Runtime;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use tokio::sync::Notify;

use super::cache::{Load, PageCache};
use super::map::{ENTRIES, Map};
use crate::baseline::disk::runs;
use crate::baseline::zones::{Zones, blocks_of, joined, take_blocks};

/// Time between two looks at a zone that is being read or written.
pub(super) const PATIENCE: Duration = Duration::from_millis(1);

/// The layer's parts.
pub(super) struct Layer {
    pub(super) rt: Runtime,
    pub(super) zones: Rc<Zones>,
    pub(super) pages: u64,
    pub(super) state: RefCell<State>,
    pub(super) cleaning: Cell<bool>,
    /// A zone became free.
    pub(super) room: Notify,
}

/// State in memory.
pub(super) struct State {
    pub(super) map: Map,
    pub(super) cache: PageCache,
    pub(super) free: VecDeque<u32>,
    /// Zones that are written: by callers, and by copies.
    pub(super) open: [Option<u32>; 2],
    /// Reads and writes under way in each zone.
    pub(super) pins: Vec<u32>,
}

/// The frontier of callers.
pub(super) const WRITES: usize = 0;

/// That of copies.
pub(super) const COPIES: usize = 1;

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
        let load = |(page, load): (u64, Load)| async move {
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

    pub(super) async fn flush(&self) -> StoreResult<()> {
        let dirty = self.state.borrow_mut().cache.take_dirty();
        try_join_all(runs(dirty).into_iter().map(|(page, pages)| self.write_map(page, pages))).await?;
        self.zones.flush().await
    }

    /// Writes pages at a frontier; `enters` says which of them are then to be found there.
    pub(super) async fn write_at(
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
                self.rt.sleep(PATIENCE).await;
                continue;
            }
            if !self.cleaning.get() {
                return Err(StoreError::new(StoreErrorKind::NoSpace, "no zone can be cleaned"));
            }
            waits.await;
        }
    }

    pub(super) async fn read(&self, pages: Range<u64>) -> StoreResult<Bytes> {
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

    pub(super) async fn trim(&self, pages: Range<u64>) -> StoreResult<()> {
        self.touch(pages.clone().map(Self::forward).collect(), true).await?;
        let mut state = self.state.borrow_mut();
        pages.for_each(|page| state.map.set(page, None));
        Ok(())
    }
}
