//! Reads of many extents that are to be copied: in the order in which they lie on the drive, near ones by one command.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use shingle_store_api::StoreResult;

use super::{Reach, Run};
use crate::engine::Engine;
use crate::map::Extent;

/// Commands under way at once: a caller's read waits for no more of them.
const DEPTH: usize = 8;

impl Engine {
    /// Reads extents, which the map may not name any more, and answers in their order. The caller has pinned their zones.
    pub(crate) async fn read_places(self: &Rc<Self>, extents: &[Extent]) -> Vec<StoreResult<Bytes>> {
        let shape = self.drive.layout.shape;
        let mut ends = Vec::with_capacity(extents.len());
        let mut length = 0;
        for extent in extents {
            length += shape.bytes(u64::from(extent.sectors)) as usize;
            ends.push(length);
        }
        let begin = |at: usize| at.checked_sub(1).map_or(0, |before| ends[before]);
        let mut order: Vec<usize> = (0..extents.len()).collect();
        order.sort_unstable_by_key(|&at| extents[at].place.bits());
        let mut runs = Vec::new();
        for at in order {
            Run::add(&mut runs, &extents[at], begin(at), shape, Reach::COPY);
        }
        let fetches: Vec<_> = runs.into_iter().map(|run| self.pinned(run)).collect();
        let mut out = self.drive.payload.buffer(length);
        let mut failed = vec![false; extents.len()];
        let mut reading = stream::iter(fetches).map(|fetch| self.fetch(fetch)).buffer_unordered(DEPTH);
        while let Some((fetch, raw)) = reading.next().await {
            if raw.and_then(|raw| self.extract(&fetch, &raw, &mut out)).is_err() {
                for part in &fetch.run.parts {
                    failed[ends.partition_point(|&end| end <= part.at)] = true;
                }
            }
        }
        drop(reading);
        let out = self.drive.payload.share(out);
        let mut all = Vec::with_capacity(extents.len());
        for (at, extent) in extents.iter().enumerate() {
            // Alone, once more: what a neighbour has lost, it may have.
            all.push(if failed[at] { self.read_place(*extent).await } else { Ok(out.slice(begin(at)..ends[at])) });
        }
        all
    }
}
