//! Sets that cleaning passed over, or that could not be reset, are tried again.
//!
//! Unreadable data may be readable later: a drive came back, a rebuild or a scrub replaced a damaged zone, a cable was
//! pushed home. Only sets whose counting items are all in the index are tried: one that recovery could not read stays
//! as it is until the next opening, for its live data is not known here.
//!
//! # Invariants
//! - AS-STUCK-1: such a set is tried again once drives or zones of sets changed, and after [`AGAIN`] in any case; at
//!   most once in [`PAUSE`], unless it is empty: writers may wait for it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use shingle_runtime::Instant;

use crate::drives::Drives;
use crate::types::{SetId, SetState};
use crate::zone_set::{SetTable, ZoneSet};

/// Time that a set that was passed over is left alone if nothing changed.
const AGAIN: Duration = Duration::from_secs(600);

/// Shortest such time.
const PAUSE: Duration = Duration::from_secs(1);

/// Changes that may mend a set.
#[derive(PartialEq, Eq)]
pub(crate) struct Conditions {
    /// Members replaced so far.
    replaced: u64,
    /// Own ids of the drives in use: numbers are used again.
    drives: BTreeSet<u64>,
}

/// A set that was passed over: in which generation, when, and how things were then.
struct PassedOver {
    generation: u64,
    at: Instant,
    conditions: Conditions,
    /// It holds nothing.
    empty: bool,
}

/// The sets that were passed over.
#[derive(Default)]
pub(crate) struct Stuck(RefCell<BTreeMap<SetId, PassedOver>>);

impl Conditions {
    pub(crate) fn new(replaced: u64, drives: &Drives) -> Self {
        let in_use = drives.all_usable().into_iter().map(|(id, _)| drives.own_id(id)).collect();
        Self { replaced, drives: in_use }
    }
}

impl PassedOver {
    fn is_due(&self, now: Instant, conditions: &Conditions) -> bool {
        let waited = now.since(self.at);
        waited >= AGAIN || (self.empty || waited >= PAUSE) && self.conditions != *conditions
    }
}

impl Stuck {
    /// Leaves a set alone until it may have been mended; one that recovery could not read until the next opening.
    pub(crate) fn pass_over(&self, id: SetId, set: &ZoneSet, now: Instant, conditions: Conditions) {
        if set.is_stuck() {
            return;
        }
        set.set_stuck(true);
        let empty = set.state() == SetState::Empty;
        let passed = PassedOver { generation: set.generation(), at: now, conditions, empty };
        self.0.borrow_mut().insert(id, passed);
    }

    /// True if a set was passed over in this generation: the index has all of its items that count.
    pub(crate) fn has(&self, id: SetId, set: &ZoneSet) -> bool {
        self.0.borrow().get(&id).is_some_and(|passed| passed.generation == set.generation())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// True if sets that were passed over may be tried again from now on. (AS-STUCK-1)
    pub(crate) fn retry(&self, sets: &SetTable, now: Instant, conditions: &Conditions) -> bool {
        let mut some = false;
        self.0.borrow_mut().retain(|id, passed| {
            let of_this_generation = |set: &Rc<ZoneSet>| set.generation() == passed.generation && set.is_stuck();
            let Some(set) = sets.get(*id).filter(of_this_generation) else { return false };
            let again = passed.is_due(now, conditions);
            if again {
                tracing::info!(set = id.0, "a set that was passed over is tried again");
                set.set_stuck(false);
                some = true;
            }
            !again
        });
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AS-STUCK-1.
    #[test]
    fn a_set_is_tried_again_when_something_changed_and_in_any_case_after_a_while() {
        let began = Instant::default();
        let with = |replaced, drives: &[u64]| Conditions { replaced, drives: drives.iter().copied().collect() };
        let passed = PassedOver { generation: 1, at: began, conditions: with(2, &[1, 2]), empty: false };
        let due = |after: Duration, conditions: &Conditions| passed.is_due(began + after, conditions);
        let (same, replaced, drive) = (with(2, &[1, 2]), with(3, &[1, 2]), with(2, &[1, 3]));
        let moment = Duration::from_millis(1);
        assert!(!due(PAUSE - moment, &replaced) && !due(PAUSE - moment, &drive));
        assert!(due(PAUSE, &replaced) && due(PAUSE, &drive) && !due(PAUSE, &same));
        assert!(!due(AGAIN - moment, &same) && due(AGAIN, &same));
        let empty = PassedOver { empty: true, ..passed };
        assert!(empty.is_due(began, &drive) && !empty.is_due(began, &same));
    }
}
