//! How many items may be on their way to the drives: what a power cut may tear.
//!
//! # Invariants
//! - WINDOW-1: an item is launched only when the item that was launched [`IN_FLIGHT_MAX`] before it is settled, whatever set
//!   either goes to. Stamps are taken in the order of launches: so of all items that a recovery finds without proof that
//!   they are whole, only those with the newest stamps, as many as that, have to be verified.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use tokio::sync::Notify;

/// Items between the oldest that is not settled and the newest.
pub(crate) const IN_FLIGHT_MAX: usize = 16;

/// Items on their way.
#[derive(Default)]
pub(crate) struct Window {
    next: Cell<u64>,
    unsettled: RefCell<BTreeSet<u64>>,
    settled: Notify,
}

/// An item that is on its way, until this is dropped.
pub(crate) struct Pass {
    window: Rc<Window>,
    number: u64,
}

impl Window {
    /// Waits for its place. Nothing may be awaited between this and the item's stamp.
    pub(crate) async fn enter(self: &Rc<Self>) -> Pass {
        loop {
            let settled = self.settled.notified();
            let number = self.next.get();
            let oldest = self.unsettled.borrow().first().copied().unwrap_or(number);
            if number - oldest < IN_FLIGHT_MAX as u64 {
                self.next.set(number + 1);
                self.unsettled.borrow_mut().insert(number);
                return Pass { window: self.clone(), number };
            }
            settled.await;
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.window.unsettled.borrow_mut().remove(&self.number);
        self.window.settled.notify_waiters();
    }
}

/// The stamp from which on items may be torn, of all that were found without proof. (WINDOW-1)
pub(crate) fn torn_from(mut stamps: Vec<u64>) -> u64 {
    stamps.sort_unstable_by(|a, b| b.cmp(a));
    stamps.get(IN_FLIGHT_MAX - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_oldest_holds_up_those_behind_it() {
        let window = Rc::new(Window::default());
        let enter = || window.enter().now_or_never();
        let mut passes: Vec<Pass> = (0..IN_FLIGHT_MAX).map(|_| enter().unwrap()).collect();
        assert!(enter().is_none());
        // That younger ones are settled changes nothing.
        passes.truncate(1);
        assert!(enter().is_none());
        passes.clear();
        assert!(enter().is_some());
    }

    #[test]
    fn only_the_newest_may_be_torn() {
        assert_eq!(torn_from(vec![3, 9, 5]), 0);
        assert_eq!(torn_from((1..=100).rev().collect()), 100 - IN_FLIGHT_MAX as u64 + 1);
    }
}
