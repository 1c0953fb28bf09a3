//! Bytes that readers have open, and those that are being removed.
//!
//! # Invariants
//! - BO-PIN-1: who has pinned bytes that were neither going nor gone then finds them until the pin is let go.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Pins by number.
#[derive(Default)]
pub(super) struct Pins {
    pins: RefCell<BTreeMap<u64, u32>>,
    /// A transaction removes them that has not ended.
    going: RefCell<BTreeSet<u64>>,
    went: Notify,
}

/// Bytes are being removed, until this is dropped.
pub(super) struct Going<'p> {
    pins: &'p Pins,
    number: u64,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        self.pins.going.borrow_mut().remove(&self.number);
        self.pins.went.notify_waiters();
    }
}

impl Pins {
    pub(super) fn pin(&self, number: u64) {
        *self.pins.borrow_mut().entry(number).or_default() += 1;
    }

    /// Lets go of one pin. True if it was the last.
    pub(super) fn unpin(&self, number: u64) -> bool {
        let mut pins = self.pins.borrow_mut();
        let Some(count) = pins.get_mut(&number) else { return false };
        *count -= 1;
        let last = *count == 0;
        if last {
            pins.remove(&number);
        }
        last
    }

    pub(super) fn is_pinned(&self, number: u64) -> bool {
        self.pins.borrow().contains_key(&number)
    }

    /// Somebody removes bytes that nobody reads.
    pub(super) fn going(&self, number: u64) -> Going<'_> {
        self.going.borrow_mut().insert(number);
        Going { pins: self, number }
    }

    /// The end of a removal of these bytes, if one is under way.
    pub(super) fn removal(&self, number: u64) -> Option<Notified<'_>> {
        self.going.borrow().contains(&number).then(|| self.went.notified())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BO-PIN-1.
    #[test]
    fn pins_count_and_removals_end() {
        let pins = Pins::default();
        pins.pin(1);
        pins.pin(1);
        assert!(!pins.unpin(1) && pins.is_pinned(1));
        assert!(pins.unpin(1) && !pins.is_pinned(1) && !pins.unpin(1));
        let going = pins.going(2);
        assert!(pins.removal(2).is_some() && pins.removal(1).is_none());
        drop(going);
        assert!(pins.removal(2).is_none());
    }
}
