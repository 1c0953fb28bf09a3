//! Sets that cleaning passed over, or that could not be reset, are tried again.
//!
//! What could not be read may be readable later: a drive came back, a rebuild or a scrub replaced a damaged zone, a cable was
//! pushed home. Only sets of which the index has everything that counts: one that recovery could not read stays as it is until the
//! next opening, for nobody here knows what lives in it.
//!
//! # Invariants
//! - STUCK-1: such a set is tried again once drives or zones of sets changed, and after [`AGAIN`] in any case; at most once in
//!   [`PAUSE`].

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use shingle_runtime::Instant;

use crate::engine::Engine;
use crate::sets::ZoneSet;
use crate::types::SetId;

/// How long a set that was passed over is left alone where nothing changed.
const AGAIN: Duration = Duration::from_secs(600);

/// How long at least.
const PAUSE: Duration = Duration::from_secs(1);

/// What may mend a set.
#[derive(PartialEq, Eq)]
struct Conditions {
    /// Members replaced so far.
    replaced: u64,
    /// Own ids of the drives in use: numbers are used again.
    drives: BTreeSet<u64>,
}

/// A set that was passed over: in which life, when, and how things were then.
struct PassedOver {
    life: u64,
    at: Instant,
    conditions: Conditions,
}

/// The sets that were passed over.
#[derive(Default)]
pub(crate) struct Stuck(RefCell<BTreeMap<SetId, PassedOver>>);

impl Engine {
    fn conditions(&self) -> Conditions {
        let drives = self.drives.all_usable().into_iter().map(|(id, _)| self.drives.own_id(id)).collect();
        Conditions { replaced: self.replaced.get(), drives }
    }

    /// Leaves a set alone until it may have been mended; one that recovery could not read until the next opening.
    pub(crate) fn pass_over(&self, id: SetId, set: &ZoneSet) {
        if set.is_stuck() {
            return;
        }
        set.set_stuck(true);
        let passed = PassedOver { life: set.lives(), at: self.rt.now(), conditions: self.conditions() };
        self.stuck.0.borrow_mut().insert(id, passed);
    }

    /// Whether a set was passed over in this life: the index has everything that counts of it.
    pub(crate) fn is_passed_over(&self, id: SetId, set: &ZoneSet) -> bool {
        self.stuck.0.borrow().get(&id).is_some_and(|passed| passed.life == set.lives())
    }

    /// Whether sets that were passed over may be tried again from now on. (STUCK-1)
    pub(crate) fn retry_stuck(&self) -> bool {
        let mut stuck = self.stuck.0.borrow_mut();
        if stuck.is_empty() {
            return false;
        }
        let (now, conditions) = (self.rt.now(), self.conditions());
        let due = |passed: &PassedOver| {
            let waited = now.since(passed.at);
            waited >= AGAIN || waited >= PAUSE && passed.conditions != conditions
        };
        let mut some = false;
        stuck.retain(|id, passed| {
            let of_this_life = |set: &Rc<ZoneSet>| set.lives() == passed.life && set.is_stuck();
            let Some(set) = self.sets.get(*id).filter(of_this_life) else { return false };
            let again = due(passed);
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
