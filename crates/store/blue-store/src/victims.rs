//! The choice of the zone that is cleaned next. (Dissertation, section 5.7.1, ZonedCleaner.)
//!
//! A look at all zones is worth its time if a zone is found that is then copied. The answer that there is none is remembered: the next look,
//! which comes with the next transaction, is at those zones alone that have changed since.
//!
//! # Invariants
//! - BLU-VICTIM-1: a zone that has become worth cleaning is found at the next look, though only zones are looked at that have changed.
//! - BLU-VICTIM-2: a zone that can be written no more gives no room back, so it is cleaned for the sake of what lives in it: if nobody waits for
//!   room, no other zone is worth it, and free zones that new data may take hold all of it and leave some.
//! - BLU-VICTIM-3: a zone is cleaned only if there is room for copies of all that lives in it. Copies of a part would be garbage that no
//!   zone is left for, and the room for copies would be gone for good.

use std::time::Duration;

use shingle_base::ZoneId;
use shingle_zone_kit::{Status, Zone};

use crate::engine::Engine;
use crate::options::Victims;
use crate::state::{Own, RESERVE, State, TRIED_AGAIN};

/// Time after which a zone of which some bytes could not be read is tried again while nobody waits for room.
const AGAIN: Duration = Duration::from_secs(3600);

/// Time after which all zones are looked at again, for what only time has changed, or blocks that were promised and not needed.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

impl Engine {
    /// Blocks that have to be won by cleaning a zone now, and whether that is urgent; `None` if none is to be cleaned.
    fn wanted(&self, state: &State) -> Option<(u64, bool)> {
        let all = state.epochs.len() as f64;
        let free = state.zones.free();
        let zone_blocks = u64::from(self.drive.layout.zone_blocks);
        let (least, urgent) = match () {
            () if state.has_waiters() => (1, true),
            () if free <= RESERVE + 1 => (zone_blocks / 8, true),
            () if 1.0 - f64::from(free) / all >= self.options.clean_at => (zone_blocks / 3, false),
            () => return None,
        };
        Some((least.max(1), urgent))
    }

    /// The zone to be cleaned next, if any is to be cleaned now, and whether that is urgent. (BLU-VICTIM-1 to BLU-VICTIM-3)
    pub(crate) fn victim(&self) -> Option<(u32, bool)> {
        let mut state = self.state.borrow_mut();
        // Without a reason to win room, no common zone is worth it.
        let (least, urgent) = self.wanted(&state).unwrap_or((u64::MAX, false));
        let copies = state.room_for_copies(self.drive.layout.zone_blocks);
        let waits_since = state.has_waiters().then_some(state.waits_since);
        let State { zones, looked, counters, promised, .. } = &mut *state;
        let (now, zone_blocks) = (self.rt.now(), u64::from(self.drive.layout.zone_blocks));
        let gain = |zone: &Zone<Own>| zone_blocks.saturating_sub(zone.live);
        let spare = (u64::from(zones.free().saturating_sub(RESERVE + 1)) * zone_blocks).saturating_sub(*promised);
        let worth = |zone: &Zone<Own>| {
            let own = &zone.own;
            let can_go = zone.status == Status::Closed && zone.live > 0 && !zone.stuck;
            // Once for those who wait: each attempt may take the drive long, and they are to hear that there is no room. (BLU-CLEAN-4)
            let for_them = |hurt| now.since(hurt) >= TRIED_AGAIN && waits_since.is_some_and(|since| hurt < since);
            let rested = |hurt| now.since(hurt) >= AGAIN || for_them(hurt);
            let may_be_tried = !own.passed && own.hurt.is_none_or(rested);
            // The metadata need not show what a batch says that is under way. (BLU-CLEAN-3)
            let settled = own.pending == 0 && zone.unsettled == 0;
            let wanted =
                if zone.broken { !urgent && zone.live <= spare } else { gain(zone) >= least && zone.live <= copies };
            can_go && may_be_tried && settled && wanted
        };
        if let Some((_, at)) = looked.none.filter(|(none, at)| *none <= least && now.since(*at) < LOOK_AGAIN) {
            let changed = std::mem::take(&mut looked.changed);
            counters.zones_looked_at += changed.len() as u64;
            if !changed.into_iter().any(|zone| zones.get(ZoneId(zone)).is_some_and(worth)) {
                // Of those that have changed, it is known of so many blocks alone.
                looked.none = Some((least, at));
                return None;
            }
        }
        looked.note_all();
        counters.zones_looked_at += zones.iter().count() as u64;
        let opened = zones.opened();
        let score = |zone: &Zone<Own>| match self.options.victims {
            Victims::Greedy => gain(zone) as f64,
            Victims::CostBenefit => {
                let age = (opened - zone.order.min(opened) + 1) as f64;
                gain(zone) as f64 / (zone_blocks + zone.live) as f64 * age.sqrt()
            }
        };
        let candidates = zones.iter().filter(|(_, zone)| worth(zone));
        let best = candidates.max_by(|(_, one), (_, other)| {
            // (BLU-VICTIM-2)
            other.broken.cmp(&one.broken).then_with(|| score(one).total_cmp(&score(other)))
        });
        let best = best.map(|(zone, _)| zone.0);
        if best.is_none() {
            looked.none = Some((least, now));
        }
        best.map(|zone| (zone, urgent))
    }
}
