//! Flushes of metadata: what changed is written to the second set, then the second superblock, then the same in place, then the first
//! superblock; each step is durable before the next.

use futures_util::future::try_join_all;
use shingle_base::{AlignedBuf, Blocks};
use shingle_store_api::StoreResult;

use super::layer::Layer;
use crate::baseline::disk::runs;

impl Layer {
    /// Makes metadata and data durable. New writes wait meanwhile.
    pub(super) async fn flush(&self) -> StoreResult<()> {
        let _alone = self.flushes.lock().await;
        let changed = self.changes.borrow_mut().take();
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
