//! Reads of many extents that are to be copied: in the order in which they lie on the drive, near ones by one command.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use shingle_store_api::StoreResult;

use super::{Reach, Run};
use crate::engine::Engine;
use crate::map::Extent;

/// Commands under way at once.
const DEPTH: usize = 8;

/// The same while callers are active. (TL-STEP-1)
const BESIDE_CALLERS: usize = 6;

/// The time for which more of them are begun while callers are active: a disk takes what is near first, so that a command elsewhere has its turn
/// once none is left. (TL-STEP-1)
const TURN: Duration = Duration::from_millis(30);

impl Engine {
    /// Reads extents, which the map may not name any more, and answers in their order. The caller has pinned their zones.
    pub(crate) async fn read_places(
        self: &Rc<Self>,
        extents: &[Extent],
        done: &impl Fn(u64),
    ) -> Vec<StoreResult<Bytes>> {
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
        let mut fetches: VecDeque<_> = runs.into_iter().map(|run| self.pinned(run)).collect();
        let sectors: u64 = extents.iter().map(|extent| u64::from(extent.sectors)).sum();
        let (commands, mut over) = (fetches.len() as u64, 0);
        let mut out = self.drive.payload.buffer(length);
        let mut failed = vec![false; extents.len()];
        let mut reading = FuturesUnordered::new();
        let mut turn = self.rt.now();
        loop {
            if reading.is_empty() {
                self.callers_first().await;
                turn = self.rt.now();
            }
            // Writers that wait for room wait for these reads anyway.
            let alone = !self.has_callers() || self.state.borrow().is_below_mark();
            if alone || reading.is_empty() || self.rt.now().since(turn) < TURN {
                let depth = if alone { DEPTH } else { BESIDE_CALLERS };
                let room = depth.saturating_sub(reading.len());
                reading.extend(fetches.drain(..room.min(fetches.len())).map(|fetch| self.fetch(fetch)));
            }
            let Some((fetch, raw)) = reading.next().await else { break };
            over += 1;
            done(sectors * over / commands - sectors * (over - 1) / commands);
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
