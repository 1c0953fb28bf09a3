//! Checkpoints: the tables on the drive catch up with memory, and prefree sections become free. (fs/f2fs/checkpoint.c.)
//!
//! # Invariants
//! - LAB-FC-1: no block is given out while a checkpoint is written, but those of its own nodes.
//! - LAB-FC-2: a zone is reset only after the checkpoint that no longer names its blocks.

use std::rc::{Rc, Weak};
use std::time::Duration;

use shingle_base::ZoneId;
use shingle_runtime::Runtime;

use super::file::INDIRECT;
use super::shared::Shared;
use super::temperature::Temperature;
use crate::baseline::disk::runs;
use crate::rig::target::TargetError;

/// Interval of checkpoints if nothing else calls for one (`CP_TIME`).
const EVERY: Duration = Duration::from_secs(60);
/// Changed entries of the node address table that fit in the journal of the checkpoint pack.
const NAT_JOURNAL: usize = 38;
/// Changed entries of the segment information table that do.
const SIT_JOURNAL: usize = 6;
/// Blocks of a checkpoint pack before its last: its header and the summaries of the data logs.
const PACK: u64 = 4;
/// Prefree segments that call for a checkpoint: 5 % of all, 4096 at most (`rec_prefree_segments`).
const PREFREE_MAX: usize = 4096;

pub(super) async fn every_minute(rt: Runtime, shared: Weak<Shared>) {
    loop {
        rt.sleep(EVERY).await;
        let Some(shared) = shared.upgrade() else { return };
        shared.checkpoint_noting().await;
    }
}

impl Shared {
    /// True if more sections are prefree than should wait for the next checkpoint in time.
    pub(super) fn wants_checkpoint(&self) -> bool {
        let segments = (self.layout.section / super::layout::SEGMENT) as usize;
        let most = (self.layout.sections as usize * segments / 20).min(PREFREE_MAX);
        self.sections.borrow().prefree_count() * segments > most
    }

    pub(super) async fn checkpoint_noting(self: &Rc<Self>) {
        if let Err(error) = self.checkpoint().await {
            self.failed.borrow_mut().get_or_insert(error);
        }
    }

    /// Writes a checkpoint; callers that need blocks wait.
    pub(super) async fn checkpoint(&self) -> Result<(), TargetError> {
        let _all = self.operations.write().await;
        let dirty = std::mem::take(&mut *self.dirty_nodes.borrow_mut());
        let (indirect, direct): (Vec<_>, Vec<_>) = dirty.into_iter().partition(|&(_, node)| node >= INDIRECT);
        let mut writes = self.write_nodes(&direct, Temperature::WarmNode)?;
        writes.extend(self.write_nodes(&indirect, Temperature::ColdNode)?);
        self.settle_nodes(writes).await?;

        let nids = std::mem::take(&mut *self.changed_nids.borrow_mut());
        let (prefree, changed, filled) = {
            let mut sections = self.sections.borrow_mut();
            let changed = std::mem::take(&mut sections.changed_segments);
            (sections.take_prefree(), changed, std::mem::take(&mut sections.filled_segments))
        };
        if nids.is_empty() && changed.is_empty() && prefree.is_empty() {
            return Ok(());
        }
        let mut blocks = Vec::new();
        if nids.len() > NAT_JOURNAL {
            blocks.extend(nids.into_iter().map(|nid| self.layout.nat(nid)));
        }
        if changed.len() > SIT_JOURNAL {
            blocks.extend(changed.into_iter().map(|segment| self.layout.sit(segment)));
        }
        blocks.extend(filled.into_iter().map(|segment| self.layout.ssa(segment)));
        blocks.sort_unstable();
        blocks.dedup();
        self.disk.write_runs(runs(blocks)).await?;
        let number = self.counters.get().checkpoints;
        let pack = self.layout.checkpoint(number);
        self.disk.write(pack, PACK).await?;
        self.disk.write(pack + PACK, 1).await?;
        for section in prefree {
            let zone = ZoneId(self.layout.first_zone + section);
            if !self.disk.geometry().is_conventional(zone) {
                self.disk.reset(zone).await?;
            }
            self.sections.borrow_mut().freed(section);
        }
        self.count(|counters| counters.checkpoints += 1);
        Ok(())
    }
}
