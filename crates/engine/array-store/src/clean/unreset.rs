//! Empty sets whose zones were not reset: when each is tried again.
//!
//! # Invariants
//! - AS-RESET-1: a set is not out of use because its zones were not reset for some seconds. Others are taken before it, and it is
//!   tried again after a pause that grows; who finds no other waits for that. After [`TRIES`] in vain, or where a drive calls
//!   one of its zones read-only or offline, it is passed over (AS-STUCK-1), and that alone counts against the drive
//!   (AS-EVICT-2).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use shingle_runtime::Instant;

use crate::types::SetId;
use crate::zone_set::ZoneSet;

/// Tries before a set is passed over: about 13 seconds.
const TRIES: u32 = 8;

/// Pause behind the first one. Each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(100);

/// A set whose zones were not reset.
struct Failed {
    /// Of the set.
    generation: u64,
    tries: u32,
    /// It is not tried before.
    again: Instant,
}

/// The sets whose zones were not reset.
#[derive(Default)]
pub(crate) struct Unreset(RefCell<BTreeMap<SetId, Failed>>);

impl Unreset {
    /// The zones of a set were not reset. `false`: not for long.
    pub(crate) fn failed(&self, id: SetId, set: &ZoneSet, now: Instant) -> bool {
        self.failed_in(id, set.generation(), now)
    }

    fn failed_in(&self, id: SetId, generation: u64, now: Instant) -> bool {
        let mut all = self.0.borrow_mut();
        let before = all.remove(&id).filter(|failed| failed.generation == generation);
        let before = before.map_or(0, |failed| failed.tries);
        if before + 1 == TRIES {
            return false;
        }
        all.insert(id, Failed { generation, tries: before + 1, again: now + PAUSE * (1 << before) });
        true
    }

    /// The zones of a set were reset.
    pub(crate) fn succeeded(&self, id: SetId) {
        self.0.borrow_mut().remove(&id);
    }

    /// True if a set may be tried.
    pub(crate) fn is_due(&self, id: SetId, now: Instant) -> bool {
        self.0.borrow().get(&id).is_none_or(|failed| failed.again <= now)
    }

    /// Time until the first of those sets that count is tried again; `None` if all that do are due.
    pub(crate) fn next(&self, now: Instant, counts: impl Fn(SetId) -> bool) -> Option<Duration> {
        let all = self.0.borrow();
        let waiting = all.iter().filter(|(id, failed)| failed.again > now && counts(**id));
        waiting.map(|(_, failed)| failed.again.since(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AS-RESET-1.
    #[test]
    fn a_set_is_tried_again_after_pauses_that_grow_and_not_for_ever() {
        let (unreset, id) = (Unreset::default(), SetId(3));
        let (mut now, began) = (Instant::default(), Instant::default());
        for tries in 1..TRIES {
            assert!(unreset.is_due(id, now) && unreset.failed_in(id, 1, now) && !unreset.is_due(id, now), "{tries}");
            assert_eq!(unreset.next(now, |other| other != id), None, "{tries}: it does not count");
            let pause = unreset.next(now, |_| true).unwrap();
            assert_eq!(pause, PAUSE * (1 << (tries - 1)), "{tries}");
            now = now + pause;
            assert_eq!(unreset.next(now, |_| true), None, "{tries}: it is due");
        }
        assert!(!unreset.failed_in(id, 1, now), "it is passed over");
        assert!(now.since(began) > Duration::from_secs(10) && now.since(began) < Duration::from_secs(20));
        // Of another life of the set nothing is known.
        assert!(unreset.failed_in(id, 1, now) && unreset.failed_in(id, 2, now));
        assert_eq!(unreset.next(now, |_| true), Some(PAUSE));
        unreset.succeeded(id);
        assert!(unreset.is_due(id, now));
    }
}
