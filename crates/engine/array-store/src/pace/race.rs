//! The writes of one item to all of its drives, which have the same to do at the same time: each is compared with the
//! one in the middle, as soon as that is known.
//!
//! **Owns** the times of one item. **Knows nothing of** what follows from them: that is [`Paces`]'s.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use shingle_runtime::Instant;

use super::Paces;
use super::lateness::late_after;
use crate::types::DriveId;

/// A write that takes longer than this, and is late, holds its item up.
const HELD_UP_AFTER: Duration = Duration::from_secs(1);

/// An item on its way.
pub(crate) struct Race {
    paces: Rc<Paces>,
    began: Instant,
    count: usize,
    /// Drives that have not ended.
    running: RefCell<Vec<DriveId>>,
    /// Times of the others, in the order in which they ended; those that failed are left out.
    took: RefCell<Vec<(DriveId, Duration)>>,
    /// Those of which it is known that they hold the item up.
    held_up: RefCell<Vec<DriveId>>,
}

impl Paces {
    /// Writes of an item to these drives begin now.
    pub(crate) fn race(self: &Rc<Self>, drives: Vec<DriveId>) -> Rc<Race> {
        Rc::new(Race {
            paces: self.clone(),
            began: self.rt.now(),
            count: drives.len(),
            running: RefCell::new(drives),
            took: RefCell::default(),
            held_up: RefCell::default(),
        })
    }
}

impl Race {
    /// One of the writes has ended.
    pub(crate) fn ended(self: &Rc<Self>, drive: DriveId, good: bool) {
        self.running.borrow_mut().retain(|other| *other != drive);
        if good {
            self.took.borrow_mut().push((drive, self.paces.rt.now().since(self.began)));
            // From here on it is known what the one in the middle took.
            if self.took.borrow().len() == self.count / 2 + 1 {
                self.look_after_the_others();
            }
        }
        if self.running.borrow().is_empty() {
            self.over();
        }
    }

    fn look_after_the_others(self: &Rc<Self>) {
        let running = self.running.borrow().len();
        // Running commands took longer than all others.
        let others = std::iter::repeat_n(Duration::MAX, running);
        let late = late_after(self.took.borrow().iter().map(|(_, took)| *took).chain(others));
        let Some(late) = late.filter(|_| running > 0) else { return };
        let (race, due) = (Rc::downgrade(self), late.max(HELD_UP_AFTER));
        let (rt, began) = (self.paces.rt.clone(), self.began);
        self.paces.rt.spawn_detached(async move {
            rt.sleep(due.saturating_sub(rt.now().since(began))).await;
            if let Some(race) = race.upgrade() {
                let running = race.running.borrow().clone();
                running.iter().for_each(|&drive| race.paces.holds_up(drive));
                race.held_up.replace(running);
            }
        });
    }

    fn over(&self) {
        let (took, held_up) = (self.took.borrow(), self.held_up.borrow());
        self.paces.wrote(self.began, &took, &held_up);
    }
}
