//! Bytes that go as soon as nobody reads them. The list in the metadata has them all.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::format::Held;

/// Removals at a time: their batches share syncs.
const BATCH: usize = 16;

/// Bytes that go as soon as nobody reads them.
#[derive(Default)]
pub(super) struct Purge {
    doomed: RefCell<BTreeSet<Held>>,
    /// The last of them that was tried.
    tried: Cell<Option<Held>>,
    wanted: Notify,
}

impl Purge {
    pub(super) fn add(&self, held: Held) {
        self.doomed.borrow_mut().insert(held);
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

    pub(super) fn waiting(&self) -> u64 {
        self.doomed.borrow().len() as u64
    }

    /// The next ones in turn.
    pub(super) fn batch(&self, may_go: impl Fn(&Held) -> bool) -> Vec<Held> {
        let doomed = self.doomed.borrow();
        let from = self.tried.get().map_or(Unbounded, Excluded);
        let behind = doomed.range((from, Unbounded));
        let before = doomed.iter().take_while(|held| self.tried.get().is_some_and(|tried| **held <= tried));
        let batch: Vec<Held> = behind.chain(before).filter(|held| may_go(held)).take(BATCH).copied().collect();
        self.tried.set(batch.last().copied());
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_have_their_turn_and_those_that_are_read_wait() {
        let purge = Purge::default();
        (0..BATCH as u64 + 3).for_each(|number| purge.add(Held::Blob(number)));
        let first = purge.batch(|held| held.number() != 1);
        assert_eq!((first.len(), first.contains(&Held::Blob(1))), (BATCH, false));
        let second = purge.batch(|_| true);
        assert_eq!(second.first(), Some(&Held::Blob(BATCH as u64 + 1)), "behind those that were tried");
        assert!(second.contains(&Held::Blob(1)) && second.len() == BATCH);
        assert_eq!(purge.waiting(), BATCH as u64 + 3);
    }
}
