//! Who cleans: several at once, each into a set of its own.
//!
//! With one cleaner a full array of many drives takes in what the drives of one set can clean. So there may be one for each group
//! of drives ([`crate::allocator`]), as far as the array has the sets for it.
//!
//! # Invariants
//! - CLEAN-4: of all cleaners only the first opens sets that are reserved for cleaning, as if there were no other: so it comes to
//!   the end of what it empties (CLEAN-3). (Deletions, and other writes that win space, may open one of them.) Others take what is
//!   free beside them; where nothing is, they leave their victim with what they have not moved, and wait with nothing in hand. They
//!   wait for drives while they move, and for nobody who cleans. What is free for them, and what room is left in their sets,
//!   clients have once nothing can be won.
//! - CLEAN-5: no two empty the same set. The claim is part of the choice: nothing is awaited in between.
//! - CLEAN-6: who waits for space is woken when a set is free, or may be cleaned, and not when a cleaner gives up: else two that win
//!   nothing wake each other for ever. Who waits for cleaners looks at them before anything else is taken in hand.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::{Either, select};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::engine::Engine;
use crate::sets::ZoneSet;
use crate::types::{DriveSet, SetId};
use crate::writer::{CUT_MIN, OpenSet, RESERVED, Stream};

/// Sets of an array for each cleaner: those that are free for them, and part empty, must be few.
const SETS_A_CLEANER: usize = 64;

/// At most that share of the sets is reserved, however many cleaners are wanted.
const RESERVED_SHARE: usize = 4;

/// The first cleaner's number.
const FIRST: u8 = 0;

/// The cleaners of an array.
pub(crate) struct Cleaners {
    most: usize,
    /// Who wants space, in the order in which they came: as many at a time as may clean.
    turns: Semaphore,
    at_work: RefCell<BTreeMap<u8, Work>>,
    /// A batch was copied, a set is left, or a cleaner came to its end. None of that is space (CLEAN-6).
    changed: Notify,
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
    engine: Rc<Engine>,
    number: u8,
}

/// A set that a cleaner empties, until this is dropped. (CLEAN-5)
pub(crate) struct Victim<'a>(&'a Cleaner);

/// A batch that a cleaner copies, until this is dropped.
pub(crate) struct Moving<'a>(&'a Cleaner);

impl Cleaners {
    /// As many as are wanted, or one for each group; as far as there are sets for them, and zones beside `slots`.
    pub(crate) fn new(wanted: Option<usize>, groups: usize, sets: usize, zones: usize) -> Self {
        let few = (sets / RESERVED_SHARE).saturating_sub(RESERVED - 1);
        let most = wanted.map_or(groups.min(sets / SETS_A_CLEANER), |wanted| wanted.min(few));
        let most = most.min(zones.saturating_add(1)).clamp(1, usize::from(u8::MAX));
        Self { most, turns: Semaphore::new(most), at_work: RefCell::default(), changed: Notify::new() }
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Streams of all of them, the first one's first.
    pub(crate) fn streams(&self) -> impl Iterator<Item = Stream> + use<> {
        (FIRST..self.most as u8).map(Stream::Clean)
    }

    /// Free sets that clients leave as long as something can be won: for the first cleaner, and one for each that may work beside it.
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
    fn drives(&self) -> DriveSet {
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

    /// True if the first one has something to do.
    pub(crate) fn first_is_at_work(&self) -> bool {
        self.at_work.borrow().contains_key(&FIRST)
    }
}

impl Engine {
    /// Waits until that holds of the cleaners, or space changed. (CLEAN-6)
    pub(crate) async fn wait_for_cleaners(&self, holds: impl Fn(&Cleaners) -> bool) {
        let mut space = Box::pin(self.space.notified());
        loop {
            let changed = Box::pin(self.cleaners.changed.notified());
            if holds(&self.cleaners) {
                return;
            }
            if let Either::Left(_) = select(&mut space, changed).await {
                return;
            }
        }
    }

    fn cleaner(self: &Rc<Self>, number: u8) -> Option<Cleaner> {
        let mut at_work = self.cleaners.at_work.borrow_mut();
        if at_work.contains_key(&number) {
            return None;
        }
        at_work.insert(number, Work::default());
        Some(Cleaner { engine: self.clone(), number })
    }

    /// The first cleaner, unless it is at work.
    pub(crate) fn first_cleaner(self: &Rc<Self>) -> Option<Cleaner> {
        self.cleaner(FIRST)
    }

    /// Another cleaner, with what it empties: where that needs nothing of what is reserved. (CLEAN-4)
    pub(crate) fn another_cleaner(self: &Rc<Self>) -> Option<(Cleaner, SetId, Rc<ZoneSet>)> {
        if self.free_sets() <= RESERVED {
            return None;
        }
        let (id, set) = self.victim()?;
        let cleaner = (FIRST + 1..self.cleaners.most as u8).find_map(|number| self.cleaner(number))?;
        Some((cleaner, id, set))
    }

    /// The set to collect next, of those that nobody empties: those that lost a member's write first, then as the policy says. Sets
    /// on drives on which nobody cleans come before others, unless they win far less: with two on the same drives neither is
    /// faster than one.
    pub(crate) fn victim(&self) -> Option<(SetId, Rc<ZoneSet>)> {
        let now = self.stamps.last();
        let idle = |id| !self.cleaners.empty(id);
        let best = self.sets.victim(now, |_| true, idle)?;
        let busy = self.cleaners.drives();
        if !best.1.drives().meets(&busy) {
            return Some(best);
        }
        let wins = |set: &ZoneSet| self.set_data(set).saturating_sub(set.live());
        let apart = self.sets.victim(now, |drives| !drives.meets(&busy), idle);
        let apart = apart.filter(|(_, set)| wins(set) >= wins(&best.1) / 4 * 3);
        Some(apart.unwrap_or(best))
    }

    /// The open set of a cleaner beside the first one that is not at work, the one with the most room, if that is worth it: nothing is
    /// won that it could take.
    pub(crate) fn idle_cleaners_set(&self) -> Option<OpenSet> {
        let at_work = self.cleaners.at_work.borrow();
        let idle = (FIRST + 1..self.cleaners.most as u8).filter(|number| !at_work.contains_key(number));
        let room = |stream| self.allocator.look_at(stream, |open| self.data_left(open)).unwrap_or(0);
        let (room, stream) = idle.map(Stream::Clean).map(|stream| (room(stream), stream)).max()?;
        if room < u64::from(self.segment_length / CUT_MIN) {
            return None;
        }
        let open = self.allocator.take(stream)?;
        Some(OpenSet { packed: false, ..open })
    }
}

impl Cleaner {
    pub(crate) fn stream(&self) -> Stream {
        Stream::Clean(self.number)
    }

    fn work(&self, change: impl FnOnce(&mut Work)) {
        if let Some(work) = self.engine.cleaners.at_work.borrow_mut().get_mut(&self.number) {
            change(work);
        }
    }

    /// Takes a set to be emptied that nobody else empties.
    pub(crate) fn take(&self, id: SetId, set: &ZoneSet) -> Victim<'_> {
        self.work(|work| work.victim = Some((id, set.drives())));
        Victim(self)
    }

    /// What it copies from now on was chosen when deletions below this were in the index.
    pub(crate) fn copies(&self, below: u64) {
        self.work(|work| work.copying = Some(below));
    }

    /// Begins to copy a batch.
    pub(crate) fn moves(&self) -> Moving<'_> {
        let batch = self.engine.stamps.next();
        self.work(|work| work.moving = Some(batch));
        Moving(self)
    }
}

impl Drop for Victim<'_> {
    fn drop(&mut self) {
        self.0.work(|work| *work = Work::default());
        self.0.engine.cleaners.changed.notify_waiters();
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.0.work(|work| work.moving = None);
        self.0.engine.cleaners.changed.notify_waiters();
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        self.engine.cleaners.at_work.borrow_mut().remove(&self.number);
        self.engine.cleaners.changed.notify_waiters();
    }
}
