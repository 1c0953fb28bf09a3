//! Cleaners: several at once, each into a set of its own.
//!
//! With one cleaner a full array of many drives takes in what the drives of one set can clean. So there may be one for
//! each group of drives ([`crate::allocator`]), as far as the array has the sets for it.
//!
//! # Invariants
//! - AS-CLEAN-4: of all cleaners only the first opens sets that are reserved for cleaning, as if there were no other:
//!   so it comes to the end of its victim (AS-CLEAN-3). (Deletions, and other writes that win space, may open one of
//!   them.) Others take free sets beside them; if there are none, they leave their victim with the data not yet moved,
//!   and wait with nothing in hand. They wait for drives while they move, and for no other cleaner. Sets that are free
//!   for them, and room left in their sets, go to clients once nothing can be won.
//! - AS-CLEAN-5: no two empty the same set. The reservation is part of the choice: nothing is awaited in between.
//! - AS-CLEAN-6: a writer that waits for space is woken when a set is free, or may be cleaned, and not when a cleaner
//!   gives up: else two that win nothing wake each other for ever. A writer that waits for cleaners looks at them
//!   before it takes anything else in hand.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::append::open_set::{RESERVED, Stream};
use crate::types::{DriveSet, SetId};
use crate::zone_set::ZoneSet;

/// Sets of an array for each cleaner: those that are free for them, and part empty, must be few.
const SETS_A_CLEANER: usize = 64;

/// At most that share of the sets is reserved, however many cleaners are wanted.
const RESERVED_SHARE: usize = 4;

/// The first cleaner's number.
const FIRST: u8 = 0;

/// The cleaners of an array.
pub(crate) struct Cleaners {
    most: usize,
    /// Tasks that want space, in the order in which they came: as many at a time as may clean.
    turns: Semaphore,
    at_work: RefCell<BTreeMap<u8, Work>>,
    /// A batch was copied, a set is left, or a cleaner came to its end. None of that is space (AS-CLEAN-6).
    changed: Notify,
    /// Age of data that cleaning moves, in nanoseconds: a mean that follows it slowly.
    moved_age: Cell<u64>,
}

/// The work of one cleaner.
#[derive(Default)]
struct Work {
    /// The set that it empties, and the drives of that.
    victim: Option<(SetId, DriveSet)>,
    /// Deletions below it were in the index when it chose what it is moving now.
    copying: Option<u64>,
    /// The batch that it is copying.
    moving: Option<u64>,
}

/// A cleaner at work, until this is dropped.
pub(crate) struct Cleaner {
    all: Rc<Cleaners>,
    number: u8,
}

/// A set that a cleaner empties, until this is dropped. (AS-CLEAN-5)
pub(crate) struct Victim<'a>(&'a Cleaner);

/// A batch that a cleaner copies, until this is dropped.
pub(crate) struct Moving<'a>(&'a Cleaner);

impl Cleaners {
    /// As many as are wanted, or one for each group; as far as there are sets for them, and zones beside `slots`.
    pub(crate) fn new(wanted: Option<usize>, groups: usize, sets: usize, zones: usize) -> Rc<Self> {
        let few = (sets / RESERVED_SHARE).saturating_sub(RESERVED - 1);
        let most = wanted.map_or(groups.min(sets / SETS_A_CLEANER), |wanted| wanted.min(few));
        let most = most.min(zones.saturating_add(1)).clamp(1, usize::from(u8::MAX));
        Rc::new(Self {
            most,
            turns: Semaphore::new(most),
            at_work: RefCell::default(),
            changed: Notify::new(),
            moved_age: Cell::new(0),
        })
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Streams of all of them, the first one's first.
    pub(crate) fn streams(&self) -> impl Iterator<Item = Stream> + use<> {
        (FIRST..self.most as u8).map(Stream::Clean)
    }

    /// Free sets that clients leave as long as something can be won: for the first cleaner, and one for each that may
    /// work beside it.
    pub(crate) fn reserved(&self) -> usize {
        RESERVED + self.most - 1
    }

    /// Waits for a turn to win space.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is closed by nobody.
        self.turns.acquire().await.ok()
    }

    /// Waits until nobody cleans.
    pub(crate) async fn none(&self) {
        drop(self.turns.acquire_many(self.most as u32).await);
    }

    /// True if some cleaner empties that set.
    pub(crate) fn empty(&self, id: SetId) -> bool {
        self.at_work.borrow().values().any(|work| work.victim.is_some_and(|(victim, _)| victim == id))
    }

    /// Drives of all sets that are being emptied.
    pub(crate) fn drives(&self) -> DriveSet {
        let at_work = self.at_work.borrow();
        let victims = at_work.values().filter_map(|work| work.victim);
        victims.fold(DriveSet::EMPTY, |all, (_, drives)| all.with(&drives))
    }

    /// True if some work beside the first one.
    pub(crate) fn beside(&self) -> bool {
        self.at_work.borrow().keys().any(|number| *number != FIRST)
    }

    /// Deletions below it were in the index when cleaners chose what they are moving now.
    pub(crate) fn copying(&self) -> Option<u64> {
        self.at_work.borrow().values().filter_map(|work| work.copying).min()
    }

    /// The batches that are being copied.
    pub(crate) fn moving(&self) -> Vec<u64> {
        self.at_work.borrow().values().filter_map(|work| work.moving).collect()
    }

    /// Waits until none of those is being copied.
    pub(crate) async fn moved(&self, batches: &[u64]) {
        loop {
            let changed = self.changed.notified();
            if !self.moving().iter().any(|batch| batches.contains(batch)) {
                return;
            }
            changed.await;
        }
    }

    /// A cleaner at work, with that number, unless there is one.
    fn begin(self: &Rc<Self>, number: u8) -> Option<Cleaner> {
        let mut at_work = self.at_work.borrow_mut();
        if at_work.contains_key(&number) {
            return None;
        }
        at_work.insert(number, Work::default());
        Some(Cleaner { all: self.clone(), number })
    }

    /// The first cleaner, unless it is at work.
    pub(crate) fn first(self: &Rc<Self>) -> Option<Cleaner> {
        self.begin(FIRST)
    }

    /// Another one that is not at work.
    pub(crate) fn another(self: &Rc<Self>) -> Option<Cleaner> {
        (FIRST + 1..self.most as u8).find_map(|number| self.begin(number))
    }

    /// Streams of those beside the first one that are not at work.
    pub(crate) fn idle(&self) -> Vec<Stream> {
        let at_work = self.at_work.borrow();
        (FIRST + 1..self.most as u8).filter(|number| !at_work.contains_key(number)).map(Stream::Clean).collect()
    }

    /// Ends when some cleaner's work changed.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Something of that age is moved: whether it is older than most of what is.
    pub(crate) fn is_old(&self, age: u64) -> bool {
        let mean = self.moved_age.get();
        self.moved_age.set(mean - mean / 256 + age / 256);
        age > mean
    }

    /// True if the first one has something to do.
    pub(crate) fn first_is_at_work(&self) -> bool {
        self.at_work.borrow().contains_key(&FIRST)
    }
}

impl Cleaner {
    pub(crate) fn stream(&self) -> Stream {
        Stream::Clean(self.number)
    }

    fn work(&self, change: impl FnOnce(&mut Work)) {
        if let Some(work) = self.all.at_work.borrow_mut().get_mut(&self.number) {
            change(work);
        }
    }

    /// Takes a set to be emptied that nobody else empties.
    pub(crate) fn take(&self, id: SetId, set: &ZoneSet) -> Victim<'_> {
        self.work(|work| work.victim = Some((id, set.drives())));
        Victim(self)
    }

    /// Parts that it copies from now on were chosen when deletions below this were in the index.
    pub(crate) fn copies(&self, below: u64) {
        self.work(|work| work.copying = Some(below));
    }

    /// Begins to copy a batch, which has that number.
    pub(crate) fn moves(&self, batch: u64) -> Moving<'_> {
        self.work(|work| work.moving = Some(batch));
        Moving(self)
    }
}

impl Drop for Victim<'_> {
    fn drop(&mut self) {
        self.0.work(|work| *work = Work::default());
        self.0.all.changed.notify_waiters();
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.0.work(|work| work.moving = None);
        self.0.all.changed.notify_waiters();
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        self.all.at_work.borrow_mut().remove(&self.number);
        self.all.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AS-CLEAN-5: a cleaner has a number of its own, and its victim is known as long as it is at work.
    #[test]
    fn each_cleaner_has_its_own_number() {
        let cleaners = Cleaners::new(Some(3), 3, 100, 100);
        let first = cleaners.first().unwrap();
        assert!(cleaners.first().is_none() && cleaners.first_is_at_work() && !cleaners.beside());
        let (second, third) = (cleaners.another().unwrap(), cleaners.another().unwrap());
        assert!(cleaners.another().is_none(), "three are enough");
        assert_eq!([first.stream(), second.stream(), third.stream()], [0, 1, 2].map(Stream::Clean));
        drop(second);
        assert_eq!(cleaners.idle(), [Stream::Clean(1)]);
        drop(first);
        assert!(!cleaners.first_is_at_work() && cleaners.beside());
    }

    #[test]
    fn batches_are_known_while_they_are_copied() {
        let cleaners = Cleaners::new(Some(2), 2, 100, 100);
        let cleaner = cleaners.first().unwrap();
        cleaner.copies(7);
        let moving = cleaner.moves(9);
        assert_eq!((cleaners.moving(), cleaners.copying()), (vec![9], Some(7)));
        drop(moving);
        assert!(cleaners.moving().is_empty());
    }
}
