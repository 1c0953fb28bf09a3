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
//! for a crash. `tests/zoned/test_dm_zoned.py` holds the blocks that it writes against those of the kernel's own.

mod flush;
mod layer;
mod reclaim;
mod shape;
mod table;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use shingle_base::{BLOCK_SIZE, Blocks};
use shingle_runtime::Runtime;
use shingle_store_api::{BlockStore, Durability, LocalStoreFuture, StoreError, StoreErrorKind, StoreResult, accessed};
use shingle_zoned::ZonedDevice;
use tokio::sync::{Mutex, Notify};

use super::zones::{Zones, joined, take_blocks};
use layer::{Layer, Part};
use shape::Shape;
use table::Table;

/// Sequential zones for reclaim alone.
const RESERVED: u32 = 16;

/// The layer.
#[derive(Clone)]
pub struct DmZoned(Rc<Layer>);

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
