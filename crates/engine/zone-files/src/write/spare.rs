//! Spare zones: open ones that no lane has. Each has a rest, behind a table that had the zone for itself.
//!
//! A table about as large as a zone begins a zone, so it lies in that one if it fits, and its removal frees the zone with nothing to copy.
//! (Dissertation, section 5.4.2: each table in a zone of its own.) The rest of the zone is for small files, for ends of tables, and, once
//! there are too many rests, for the next large table. So nothing is padded that could hold files.
//!
//! # Invariants
//! - ZF-SPARE-1: rests that tables leave take a 32nd of the room for files at most, those of zones that are open; and one that is given up
//!   is a 32nd of its zone at most. (`tables_as_large_as_zones_have_them_for_themselves`)
//! - ZF-SPARE-2: no table waits, or fails, for the sake of a zone's beginning: where none is free, or no more may be open, it goes on in a
//!   rest. (`tables_share_zones_where_few_are_free_or_may_be_open`)

use shingle_base::ZoneId;

use super::lane::{COPIES, reserve};
use crate::engine::Engine;
use crate::error::FilesResult;
use crate::layout::Layout;
use crate::state::State;

/// Rests of a 32nd of the room do not count. (ZF-SPARE-1)
const SHARE: u64 = 32;

/// Something to do with a spare zone for a lane that needs one.
pub(super) enum Rest {
    /// The lane goes on in it.
    GoOn(ZoneId),
    /// Nobody goes on in it: the lane gets a free zone instead.
    Drop(ZoneId),
}

impl State {
    /// The spare zone for a lane without a zone; `None` if it gets a free one.
    pub(super) fn rest_for(&self, lane: usize, layout: &Layout) -> Option<Rest> {
        if lane <= COPIES {
            return None;
        }
        let blocks = u64::from(layout.zone_blocks);
        let rest = |zone: &ZoneId| blocks - self.zones.get(*zone).map_or(0, |entry| u64::from(entry.next)).min(blocks);
        let spare = &self.lanes.spare;
        // Ends of tables, and small files, fill up the fullest.
        let fullest = spare.iter().copied().min_by_key(rest)?;
        if !self.begins_table(lane) {
            return Some(Rest::GoOn(fullest));
        }
        let rests: u64 = spare.iter().map(rest).sum();
        let room = blocks * layout.data_zones.len() as u64;
        if rests.saturating_mul(SHARE) <= room && self.zones.free() > reserve(lane) {
            if self.lanes.may_take(lane) {
                return None;
            }
            if rest(&fullest).saturating_mul(SHARE) <= blocks {
                return Some(Rest::Drop(fullest));
            }
        }
        // It fits best where most is left.
        spare.iter().copied().max_by_key(rest).map(Rest::GoOn)
    }

    /// A lane is a table's own, of which nothing is written yet.
    fn begins_table(&self, lane: usize) -> bool {
        let file = self.lanes.all.get(lane).and_then(|lane| lane.own.file);
        file.and_then(|serial| self.tree.file(serial)).is_some_and(|node| node.extents.size() == 0)
    }
}

impl Engine {
    /// Gives up a spare zone.
    pub(crate) async fn end_spare(&self, zone: ZoneId) -> FilesResult<()> {
        let epoch = {
            let mut state = self.state.borrow_mut();
            state.lanes.spare.retain(|spare| *spare != zone);
            state.lanes.leaving += 1;
            state.zones.close(zone);
            state.zones.get(zone).map_or(0, |entry| entry.epoch)
        };
        // A zone that fails when it is given back takes along what no flush has covered.
        let flushed = self.flush().await;
        if flushed.is_ok() {
            self.look_at_end(zone, epoch).await;
            if !self.state.borrow().zones.get(zone).is_none_or(|entry| entry.broken) {
                self.release(zone, epoch).await;
            }
        }
        self.state.borrow_mut().lanes.leaving -= 1;
        self.wakes.room.notify_waiters();
        flushed
    }
}
