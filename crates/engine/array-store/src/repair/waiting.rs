//! Sets with fragments that failed readers, until they were verified.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use shingle_runtime::Instant;
use tokio::sync::Notify;

use crate::types::SetId;

/// Sets that wait at most.
const WAITING_MAX: usize = 1024;

/// Time that a set is left alone after it was verified.
pub(crate) const AGAIN: Duration = Duration::from_secs(600);

/// Sets with fragments that failed readers.
#[derive(Default)]
pub(crate) struct Repairs {
    waiting: RefCell<BTreeSet<SetId>>,
    /// Sets that were verified lately, and the times.
    tried: RefCell<BTreeMap<SetId, Instant>>,
    pub(crate) wanted: Notify,
    pub(crate) repaired: Cell<u64>,
    pub(crate) given_up: Cell<u64>,
}

impl Repairs {
    /// Sets that wait, zones that were repaired, and drives that were given up for being slow.
    pub(crate) fn figures(&self) -> (u64, u64, u64) {
        (self.waiting.borrow().len() as u64, self.repaired.get(), self.given_up.get())
    }

    /// A fragment of that set failed.
    pub(crate) fn want(&self, set: SetId, now: Instant) {
        let mut tried = self.tried.borrow_mut();
        tried.retain(|_, at| now.since(*at) < AGAIN);
        let mut waiting = self.waiting.borrow_mut();
        if !tried.contains_key(&set) && waiting.len() < WAITING_MAX && waiting.insert(set) {
            self.wanted.notify_one();
        }
    }

    pub(crate) fn next(&self, now: Instant) -> Option<SetId> {
        let set = self.waiting.borrow_mut().pop_first()?;
        self.tried.borrow_mut().insert(set, now);
        Some(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AS-REPAIR-1: a set that was verified is left alone for a while, and only so many wait.
    #[test]
    fn a_set_is_verified_once_in_a_while_and_few_wait() {
        let (repairs, start) = (Repairs::default(), Instant::default());
        repairs.want(SetId(7), start);
        assert_eq!(repairs.next(start), Some(SetId(7)));
        repairs.want(SetId(7), start + AGAIN / 2);
        assert_eq!(repairs.next(start + AGAIN / 2), None);
        repairs.want(SetId(7), start + AGAIN);
        assert_eq!(repairs.next(start + AGAIN), Some(SetId(7)));
        (0..2 * WAITING_MAX as u32).for_each(|set| repairs.want(SetId(1000 + set), start));
        assert_eq!(repairs.figures().0, WAITING_MAX as u64);
    }
}
