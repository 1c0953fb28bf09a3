//! How many items may be on their way to the drives: what a power cut may tear.
//!
//! # Invariants
//! - WINDOW-1: an item is launched only when the item that was launched [`IN_FLIGHT_MAX`] before it is settled, whatever set
//!   either goes to. Stamps are taken in the order of launches: so of all items that a recovery finds without proof that
//!   they are whole, only those with the newest stamps, as many as that, have to be verified.
//! - WINDOW-2: items are launched in the order in which they ask, and all that are on their way go to one set: with two,
//!   drives would seek from one to the other and back with every command.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::sync::{Mutex, Notify};

use crate::types::SetId;

/// Items between the oldest that is not settled and the newest.
pub(crate) const IN_FLIGHT_MAX: usize = 16;

/// Segments that are on their way at once: what they take of memory, and what one waits for who goes to another set or deletes.
const SEGMENTS: usize = 4;

/// Items on their way.
#[derive(Default)]
pub(crate) struct Window {
    next: Cell<u64>,
    /// Where they go, and whether they are segments, by their numbers.
    unsettled: RefCell<BTreeMap<u64, (SetId, bool)>>,
    settled: Notify,
    /// Whoever asked first.
    first: Mutex<()>,
}

/// An item that is on its way, until this is dropped.
pub(crate) struct Pass {
    window: Rc<Window>,
    number: u64,
}

impl Window {
    /// Waits for the place of an item that goes to `set`. Nothing may be awaited between this and the item's stamp.
    pub(crate) async fn enter(self: &Rc<Self>, set: SetId, segment: bool) -> Pass {
        let _first = self.first.lock().await;
        loop {
            let settled = self.settled.notified();
            if self.has_room(set, segment) {
                let number = self.next.get();
                self.next.set(number + 1);
                self.unsettled.borrow_mut().insert(number, (set, segment));
                return Pass { window: self.clone(), number };
            }
            settled.await;
        }
    }

    fn has_room(&self, set: SetId, segment: bool) -> bool {
        let unsettled = self.unsettled.borrow();
        let oldest = unsettled.keys().next().copied().unwrap_or(self.next.get());
        self.next.get() - oldest < IN_FLIGHT_MAX as u64
            && unsettled.values().next_back().is_none_or(|(last, _)| *last == set)
            && (!segment || unsettled.values().filter(|(_, segment)| *segment).count() < SEGMENTS)
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

    fn enter(window: &Rc<Window>, set: u32) -> Option<Pass> {
        window.enter(SetId(set), true).now_or_never()
    }

    #[test]
    fn the_oldest_holds_up_those_behind_it() {
        let window = Rc::new(Window::default());
        let oldest = enter(&window, 1).unwrap();
        // That younger ones are settled changes nothing.
        (1..IN_FLIGHT_MAX).for_each(|_| drop(enter(&window, 1).unwrap()));
        assert!(enter(&window, 1).is_none());
        drop(oldest);
        let passes: Vec<Pass> = (0..SEGMENTS).map(|_| enter(&window, 1).unwrap()).collect();
        assert!(enter(&window, 1).is_none());
        assert!(window.enter(SetId(1), false).now_or_never().is_some(), "deletions do not wait for segments to land");
        drop(passes);
        assert!(enter(&window, 1).is_some());
    }

    #[test]
    fn drives_go_to_another_set_once_and_who_waits_for_that_is_next() {
        let window = Rc::new(Window::default());
        let passes = [enter(&window, 1).unwrap(), enter(&window, 1).unwrap()];
        let mut other = Box::pin(window.enter(SetId(2), true));
        assert!((&mut other).now_or_never().is_none());
        assert!(enter(&window, 1).is_none(), "it would come before the other");
        drop(passes);
        assert!((&mut other).now_or_never().is_some());
    }

    #[test]
    fn only_the_newest_may_be_torn() {
        assert_eq!(torn_from(vec![3, 9, 5]), 0);
        assert_eq!(torn_from((1..=100).rev().collect()), 100 - IN_FLIGHT_MAX as u64 + 1);
    }
}
