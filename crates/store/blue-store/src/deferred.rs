//! Deferred writes are gathered, and written to zones together. (Dissertation, section 4.4.2.)
//!
//! # Invariants
//! - BLU-DEFER-1: the bytes of a deferred write are in the metadata until the batch that names their place in a zone.
//! - BLU-DEFER-2: a shard's deferred writes are gathered once they are some dozens: each change of the shard goes through all of them.

use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::future::join_all;

use crate::blob::packing::{PACKED_RAW_MAX, Packing};
use crate::blob::{BLOB_MAX, BLOCK, Blob, Place};
use crate::engine::Engine;
use crate::error::BlueResult;
use crate::ids::ObjectId;
use crate::map::Extent;
use crate::object::Object;
use crate::piece::Group;
use crate::relocate::Rewrite;
use crate::txn::{Shards, build};

/// Shards that are gathered at a time.
const ROUND: usize = 64;

impl Engine {
    /// Writes all deferred bytes to zones. Returns the error of the first shard for which that did not succeed; its bytes stay as they are.
    pub(crate) async fn flush_deferred(self: &Rc<Self>) -> BlueResult<()> {
        let all = {
            let mut state = self.state.borrow_mut();
            let mut all = std::mem::take(&mut state.deferred);
            all.append(&mut state.crowded);
            all
        };
        self.flush_shards(all).await
    }

    /// Writes the deferred bytes of shards, which left the list of those that have some, to zones.
    pub(crate) async fn flush_shards(self: &Rc<Self>, shards: BTreeSet<(ObjectId, u32)>) -> BlueResult<()> {
        let mut left: Vec<(ObjectId, u32)> = shards.into_iter().collect();
        let mut result = Ok(());
        while !left.is_empty() && result.is_ok() {
            let some = left.split_off(left.len().saturating_sub(ROUND));
            let written = join_all(some.iter().map(|(id, shard)| self.gather(id, *shard))).await;
            for (of, written) in some.into_iter().zip(written) {
                if let Err(error) = written {
                    if !error.is_senseless() {
                        left.push(of);
                    }
                    result = Err(error);
                }
            }
        }
        self.state.borrow_mut().deferred.extend(left);
        result
    }

    /// Promises blocks to the deferred bytes that a shard has when they are promised: more may come while they wait for room. (BLU-ROOM-1)
    async fn promise_blocks(&self, object: &Rc<Object>, shard: u32) -> BlueResult<u64> {
        loop {
            let promised = blocks(object, shard);
            self.reserve(promised).await?;
            if blocks(object, shard) <= promised {
                return Ok(promised);
            }
            self.state.borrow_mut().promised -= promised;
        }
    }

    /// Writes the deferred bytes of a shard to a zone, and to another one if that fails; and what they have left of compressed blobs.
    /// (BLU-DEFER-1, BLU-KEPT-1, BLU-THIN-1)
    async fn gather(self: &Rc<Self>, id: &ObjectId, shard: u32) -> BlueResult<()> {
        while !self.gather_once(id, shard).await? {}
        self.rewrite_thin(id, shard).await
    }

    /// The same. False if the zone has failed.
    async fn gather_once(self: &Rc<Self>, id: &ObjectId, shard: u32) -> BlueResult<bool> {
        let object = self.object(id, Shards::Some(shard..shard + 1)).await?;
        if !object.state.borrow().knows(shard) {
            return Ok(true);
        }
        let promised = self.promise_blocks(&object, shard).await?;
        if promised == 0 {
            return Ok(true);
        }
        // One step from here on: extents are those whose blocks were promised.
        let hints = object.state.borrow().head.as_ref().map(|head| head.hints).unwrap_or_default();
        let step = if hints.packing() == Packing::Plain { BLOB_MAX } else { PACKED_RAW_MAX };
        let (group, mut used): (Rc<Group>, u64) = (Rc::default(), 0);
        let (mut gathered, mut written) = (Vec::new(), Vec::new());
        for run in runs(&object, shard) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let (start, end) = (first.at, last.end());
            for from in (start..end).step_by(step as usize) {
                let part = from..end.min(from.saturating_add(step));
                let parts: Vec<Extent> = run.iter().filter_map(|extent| extent.part(&part)).collect();
                let mut content = Vec::with_capacity((part.end - part.start) as usize);
                for extent in &parts {
                    let (state, range) = (extent.blob.state.borrow(), extent.content());
                    let data = state.data.as_ref().and_then(|data| data.get(range.start as usize..range.end as usize));
                    content.extend_from_slice(data.unwrap_or_default());
                }
                let blob = Rc::new(build(&content, hints, true));
                used += u64::from(blob.blocks());
                let data = blob.state.borrow().data.clone().unwrap_or_default();
                self.write_out(self.lane_for(hints.lifetime), &blob, 0, data, &group);
                gathered.extend(parts.into_iter().map(|extent| {
                    let first = extent.at - from;
                    (extent, blob.clone(), first)
                }));
                written.push(blob);
            }
        }
        debug_assert!(used <= promised, "BLU-ROOM-1: {used} blocks are gathered, and {promised} were promised");
        {
            let mut state = self.state.borrow_mut();
            state.promised = (state.promised + used).saturating_sub(promised);
        }
        // The batch takes the bytes out of the metadata.
        self.put_in_place(Rewrite { object, shard, gathered, written, group }).await
    }

    /// Waits until new blobs are durable, and puts them in the place of others. False if their zone has failed: nothing has changed then.
    /// (BLU-KEPT-1)
    pub(crate) async fn put_in_place(self: &Rc<Self>, job: Rewrite) -> BlueResult<bool> {
        self.landed(&job.group).await?;
        let of = |blob: &Rc<Blob>| blob.state.borrow().places.clone();
        let places: Vec<Place> = job.written.iter().flat_map(of).collect();
        let kept = self.flush_and_keep(&places).await;
        if kept != Ok(true) {
            self.give_up(&places);
            return kept;
        }
        let rewritten = self.rewrite(job).await;
        // A store that has not stopped has made no batch of it.
        if rewritten.is_err() && self.state.borrow().running().is_ok() {
            self.give_up(&places);
        }
        rewritten.map(|()| true)
    }
}

/// Blocks that the deferred bytes of a shard take at most: each run is cut behind whole blocks, and packed only where that makes it shorter.
fn blocks(object: &Rc<Object>, shard: u32) -> u64 {
    let lengths = |run: &Vec<Extent>| run.iter().map(|extent| extent.length).sum::<u32>();
    runs(object, shard).iter().map(|run| u64::from(lengths(run).div_ceil(BLOCK))).sum()
}

/// Extents of a shard whose bytes are deferred, in runs without a gap.
fn runs(object: &Rc<Object>, shard: u32) -> Vec<Vec<Extent>> {
    let extents = object.state.borrow().extents(shard);
    let mut runs: Vec<Vec<Extent>> = Vec::new();
    for extent in extents.iter().filter(|extent| extent.is_deferred()) {
        let follows = |run: &&mut Vec<Extent>| run.last().is_some_and(|last| last.end() == extent.at);
        match runs.last_mut().filter(follows) {
            Some(run) => run.push(extent.clone()),
            None => runs.push(vec![extent.clone()]),
        }
    }
    runs
}
