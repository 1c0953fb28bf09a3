//! Bytes that go as soon as nobody reads them. The list in the metadata has them all.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use shingle_runtime::Instant;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::format::Held;

/// Removals at a time: their batches share syncs.
const BATCH: usize = 16;

/// Bytes that go as soon as nobody reads them.
#[derive(Default)]
pub(super) struct Purge {
    /// With the time until which those that could not be removed are let alone.
    doomed: RefCell<BTreeMap<Held, Option<Instant>>>,
    /// The last of them that was tried.
    tried: Cell<Option<Held>>,
    wanted: Notify,
}

impl Purge {
    pub(super) fn add(&self, held: Held) {
        self.doomed.borrow_mut().insert(held, None);
        self.wake();
    }

    pub(super) fn wake(&self) {
        self.wanted.notify_one();
    }

    /// Completes when there may be something to remove.
    pub(super) fn wanted(&self) -> Notified<'_> {
        self.wanted.notified()
    }

    /// They have been removed.
    pub(super) fn gone(&self, held: &Held) {
        self.doomed.borrow_mut().remove(held);
    }

    /// They could not be removed, and are let alone until `again`. True if that is the first time.
    pub(super) fn put_off(&self, held: Held, again: Instant) -> bool {
        self.doomed.borrow_mut().insert(held, Some(again)).flatten().is_none()
    }

    /// The first time behind `now` at which something is tried again.
    pub(super) fn next_try(&self, now: Instant) -> Option<Instant> {
        self.doomed.borrow().values().flatten().copied().filter(|again| *again > now).min()
    }

    pub(super) fn waiting(&self) -> u64 {
        self.doomed.borrow().len() as u64
    }

    /// The next ones in turn.
    pub(super) fn batch(&self, now: Instant, may_go: impl Fn(&Held) -> bool) -> Vec<Held> {
        let doomed = self.doomed.borrow();
        let from = self.tried.get().map_or(Unbounded, Excluded);
        let behind = doomed.range((from, Unbounded));
        let before = doomed.iter().take_while(|(held, _)| self.tried.get().is_some_and(|tried| **held <= tried));
        let due = behind.chain(before).filter(|(held, again)| again.is_none_or(|again| again <= now) && may_go(held));
        let batch: Vec<Held> = due.take(BATCH).map(|(held, _)| *held).collect();
        self.tried.set(batch.last().copied());
        batch
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_have_their_turn_and_those_that_are_read_wait() {
        let purge = Purge::default();
        (0..BATCH as u64 + 3).for_each(|number| purge.add(Held::Blob(number)));
        let now = Instant::default();
        let first = purge.batch(now, |held| held.number() != 1);
        assert_eq!((first.len(), first.contains(&Held::Blob(1))), (BATCH, false));
        let second = purge.batch(now, |_| true);
        assert_eq!(second.first(), Some(&Held::Blob(BATCH as u64 + 1)), "behind those that were tried");
        assert!(second.contains(&Held::Blob(1)) && second.len() == BATCH);
        assert_eq!(purge.waiting(), BATCH as u64 + 3);
    }

    #[test]
    fn those_that_failed_wait_and_hold_up_no_others() {
        let (purge, now) = (Purge::default(), Instant::default());
        (0..3).for_each(|number| purge.add(Held::Blob(number)));
        let again = now + Duration::from_secs(10);
        assert!(purge.put_off(Held::Blob(1), again) && !purge.put_off(Held::Blob(1), again));
        assert_eq!(purge.batch(now, |_| true), [Held::Blob(0), Held::Blob(2)]);
        assert_eq!((purge.next_try(now), purge.next_try(again)), (Some(again), None));
        assert!(purge.batch(again, |_| true).contains(&Held::Blob(1)));
    }
}
