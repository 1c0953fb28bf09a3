//! Cleaning: of the zone with the fewest live pages, while few zones are free.

use std::rc::Rc;

use futures_util::future::try_join_all;
use futures_util::{StreamExt, stream};
use shingle_base::BLOCK_SIZE;
use shingle_store_api::StoreResult;

use super::layer::{COPIES, Layer, PATIENCE, State};

/// Free zones below which cleaning begins.
const FREE_LOW: usize = 7;

/// Pages that are copied together.
const BATCH: usize = 256;

/// Batches that are read at once.
const READS: usize = 4;

impl Layer {
    /// Starts the cleaner, if it is to work and does not.
    pub(super) fn clean_if_needed(self: &Rc<Self>, state: &State) {
        let wanted = state.free.len() < FREE_LOW && self.victim(state).is_some();
        if wanted && !self.cleaning.replace(true) {
            let layer = self.clone();
            self.rt.spawn_detached(async move {
                while let Some(zone) = layer.next_victim() {
                    if layer.clean(zone).await.is_err() {
                        break;
                    }
                }
                layer.cleaning.set(false);
                layer.room.notify_waiters();
            });
        }
    }

    fn next_victim(&self) -> Option<u32> {
        let state = self.state.borrow();
        if state.free.len() < FREE_LOW { self.victim(&state) } else { None }
    }

    /// The zone of which copying wins most.
    fn victim(&self, state: &State) -> Option<u32> {
        let (all, blocks) = (0..self.zones.geometry().zone_count, self.zones.blocks());
        // Nobody writes there any more, so that all that lives in it is in the map.
        let full = |zone: &u32| {
            self.zones.given(*zone) == blocks && !state.open.contains(&Some(*zone)) && state.pins[*zone as usize] == 0
        };
        let least = all.filter(full).min_by_key(|&zone| state.map.live(zone))?;
        (u64::from(state.map.live(least)) < blocks).then_some(least)
    }

    async fn clean(self: &Rc<Self>, zone: u32) -> StoreResult<()> {
        let pages = self.state.borrow().map.pages_of(zone);
        let read = |batch: Vec<(u64, u64)>| async move {
            let (first, last) = (batch.first().map_or(0, |page| page.0), batch.last().map_or(0, |page| page.0));
            // One read over small gaps costs less than several.
            (self.zones.read(zone, first, last + 1 - first).await, batch)
        };
        let batches: Vec<_> = batches(&pages);
        let mut reading = stream::iter(batches).map(read).buffered(READS);
        while let Some((data, batch)) = reading.next().await {
            let (data, first) = (data?, batch.first().map_or(0, |page| page.0));
            // They wait together, and become one command.
            let copies = batch.into_iter().map(|(block, page)| {
                let at = (block - first) as usize * BLOCK_SIZE;
                let data = vec![data.slice(at..at + BLOCK_SIZE)];
                self.write_at(COPIES, page, data, move |map, page| map.place(page) == Some((zone, block)))
            });
            try_join_all(copies).await?;
        }
        drop(reading);
        // The map is durable before what it led to goes.
        self.flush().await?;
        while self.state.borrow().pins[zone as usize] > 0 {
            self.rt.sleep(PATIENCE).await;
        }
        self.zones.reset(zone).await?;
        let mut state = self.state.borrow_mut();
        state.map.forget(zone);
        state.free.push_back(zone);
        drop(state);
        self.room.notify_waiters();
        Ok(())
    }
}

/// Divides blocks with their pages into batches that lie close together.
fn batches(pages: &[(u64, u64)]) -> Vec<Vec<(u64, u64)>> {
    let mut batches: Vec<Vec<(u64, u64)>> = Vec::new();
    for &(block, page) in pages {
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && batch.first().is_some_and(|first| block - first.0 < BATCH as u64) => {
                batch.push((block, page));
            }
            _ => batches.push(vec![(block, page)]),
        }
    }
    batches
}
