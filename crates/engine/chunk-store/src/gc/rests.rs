//! Zones that GC could not empty because the drive failed commands: each rests, and is tried again.
//!
//! **Knows nothing of** zones whose reset failed: the keeper tries these again (CS-ZONE-6).
//!
//! # Invariants
//! - CS-GC-10: no zone is left alone for good because the drive failed reads or reports. It is no victim while it rests, and no append waits for it. A
//!   rest ends after [`REST`], whatever else GC has to do, but one only for each zone that GC empties while it has others; after [`REST_SHORT`] if callers have no zone left and no other zone is a victim, or where a caller asks for GC.
//!   `zones_that_cannot_be_read_for_a_while_are_emptied_later`, `appends_have_space_again_once_a_full_drive_can_be_read`,
//!   `a_rest_ends_in_time_beside_other_victims`,
//!   `zones_whose_rest_ends_leave_gc_time_for_others`.

use std::time::Duration;

use shingle_base::ZoneId;

use crate::engine::Engine;
use crate::gc::collector::Resting;
use crate::state::StoreState;
use crate::types::ZoneStatus;
use crate::zones::{GC_RESERVE, Rest};

/// Rest of a zone. A disk tries each block that it cannot read for seconds.
const REST: Duration = Duration::from_secs(600);

/// The same while space is short.
pub(super) const REST_SHORT: Duration = Duration::from_secs(15);

impl Engine {
    /// GC leaves a zone alone for a while.
    pub(super) fn rest(&self, state: &mut StoreState, zone: ZoneId) {
        let slot = state.zones.get_mut(zone);
        if slot.resting.is_none() {
            slot.resting = Some(Rest::Gc);
            let resting = Resting { zone, epoch: slot.epoch, since: self.rt.now() };
            self.collector.rests.push(resting);
        }
    }

    /// True if GC has just failed to empty a zone.
    pub(super) fn rests(&self, zone: ZoneId) -> bool {
        self.state.borrow().zones.get(zone).resting == Some(Rest::Gc)
    }

    /// Ends the rest that is oldest, if it took so long. Returns whether it did.
    fn end_oldest_rest(&self, least: Duration) -> bool {
        let now = self.rt.now();
        let Some(rested) = self.collector.rests.next(|since| now.since(since) >= least) else { return false };
        let mut state = self.state.borrow_mut();
        let slot = state.zones.get_mut(rested.zone);
        if slot.epoch == rested.epoch && slot.resting == Some(Rest::Gc) {
            slot.resting = None;
        }
        true
    }

    /// Ends the rest that is oldest, if it is over whatever else there is to do. Returns whether it did. One for each zone that was emptied:
    /// appends would wait for all of them.
    pub(super) fn end_rest_in_time(&self) -> bool {
        self.end_oldest_rest(REST)
    }

    /// Ends all that took so long.
    pub(super) fn end_rests(&self, least: Duration) {
        while self.end_oldest_rest(least) {}
    }

    /// The best zone to empty, now that one more has rested, if there is no other. One at a time: callers do not wait for the rest.
    pub(super) fn rested_victim(&self) -> Option<ZoneId> {
        while self.end_oldest_rest(self.rest_time()) {
            let wanted = || if self.gc_wanted() { self.victim(self.is_short()) } else { None };
            if let Some(victim) = self.retreat().or_else(wanted) {
                return Some(victim);
            }
        }
        None
    }

    /// Returns once a zone has rested.
    pub(super) async fn rest_over(&self) {
        let first = self.collector.rests.first_since().map(|since| self.rt.now().since(since));
        match first {
            Some(rested) => self.rt.sleep(self.rest_time().saturating_sub(rested)).await,
            None => std::future::pending().await,
        }
    }

    fn rest_time(&self) -> Duration {
        if self.is_short() { REST_SHORT } else { REST }
    }

    /// True if no zone is left to callers.
    pub(super) fn is_short(&self) -> bool {
        let zones = &self.state.borrow().zones;
        zones.count(ZoneStatus::Free) + zones.count(ZoneStatus::Garbage) <= GC_RESERVE
    }
}
