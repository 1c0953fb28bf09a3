//! How many items may be on their way to the drives: what a power cut may tear.
//!
//! # Invariants
//! - WINDOW-1: an item is launched only when the one that was launched [`Window::most`] before it is settled,
//!   whatever set either goes to. Stamps are taken in the order of launches: so of all items that a recovery finds without
//!   proof that they are whole, only those with the newest stamps, as many as that, have to be verified.
//! - WINDOW-2: of all that is on its way to one drive, everything goes to one set, in the order in which it asked: with two,
//!   the drive would seek from one to the other and back with every command. Sets that share no drive do not wait for each other.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::types::{DriveSet, SetId};

/// Items between the oldest that is not settled and the newest, for each set that finds drives of its own.
const IN_FLIGHT_MAX: usize = 16;

/// Segments that are on their way to a drive at once: what they take of memory, and what one waits for who goes to another
/// set or deletes.
const SEGMENTS: usize = 4;

/// Items on their way.
pub(crate) struct Window {
    most: usize,
    /// Numbers of those who ask, and of launches.
    asked: Cell<u64>,
    launched: Cell<u64>,
    waiting: RefCell<BTreeMap<u64, Target>>,
    /// By the numbers of their launches.
    unsettled: RefCell<BTreeMap<u64, Target>>,
    changed: Notify,
}

/// Where an item goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) set: SetId,
    pub(crate) drives: DriveSet,
    /// It is a segment.
    pub(crate) segment: bool,
}

/// An item that is on its way, until this is dropped.
pub(crate) struct Pass {
    window: Rc<Window>,
    number: u64,
}

/// One that asked, until it is launched or goes away.
struct Asking<'a> {
    window: &'a Window,
    number: u64,
}

impl Window {
    /// A window for as many sets side by side as have drives of their own.
    pub(crate) fn new(side_by_side: usize) -> Rc<Self> {
        Rc::new(Self {
            most: IN_FLIGHT_MAX * side_by_side.max(1),
            asked: Cell::new(0),
            launched: Cell::new(0),
            waiting: RefCell::default(),
            unsettled: RefCell::default(),
            changed: Notify::new(),
        })
    }

    /// Items between the oldest that is not settled and the newest.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// The stamp from which on items may be torn, of all that were found without proof. (WINDOW-1)
    pub(crate) fn torn_from(&self, mut stamps: Vec<u64>) -> u64 {
        stamps.sort_unstable_by(|a, b| b.cmp(a));
        stamps.get(self.most - 1).copied().unwrap_or(0)
    }

    /// Waits for the place of an item. Nothing may be awaited between this and the item's stamp.
    pub(crate) async fn enter(self: &Rc<Self>, target: Target) -> Pass {
        let asking = Asking { window: self, number: self.asked.get() };
        self.asked.set(asking.number + 1);
        self.waiting.borrow_mut().insert(asking.number, target);
        loop {
            let changed = self.changed.notified();
            if self.may_go(asking.number, target) {
                let number = self.launched.get();
                self.launched.set(number + 1);
                self.unsettled.borrow_mut().insert(number, target);
                return Pass { window: self.clone(), number };
            }
            changed.await;
        }
    }

    fn may_go(&self, asked: u64, target: Target) -> bool {
        let unsettled = self.unsettled.borrow();
        let oldest = unsettled.keys().next().copied().unwrap_or(self.launched.get());
        let waiting = self.waiting.borrow();
        let mut before = waiting.range(..asked).map(|(_, other)| other);
        let near = || unsettled.values().filter(|other| other.drives.meets(&target.drives));
        self.launched.get() - oldest < self.most as u64
            && !before.any(|other| other.drives.meets(&target.drives))
            && near().all(|other| other.set == target.set)
            && (!target.segment || near().filter(|other| other.segment).count() < SEGMENTS)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.window.waiting.borrow_mut().remove(&self.number);
        self.window.changed.notify_waiters();
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.window.unsettled.borrow_mut().remove(&self.number);
        self.window.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::types::DriveId;

    /// To a set on drives 3 * `group` to 3 * `group` + 2.
    fn to(set: u32, group: u8) -> Target {
        let drives = (3 * group..3 * group + 3).map(DriveId).collect();
        Target { set: SetId(set), drives, segment: true }
    }

    fn enter(window: &Rc<Window>, set: u32) -> Option<Pass> {
        window.enter(to(set, 0)).now_or_never()
    }

    #[test]
    fn the_oldest_holds_up_those_behind_it() {
        let window = Window::new(1);
        let oldest = enter(&window, 1).unwrap();
        // That younger ones are settled changes nothing.
        (1..IN_FLIGHT_MAX).for_each(|_| drop(enter(&window, 1).unwrap()));
        assert!(enter(&window, 1).is_none());
        drop(oldest);
        let passes: Vec<Pass> = (0..SEGMENTS).map(|_| enter(&window, 1).unwrap()).collect();
        assert!(enter(&window, 1).is_none());
        let deletion = Target { segment: false, ..to(1, 0) };
        assert!(window.enter(deletion).now_or_never().is_some(), "deletions do not wait for segments to land");
        drop(passes);
        assert!(enter(&window, 1).is_some());
    }

    #[test]
    fn drives_go_to_another_set_once_and_who_waits_for_that_is_next() {
        let window = Window::new(1);
        let passes = [enter(&window, 1).unwrap(), enter(&window, 1).unwrap()];
        let mut other = Box::pin(window.enter(to(2, 0)));
        assert!((&mut other).now_or_never().is_none());
        assert!(enter(&window, 1).is_none(), "it would come before the other");
        drop(passes);
        assert!((&mut other).now_or_never().is_some());
    }

    #[test]
    fn sets_on_other_drives_do_not_wait() {
        let window = Window::new(2);
        let passes: Vec<Pass> = (0..SEGMENTS).map(|_| enter(&window, 1).unwrap()).collect();
        let mut waiting = Box::pin(window.enter(to(1, 0)));
        assert!((&mut waiting).now_or_never().is_none());
        assert!(window.enter(to(2, 1)).now_or_never().is_some());
        // One that needs drives of both waits for both, and those behind it for it, until it goes away.
        let both = Target { drives: (0..6).map(DriveId).collect(), ..to(3, 0) };
        let mut both = Box::pin(window.enter(both));
        assert!((&mut both).now_or_never().is_none());
        assert!(window.enter(to(2, 1)).now_or_never().is_none());
        drop(both);
        assert!(window.enter(to(2, 1)).now_or_never().is_some());
        drop(passes);
        assert!(waiting.now_or_never().is_some());
    }

    #[test]
    fn only_the_newest_may_be_torn() {
        let window = Window::new(2);
        assert_eq!(window.torn_from(vec![3, 9, 5]), 0);
        assert_eq!(window.torn_from((1..=100).rev().collect()), 100 - 2 * IN_FLIGHT_MAX as u64 + 1);
    }
}
