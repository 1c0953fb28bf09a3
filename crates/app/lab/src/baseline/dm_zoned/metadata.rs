//! Metadata on the drive: two sets of mapping table and bitmaps, in the first conventional zones.
//!
//! A flush writes what changed to the second set, then the second superblock, then the same in place, then the first superblock; each
//! step is durable before the next.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use shingle_base::{AlignedBuf, Blocks};
use shingle_store_api::StoreResult;

use super::Layer;
use crate::baseline::disk::runs;

/// Entries of a mapping block: of 8 bytes each.
const MAPPINGS: u64 = 512;

/// Bits of a bitmap block.
const BITS: u64 = 32_768;

/// Shape of a set of metadata.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    mapping: u64,
    in_zone: u64,
    zone_blocks: u64,
    /// Zones of a set.
    pub(super) zones: u32,
}

impl Shape {
    pub(super) fn new(zones: u32, zone_blocks: u64) -> Self {
        let (mapping, in_zone) = (u64::from(zones).div_ceil(MAPPINGS), zone_blocks.div_ceil(BITS));
        let blocks = 1 + mapping + u64::from(zones) * in_zone;
        Self { mapping, in_zone, zone_blocks, zones: blocks.div_ceil(zone_blocks) as u32 }
    }

    /// The block of a set with a chunk's mapping.
    pub(super) fn of_chunk(&self, chunk: u32) -> u64 {
        1 + u64::from(chunk) / MAPPINGS
    }

    /// Blocks with the bits of blocks of a zone.
    pub(super) fn of_bits(&self, zone: u32, blocks: &std::ops::Range<u64>) -> std::ops::Range<u64> {
        let base = 1 + self.mapping + u64::from(zone) * self.in_zone;
        base + blocks.start / BITS..base + blocks.end.div_ceil(BITS)
    }
}

/// Changes that are not on the drive yet.
#[derive(Default)]
pub(super) struct Changes(BTreeSet<u64>);

impl Changes {
    pub(super) fn add(&mut self, blocks: impl IntoIterator<Item = u64>) {
        self.0.extend(blocks);
    }
}

impl Layer {
    /// Makes metadata and data durable. New writes wait meanwhile.
    pub(super) async fn flush(&self) -> StoreResult<()> {
        let _alone = self.flushes.lock().await;
        let changed = std::mem::take(&mut self.changes.borrow_mut().0);
        if changed.is_empty() {
            return self.zones.flush().await;
        }
        self.flushing.set(true);
        let flushed = self.flush_sets(&runs(changed)).await;
        self.flushing.set(false);
        self.flushed.notify_waiters();
        flushed
    }

    async fn flush_sets(&self, changed: &[(u64, u64)]) -> StoreResult<()> {
        for set in [1, 0] {
            let write = |&(block, blocks): &(u64, u64)| self.write_set(set, block, blocks);
            try_join_all(changed.iter().map(write)).await?;
            self.zones.flush().await?;
            self.write_set(set, 0, 1).await?;
            self.zones.flush().await?;
        }
        Ok(())
    }

    async fn write_set(&self, set: u32, mut block: u64, blocks: u64) -> StoreResult<()> {
        let (end, in_zone) = (block + blocks, self.shape.zone_blocks);
        while block < end {
            let now = (end - block).min(in_zone - block % in_zone);
            let zone = set * self.shape.zones + (block / in_zone) as u32;
            let zeros = AlignedBuf::zeroed(Blocks(now)).freeze();
            self.zones.write(zone, block % in_zone, vec![zeros]).await?;
            block += now;
        }
        Ok(())
    }

    /// Waits as long as metadata are being flushed.
    pub(super) async fn not_flushing(&self) {
        while self.flushing.get() {
            self.flushed.notified().await;
        }
    }
}
