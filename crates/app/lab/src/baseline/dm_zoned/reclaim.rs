//! Reclaim: chunks move from random zones to sequential ones, zone by zone.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use futures_util::{StreamExt, stream};
use shingle_base::{AlignedBuf, Blocks};
use shingle_runtime::Runtime;
use shingle_store_api::StoreResult;

use super::layer::Layer;

/// Time without access after which the drive is idle, between looks, and between flushes of metadata.
const PERIOD: Duration = Duration::from_secs(10);

/// Percent of random zones that are free, at or below which reclaim works on a busy drive.
const LOW: u32 = 30;

/// Share of time that it works while enough zones are free, in percent.
const THROTTLED: u32 = 75;

/// Time in which those who wait take their turn.
const TURN: Duration = Duration::from_micros(1);

/// Blocks of a piece of a copy.
const PIECE: u64 = 128;

/// Pieces that are read at once.
const READS: usize = 8;

/// The reclaim of a layer, until its simulation ends.
pub(super) async fn work(layer: Rc<Layer>, rt: Runtime) {
    // Linux sets its timer where there was nothing to do, and not behind a reclaim: then it looks again when a zone is taken, however
    // long the drive is idle before. (Seen in the guest of `tests/zoned`, too.)
    let mut timer = true;
    loop {
        let free = layer.free_percent();
        let reclaimed = if layer.should_reclaim(free) { layer.reclaim(free).await } else { Ok(false) };
        match reclaimed {
            Ok(true) => timer = layer.should_reclaim(layer.free_percent()),
            Ok(false) if timer || layer.is_starved() => {
                // By then there may be something.
                let look = if layer.is_starved() { PERIOD / 1000 } else { PERIOD };
                select(pin!(layer.wanted.notified()), pin!(rt.sleep(look))).await;
            }
            Ok(false) => layer.wanted.notified().await,
            Err(_) => break,
        }
    }
}

/// Flushes metadata from time to time.
pub(super) async fn flush_periodically(layer: Rc<Layer>, rt: Runtime) {
    loop {
        rt.sleep(PERIOD).await;
        if layer.flush().await.is_err() {
            break;
        }
    }
}

impl Layer {
    fn free_percent(&self) -> u32 {
        let table = self.table.borrow();
        let free = table.free_random.len() as u32;
        if free <= 1 { 0 } else { free * 100 / table.randoms.max(1) }
    }

    fn is_starved(&self) -> bool {
        self.free_percent() <= LOW
    }

    fn is_idle(&self) -> bool {
        self.rt.now().since(self.last_access.get()) >= PERIOD
    }

    fn should_reclaim(&self, free: u32) -> bool {
        self.is_idle() || free <= LOW
    }

    /// Takes the chunk that is reclaimed next.
    fn candidate(&self) -> Option<u32> {
        let table = &mut *self.table.borrow_mut();
        let quiet = |chunk: &u32| {
            let entry = table.chunks[*chunk as usize];
            // Without a free sequential zone only a merge into the buffer is possible.
            let possible = !table.lacks_sequential() || entry.buffer.is_some();
            entry.active == 0 && !entry.reclaimed && possible
        };
        let chunk = table.by_age().find(quiet)?;
        table.chunks[chunk as usize].reclaimed = true;
        Some(chunk)
    }

    /// Reclaims a chunk's random zone. False if there is none that it could.
    async fn reclaim(self: &Rc<Self>, free: u32) -> StoreResult<bool> {
        let Some(chunk) = self.candidate() else { return Ok(false) };
        let throttled = !self.is_idle() && free >= LOW / 2;
        let entry = self.table.borrow().chunks[chunk as usize];
        let done = match (entry.data, entry.buffer) {
            (Some(data), Some(buffer)) => self.merge(chunk, data, buffer, throttled).await,
            (Some(data), None) => self.move_to_sequential(chunk, data, throttled).await,
            (None, _) => Ok(false),
        };
        {
            let entry = &mut self.table.borrow_mut().chunks[chunk as usize];
            (entry.reclaimed, entry.terminates) = (false, false);
        }
        self.room.notify_waiters();
        // The chunk goes to those who wait for it before it is chosen again.
        self.rt.sleep(TURN).await;
        if done? {
            self.flush().await?;
        }
        Ok(true)
    }

    /// Copies a chunk from a random zone to a fresh sequential one.
    async fn move_to_sequential(self: &Rc<Self>, chunk: u32, data: u32, throttled: bool) -> StoreResult<bool> {
        let Some(fresh) = self.table.borrow_mut().take_sequential() else { return Ok(false) };
        if !self.copy(chunk, data, fresh, throttled).await? {
            self.zones.reset(fresh).await?;
            self.table.borrow_mut().free(fresh);
            return Ok(false);
        }
        let table = &mut *self.table.borrow_mut();
        for (block, blocks) in table.valid_runs(data) {
            table.mark(fresh, block..block + blocks, true);
        }
        table.chunks[chunk as usize].data = Some(fresh);
        table.free(data);
        self.changed(chunk, [data, fresh]);
        Ok(true)
    }

    /// Brings a chunk's data and buffer zones together: behind the write pointer of the first, or in the buffer.
    async fn merge(self: &Rc<Self>, chunk: u32, data: u32, buffer: u32, throttled: bool) -> StoreResult<bool> {
        let first = self.table.borrow().valid_runs(buffer).first().map(|run| run.0);
        let onwards = first.is_none_or(|first| first >= self.zones.given(data));
        let (from, to) = if onwards { (buffer, data) } else { (data, buffer) };
        if !self.copy(chunk, from, to, throttled).await? {
            return Ok(false);
        }
        {
            let table = &mut *self.table.borrow_mut();
            for (block, blocks) in table.valid_runs(from) {
                table.mark(to, block..block + blocks, true);
            }
            let entry = &mut table.chunks[chunk as usize];
            (entry.data, entry.buffer) = (Some(to), None);
            if table.is_random(from) {
                table.free(from);
            }
            table.use_random(to, chunk);
        }
        self.changed(chunk, [from, to]);
        if from == data {
            self.zones.reset(data).await?;
            self.table.borrow_mut().free(data);
        }
        Ok(true)
    }

    fn changed(&self, chunk: u32, zones: [u32; 2]) {
        let mut changes = self.changes.borrow_mut();
        changes.add([self.shape.of_chunk(chunk)]);
        zones.into_iter().for_each(|zone| changes.add(self.shape.of_bits(zone, &(0..self.zones.blocks()))));
    }

    /// Copies valid blocks to the same places of another zone; zeros fill what lies between in a sequential one. False if somebody
    /// wants the chunk.
    async fn copy(self: &Rc<Self>, chunk: u32, from: u32, to: u32, throttled: bool) -> StoreResult<bool> {
        let (runs, random) = (self.table.borrow().valid_runs(from), self.table.borrow().is_random(to));
        for (start, blocks) in runs {
            if self.table.borrow().chunks[chunk as usize].terminates {
                return Ok(false);
            }
            let began = self.rt.now();
            let hole = if random { 0 } else { start.saturating_sub(self.zones.given(to)) };
            if hole > 0 {
                self.zones.append(to, zeros(hole)).await?;
            }
            let pieces = (start..start + blocks).step_by(PIECE as usize);
            let read = |block: u64| async move {
                let now = PIECE.min(start + blocks - block);
                (block, self.zones.read(from, block, now).await)
            };
            let mut reading = stream::iter(pieces).map(read).buffered(READS);
            while let Some((block, data)) = reading.next().await {
                let data = vec![data?];
                if random { self.zones.write(to, block, data).await? } else { self.zones.append(to, data).await? }
            }
            if throttled {
                self.rt.sleep(self.rt.now().since(began) * (100 - THROTTLED) / THROTTLED).await;
            }
        }
        Ok(true)
    }
}

/// So many blocks of zeros.
fn zeros(mut blocks: u64) -> Vec<bytes::Bytes> {
    let piece = AlignedBuf::zeroed(Blocks(PIECE)).freeze();
    let mut pieces = Vec::with_capacity(blocks.div_ceil(PIECE) as usize);
    while blocks > 0 {
        let now = blocks.min(PIECE);
        pieces.push(piece.slice(..Blocks(now).bytes() as usize));
        blocks -= now;
    }
    pieces
}
