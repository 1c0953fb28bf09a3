//! The kernel's dm-zoned: random writes are buffered in conventional zones, and whole zones are merged.
//!
//! A chunk as long as a zone is mapped to one zone. A first write maps it to a conventional ("random") zone, where it is overwritten in
//! place. Reclaim copies it to a sequential zone, from whose write pointer on it may be written on; writes elsewhere go to a random
//! zone that buffers the chunk.
//!
//! | constant | value | |
//! |---|---|---|
//! | algorithm, metadata, flushes | as described | published (Documentation/admin-guide/device-mapper/dm-zoned.rst) |
//! | percent of random zones that are free, at or below which reclaim works on a busy drive | 30 | published (drivers/md/dm-zoned-reclaim.c) |
//! | time without access after which a drive is idle; between flushes of metadata | 10 s | published (the same, dm-zoned-target.c) |
//! | share of time that reclaim works while more than 15 % are free | 75 % | published (the same) |
//! | sequential zones for reclaim alone | 16 | published (dmzadm's default) |
//! | piece of a copy; pieces read at once | 512 KiB; 8 | assumed (drivers/md/dm-kcopyd.c, as remembered) |
//! | victims | the least recently used chunk that nobody accesses | published (the document; newer kernels look at weights, too) |
//! | durable writes | a write and a flush | assumed: the kernel passes the flag to the drive and leaves its metadata alone |
//!
//! It gets the benefit of the doubt: its work takes no processor time, and the block layer merges writes of one zone. It keeps no state
//! for a crash. It has not yet been held against the kernel's own in the guest of `tests/zoned`.

mod metadata;
mod reclaim;
mod table;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks};
use shingle_runtime::{Instant, Runtime};
use shingle_store_api::{BlockStore, Durability, LocalStoreFuture, StoreError, StoreErrorKind, StoreResult, accessed};
use shingle_zoned::ZonedDevice;
use tokio::sync::{Mutex, Notify};

use super::zones::{Zones, joined, take_blocks};
use metadata::{Changes, Shape};
use table::Table;

/// Sequential zones for reclaim alone.
const RESERVED: u32 = 16;

/// The layer.
#[derive(Clone)]
pub struct DmZoned(Rc<Layer>);

struct Layer {
    rt: Runtime,
    zones: Rc<Zones>,
    shape: Shape,
    table: RefCell<Table>,
    changes: RefCell<Changes>,
    /// One flush at a time.
    flushes: Mutex<()>,
    flushing: Cell<bool>,
    flushed: Notify,
    last_access: Cell<Instant>,
    /// Reclaim is to look.
    wanted: Notify,
    /// A zone became free, or a chunk is reclaimed no more.
    room: Notify,
}

/// Part of an access in one chunk.
#[derive(Clone)]
struct Part {
    chunk: u32,
    blocks: Range<u64>,
}

impl DmZoned {
    /// A fresh layer on a fresh drive. Its reclaim works until the simulation ends.
    ///
    /// # Errors
    /// `Invalid` if the drive has too few conventional zones, or too few others.
    pub fn format(rt: &Runtime, device: Rc<dyn ZonedDevice>) -> StoreResult<Self> {
        Self::with_reserve(rt, device, RESERVED)
    }

    fn with_reserve(rt: &Runtime, device: Rc<dyn ZonedDevice>, reserved: u32) -> StoreResult<Self> {
        let zones = Zones::new(rt, device);
        let (count, conventional) = (zones.geometry().zone_count, zones.geometry().conventional_zones);
        let shape = Shape::new(count, zones.blocks());
        let meta = 2 * shape.zones;
        // A chunk is buffered in one random zone while another one is reclaimed.
        if conventional < meta + 2 || count < conventional + reserved + 1 {
            let text = format!("dm-zoned needs {} conventional zones, and more than {reserved} others", meta + 2);
            return Err(StoreError::new(StoreErrorKind::Invalid, text));
        }
        let table = RefCell::new(Table::new(count, conventional, meta, reserved, zones.blocks()));
        let layer = Rc::new(Layer {
            rt: rt.clone(),
            zones,
            shape,
            table,
            changes: RefCell::default(),
            flushes: Mutex::new(()),
            flushing: Cell::new(false),
            flushed: Notify::new(),
            last_access: Cell::new(rt.now()),
            wanted: Notify::new(),
            room: Notify::new(),
        });
        rt.spawn_detached(reclaim::work(layer.clone(), rt.clone()));
        rt.spawn_detached(reclaim::flush_periodically(layer.clone(), rt.clone()));
        Ok(Self(layer))
    }

    fn parts(&self, bytes: Range<u64>) -> Vec<Part> {
        let (mut at, end) = (bytes.start / BLOCK_SIZE as u64, bytes.end / BLOCK_SIZE as u64);
        let (blocks, mut parts) = (self.0.zones.blocks(), Vec::with_capacity(1));
        while at < end {
            let now = (end - at).min(blocks - at % blocks);
            parts.push(Part { chunk: (at / blocks) as u32, blocks: at % blocks..at % blocks + now });
            at += now;
        }
        parts
    }
}

impl Layer {
    /// Begins an access to a chunk: not while it is reclaimed.
    async fn begin(&self, chunk: u32) {
        self.last_access.set(self.rt.now());
        loop {
            let waits = self.room.notified();
            {
                let entry = &mut self.table.borrow_mut().chunks[chunk as usize];
                if !entry.reclaimed {
                    entry.active += 1;
                    return;
                }
                entry.terminates = true;
            }
            waits.await;
        }
    }

    /// Ends an access. Zones that hold nothing become free.
    async fn end(&self, chunk: u32) -> StoreResult<()> {
        let mut to_reset = None;
        {
            let table = &mut *self.table.borrow_mut();
            let entry = &mut table.chunks[chunk as usize];
            entry.active -= 1;
            let Some(data) = entry.data else { return Ok(()) };
            if entry.active == 0 {
                if let Some(buffer) = entry.buffer.filter(|&buffer| table.weight(buffer) == 0) {
                    table.chunks[chunk as usize].buffer = None;
                    table.free(buffer);
                }
                if table.weight(data) == 0 {
                    // The buffer takes the place of what it buffers.
                    let entry = &mut table.chunks[chunk as usize];
                    entry.data = entry.buffer.take();
                    match table.is_random(data) {
                        true => table.free(data),
                        false => to_reset = Some(data),
                    }
                    self.changes.borrow_mut().add([self.shape.of_chunk(chunk)]);
                }
            }
            [table.chunks[chunk as usize].data, table.chunks[chunk as usize].buffer]
                .into_iter()
                .flatten()
                .for_each(|zone| table.use_random(zone, chunk));
        }
        if let Some(zone) = to_reset {
            self.zones.reset(zone).await?;
            self.table.borrow_mut().free(zone);
        }
        self.room.notify_waiters();
        Ok(())
    }

    /// The zone to which blocks of a chunk are written; reclaim makes room for a new one.
    async fn target(&self, part: &Part) -> u32 {
        loop {
            let waits = self.room.notified();
            {
                let table = &mut *self.table.borrow_mut();
                let entry = table.chunks[part.chunk as usize];
                match (entry.data, entry.buffer) {
                    (Some(data), _) if table.is_random(data) || self.zones.given(data) == part.blocks.start => {
                        return data;
                    }
                    (Some(_), Some(buffer)) => return buffer,
                    (data, _) => {
                        if let Some(zone) = table.take_random(part.chunk) {
                            let entry = &mut table.chunks[part.chunk as usize];
                            *(if data.is_some() { &mut entry.buffer } else { &mut entry.data }) = Some(zone);
                            self.changes.borrow_mut().add([self.shape.of_chunk(part.chunk)]);
                            self.wanted.notify_one();
                            return zone;
                        }
                    }
                }
            }
            self.wanted.notify_one();
            waits.await;
        }
    }

    async fn write(self: &Rc<Self>, part: Part, data: Vec<Bytes>) -> StoreResult<()> {
        self.not_flushing().await;
        self.begin(part.chunk).await;
        let zone = self.target(&part).await;
        let written = if self.table.borrow().is_random(zone) {
            self.zones.write(zone, part.blocks.start, data).await
        } else {
            self.zones.append(zone, data).await
        };
        if written.is_ok() {
            self.enter(&part, Some(zone));
        }
        self.end(part.chunk).await?;
        written
    }

    /// Blocks of a chunk are valid in one zone, and in no other.
    fn enter(&self, part: &Part, zone: Option<u32>) {
        let table = &mut *self.table.borrow_mut();
        let Part { chunk, blocks } = part;
        let entry = table.chunks[*chunk as usize];
        for known in [entry.data, entry.buffer].into_iter().flatten() {
            let valid = Some(known) == zone;
            if valid || blocks.clone().any(|block| table.is_valid(known, block)) {
                table.mark(known, blocks.clone(), valid);
                self.changes.borrow_mut().add(self.shape.of_bits(known, blocks));
            }
        }
    }

    async fn read(&self, part: Part) -> StoreResult<Bytes> {
        self.begin(part.chunk).await;
        let mut found: Vec<(Option<u32>, u64, u64)> = Vec::new();
        {
            let table = self.table.borrow();
            let entry = table.chunks[part.chunk as usize];
            for block in part.blocks.clone() {
                let holds = |zone: &u32| table.is_valid(*zone, block);
                let zone = [entry.data, entry.buffer].into_iter().flatten().find(holds);
                match found.last_mut() {
                    Some((last, _, count)) if *last == zone => *count += 1,
                    _ => found.push((zone, block, 1)),
                }
            }
        }
        let run = |(zone, block, count): (Option<u32>, u64, u64)| async move {
            match zone {
                Some(zone) => self.zones.read(zone, block, count).await,
                None => Ok(AlignedBuf::zeroed(Blocks(count)).freeze()),
            }
        };
        let read = try_join_all(found.into_iter().map(run)).await;
        self.end(part.chunk).await?;
        read.map(joined)
    }

    async fn trim(&self, part: Part) -> StoreResult<()> {
        self.not_flushing().await;
        self.begin(part.chunk).await;
        self.enter(&part, None);
        self.end(part.chunk).await
    }
}

impl BlockStore for DmZoned {
    fn size_bytes(&self) -> u64 {
        Blocks(self.0.table.borrow().chunks.len() as u64 * self.0.zones.blocks()).bytes()
    }

    fn sector_bytes(&self) -> u64 {
        BLOCK_SIZE as u64
    }

    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        Box::pin(async move {
            let parts = self.parts(accessed(self, offset, length)?);
            Ok(joined(try_join_all(parts.into_iter().map(|part| self.0.read(part))).await?))
        })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> LocalStoreFuture<'_, ()> {
        Box::pin(async move {
            let parts = self.parts(accessed(self, offset, data.iter().map(|piece| piece.len() as u64).sum())?);
            let mut data = VecDeque::from(data);
            let mut cut = |part: &Part| take_blocks(&mut data, part.blocks.end - part.blocks.start);
            let parts: Vec<_> = parts.into_iter().map(|part| (cut(&part), part)).collect();
            try_join_all(parts.into_iter().map(|(data, part)| self.0.write(part, data))).await?;
            if durability == Durability::Durable { self.0.flush().await } else { Ok(()) }
        })
    }

    fn flush(&self) -> LocalStoreFuture<'_, ()> {
        Box::pin(self.0.flush())
    }

    fn trim(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, ()> {
        Box::pin(async move {
            let parts = self.parts(accessed(self, offset, length)?);
            try_join_all(parts.into_iter().map(|part| self.0.trim(part))).await.map(drop)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::model::{lives_up_to_its_model, zoned};

    #[test]
    fn reads_give_what_was_written_through_reclaim() {
        lives_up_to_its_model(zoned(12, 24), |rt, device| Ok(Rc::new(DmZoned::with_reserve(rt, device, 3)?)));
    }

    #[test]
    fn a_drive_without_conventional_zones_is_refused() {
        shingle_sim::Sim::new(1).run(|rt| async move {
            let refused = DmZoned::format(&rt, zoned(0, 40)(&rt)).map(drop).unwrap_err();
            assert_eq!(refused.kind, StoreErrorKind::Invalid);
        });
    }
}
