//! Which of the open sets a writer appends to: what dies together should lie in as few sets as can be.
//!
//! Cleaning costs what lives beside what died. An object that lies in one set leaves one large hole when it is deleted; one
//! that was written in turns among those of eleven other writers leaves many small ones. So several sets are open for
//! clients, and a writer claims room for all of its object before it writes: in the set that it fills best, or, if its
//! length is not known, all that one set has left. (`docs/decisions/0028-open-sets.md` has what that saves.)
//!
//! # Invariants
//! - SHELF-1: claims are a plan and nothing relies on them: what does not fit where room was claimed goes elsewhere.
//! - SHELF-2: no call fails for space while an open set has room for what it writes, and none is closed for want of room
//!   unless another one takes its place, cleaning wins something of it, or more are available than clients may have open:
//!   see `Engine::start_user` and `Engine::place`.

use std::cell::Cell;
use std::rc::Rc;

use crate::types::SetId;
use crate::writer::CUT_MIN;

/// Open sets with room that nobody claimed, from which on no other is opened to fit an object better.
const PARTIAL_MAX: usize = 4;

/// The share of a set at its end that is written at once, with whatever comes.
const END: u64 = 12;

/// The open sets of a lane.
pub(crate) struct Shelf {
    /// The number of its first slot, of all lanes' slots.
    first: usize,
    slots: Vec<Slot>,
    /// Data of a set that is filled from its start, as the last one that was opened.
    whole: Cell<u64>,
    /// Less room than this is not worth a claim.
    least: u64,
    claims: Cell<u64>,
    /// Of them, those that are there.
    alive: Cell<usize>,
    /// The slot of the set that was written last.
    here: Cell<usize>,
}

/// An open set, or none yet.
#[derive(Default)]
struct Slot {
    set: Cell<Option<SetId>>,
    /// Data that it has room for.
    free: Cell<u64>,
    /// Of it, what is claimed.
    claimed: Cell<u64>,
    /// Claims on an earlier life say nothing.
    life: Cell<u64>,
    /// The set is full as far as claims go: the next write opens another one.
    spent: Cell<bool>,
    /// Objects that belong together are written there.
    group: Cell<Option<u64>>,
    /// When it was claimed last, in claims.
    used: Cell<u64>,
}

/// What is known of an object before it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutHints {
    /// Its bytes.
    pub length: Option<u64>,
    /// Objects with the same number will be deleted together, such as parts of one upload.
    pub group: Option<u64>,
}

/// Room in an open set, until this is dropped.
pub(crate) struct Claim {
    shelf: Rc<Shelf>,
    /// Its number on the shelf.
    slot: usize,
    life: u64,
    left: u64,
    /// All that the set has left, however much that turns out to be.
    to_end: bool,
}

impl Shelf {
    /// A shelf for segments with that much data, of slots with numbers from `first` on.
    pub(crate) fn new(first: usize, slots: usize, segment: u32) -> Rc<Self> {
        Rc::new(Self {
            first,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            whole: Cell::new(u64::MAX),
            least: u64::from(segment / CUT_MIN),
            claims: Cell::new(0),
            alive: Cell::new(0),
            here: Cell::new(0),
        })
    }

    fn slot(&self, number: usize) -> Option<&Slot> {
        self.slots.get(number.checked_sub(self.first)?)
    }

    /// How many have claims.
    pub(crate) fn writers(&self) -> usize {
        self.alive.get()
    }

    /// Bytes that are claimed.
    pub(crate) fn claimed(&self) -> u64 {
        self.slots.iter().map(|slot| slot.claimed.get()).fold(0, u64::saturating_add)
    }

    /// Sets that are open.
    #[cfg(test)]
    pub(crate) fn sets(&self) -> impl Iterator<Item = SetId> {
        self.slots.iter().filter_map(|slot| slot.set.get())
    }

    /// A slot without a set.
    pub(crate) fn free_slot(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.set.get().is_none()).map(|at| self.first + at)
    }

    pub(crate) fn has_group(&self, group: u64) -> bool {
        self.slots.iter().any(|slot| slot.group.get() == Some(group))
    }

    fn unclaimed(&self, slot: &Slot) -> u64 {
        let free = if slot.set.get().is_some() && !slot.spent.get() { slot.free.get() } else { self.whole.get() };
        free.saturating_sub(slot.claimed.get())
    }

    /// Nothing is open there, or what is open is spent; and nobody is about to open another.
    fn is_fresh(&self, slot: &Slot) -> bool {
        let open = slot.set.get().is_some() && !slot.spent.get();
        slot.claimed.get() == 0 && (!open || slot.free.get() < self.least)
    }

    fn least_by(&self, which: impl Fn(&Slot) -> bool, key: impl Fn(&Slot) -> u64) -> Option<usize> {
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| which(slot));
        slots.min_by_key(|(at, slot)| (key(slot), *at)).map(|(at, _)| at)
    }

    /// Claims room for the rest of an object.
    pub(crate) fn claim(self: &Rc<Self>, hints: PutHints) -> Claim {
        let (slot, length) = match hints {
            PutHints { length: Some(length), group: None } => self.fitting(length),
            PutHints { group, .. } => (self.alone(group), None),
        };
        self.claim_in(slot, length, hints.group)
    }

    /// A place for something small: where drives are, unless that is a group's or claimed; for tombstones, which have no data,
    /// even then. It claims no room.
    pub(crate) fn claim_here(self: &Rc<Self>, length: u64) -> Claim {
        let free = |slot: &Slot| slot.group.get().is_none() && self.unclaimed(slot) >= self.least;
        let here = self.here.get();
        let taken = |slot: &Slot| !self.is_fresh(slot) && (length == 0 || free(slot));
        let slot = if self.slots.get(here).is_some_and(taken) { here } else { self.fitting(length).0 };
        let group = self.slots.get(slot).and_then(|slot| slot.group.get());
        self.claim_in(slot, Some(0), group)
    }

    fn claim_in(self: &Rc<Self>, slot: usize, length: Option<u64>, group: Option<u64>) -> Claim {
        let chosen = &self.slots[slot];
        if self.is_fresh(chosen) && chosen.set.get().is_some() {
            chosen.spent.set(true);
        }
        let unclaimed = self.unclaimed(chosen);
        let left = length.unwrap_or(unclaimed);
        chosen.claimed.set(chosen.claimed.get().saturating_add(left));
        chosen.group.set(group);
        self.claims.set(self.claims.get() + 1);
        chosen.used.set(self.claims.get());
        self.alive.set(self.alive.get() + 1);
        Claim { shelf: self.clone(), slot, life: chosen.life.get(), left, to_end: length.is_none() }
    }

    /// Where an object of that length goes, and how much of it.
    fn fitting(&self, length: u64) -> (usize, Option<u64>) {
        if self.slots.len() == 1 {
            // There is nothing to choose, and nothing to be gained by cutting objects where others begin.
            return (0, None);
        }
        let used = |slot: &Slot| !self.is_fresh(slot);
        let fits = |slot: &Slot| used(slot) && self.unclaimed(slot) >= length.max(self.least);
        if let Some(slot) = self.least_by(fits, |slot| self.unclaimed(slot)) {
            return (slot, Some(length));
        }
        let roomy = |slot: &Slot| used(slot) && self.unclaimed(slot) >= self.least;
        let whole = self.whole.get();
        // The end of the set that is being written gets the head of it: to come back later would be a seek of all drives.
        if let Some(slot) = self.least_by(|slot| slot.used.get() == self.claims.get(), |_| 0)
            && roomy(&self.slots[slot])
            && whole != u64::MAX
            && self.unclaimed(&self.slots[slot]) < whole / END
        {
            return (slot, Some(self.unclaimed(&self.slots[slot])));
        }
        let partial = self.slots.iter().filter(|slot| roomy(slot)).count();
        if (partial < PARTIAL_MAX || length >= whole)
            && let Some(slot) = self.least_by(|slot| self.is_fresh(slot), |_| 0)
        {
            return (slot, if length >= whole { None } else { Some(length) });
        }
        // The fullest gets the head of it; where everything is claimed, it goes to the emptiest, as far as that has room.
        match self.least_by(roomy, |slot| self.unclaimed(slot)) {
            Some(slot) => (slot, Some(length.min(self.unclaimed(&self.slots[slot])))),
            None => {
                let slot = self.least_by(|_| true, |slot| u64::MAX - slot.free.get());
                (slot.unwrap_or(0), None)
            }
        }
    }

    /// A set that nobody else writes to: that of the group, one that is part full, a new one, one of another group.
    fn alone(&self, group: Option<u64>) -> usize {
        let idle = |slot: &Slot| !self.is_fresh(slot) && slot.claimed.get() == 0;
        let of_group = |slot: &Slot| group.is_some() && slot.group.get() == group && !self.is_fresh(slot);
        let found = self
            .least_by(of_group, |slot| slot.claimed.get())
            .or_else(|| self.least_by(|slot| idle(slot) && slot.group.get().is_none(), |slot| slot.free.get()))
            .or_else(|| self.least_by(|slot| self.is_fresh(slot), |_| 0))
            .or_else(|| self.least_by(idle, |slot| slot.used.get()))
            .or_else(|| self.least_by(|_| true, |slot| slot.used.get()));
        found.unwrap_or(0)
    }

    /// Nothing more comes of a group.
    pub(crate) fn end_group(&self, group: u64) {
        let slots = self.slots.iter().filter(|slot| slot.group.get() == Some(group));
        slots.for_each(|slot| slot.group.set(None));
    }

    /// Whether a slot's set is to be closed before the next write there.
    pub(crate) fn is_spent(&self, slot: usize) -> bool {
        self.slot(slot).is_some_and(|slot| slot.spent.get())
    }

    /// A slot has a set with room for so much data.
    pub(crate) fn opened(&self, slot: usize, set: SetId, free: u64) {
        self.reopened(slot, set, free);
        self.whole.set(free);
    }

    /// The same, where the set holds something already.
    pub(crate) fn reopened(&self, slot: usize, set: SetId, free: u64) {
        let Some(slot) = self.slot(slot) else { return };
        slot.set.set(Some(set));
        slot.free.set(free);
        slot.spent.set(false);
    }

    /// A set has room for so much data now.
    pub(crate) fn written(&self, set: SetId, free: u64) {
        if let Some(at) = self.slots.iter().position(|slot| slot.set.get() == Some(set)) {
            self.slots[at].free.set(free);
            self.here.set(at);
        }
    }

    /// A set is closed.
    pub(crate) fn closed(&self, set: SetId) {
        let Some(slot) = self.slots.iter().find(|slot| slot.set.get() == Some(set)) else { return };
        slot.set.set(None);
        // Where it was spent, claims and their group are of the set that comes next.
        if !slot.spent.replace(false) {
            slot.group.set(None);
            slot.claimed.set(0);
            slot.life.set(slot.life.get() + 1);
        }
    }

    /// Slots whose sets have room, and how much.
    pub(crate) fn roomy(&self) -> impl Iterator<Item = (usize, u64)> {
        let open = self.slots.iter().enumerate().filter(|(_, slot)| slot.set.get().is_some());
        open.map(|(at, slot)| (self.first + at, slot.free.get()))
    }
}

impl Claim {
    /// Its slot, of all lanes' slots.
    pub(crate) fn slot(&self) -> usize {
        self.shelf.first + self.slot
    }

    /// Bytes to write at most before another claim. 0: the claim is spent.
    pub(crate) fn limit(&self) -> u64 {
        match self.shelf.slots.get(self.slot).filter(|slot| slot.life.get() == self.life) {
            None => 0,
            Some(_) if self.to_end => u64::MAX,
            Some(_) => self.left,
        }
    }

    /// So much of it was written.
    pub(crate) fn spend(&mut self, bytes: u64) {
        let spent = bytes.min(self.left);
        self.left -= spent;
        self.give_back(spent);
    }

    fn give_back(&self, bytes: u64) {
        if let Some(slot) = self.shelf.slots.get(self.slot).filter(|slot| slot.life.get() == self.life) {
            slot.claimed.set(slot.claimed.get().saturating_sub(bytes));
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.shelf.alive.set(self.shelf.alive.get() - 1);
        self.give_back(self.left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: u64 = 1000;

    /// Claims, and opens a set where there is none, as a write does.
    fn claim(shelf: &Rc<Shelf>, hints: PutHints) -> Claim {
        let claim = shelf.claim(hints);
        let slot = &shelf.slots[claim.slot()];
        if let Some(spent) = slot.set.get().filter(|_| shelf.is_spent(claim.slot())) {
            shelf.closed(spent);
        }
        if slot.set.get().is_none() {
            shelf.opened(claim.slot(), SetId(100 + claim.slot() as u32), WHOLE);
        }
        claim
    }

    fn of(length: u64) -> PutHints {
        PutHints { length: Some(length), group: None }
    }

    fn write(shelf: &Rc<Shelf>, mut claim: Claim, bytes: u64) {
        let slot = &shelf.slots[claim.slot()];
        claim.spend(bytes);
        shelf.written(slot.set.get().unwrap(), slot.free.get() - bytes);
    }

    #[test]
    fn an_object_goes_where_it_leaves_the_least() {
        let shelf = Shelf::new(0, 8, 80);
        let first = claim(&shelf, of(700));
        let second = claim(&shelf, of(500));
        assert_ne!(first.slot(), second.slot());
        // 300 and 500 are left.
        assert_eq!(claim(&shelf, of(300)).slot(), first.slot());
        assert_eq!(claim(&shelf, of(400)).slot(), second.slot());
        write(&shelf, first, 700);
        write(&shelf, second, 500);
        assert_eq!(shelf.roomy().count(), 2);
    }

    #[test]
    fn an_object_without_a_length_has_a_set_of_its_own() {
        let shelf = Shelf::new(0, 3, 80);
        let unknown = PutHints::default();
        let first = claim(&shelf, unknown);
        let second = claim(&shelf, unknown);
        assert_ne!(first.slot(), second.slot());
        assert_eq!(first.limit(), u64::MAX);
        // What is left of it is the next one's.
        let slot = first.slot();
        write(&shelf, first, 400);
        assert_eq!(claim(&shelf, unknown).slot(), slot);
    }

    #[test]
    fn a_group_stays_together_until_it_ends() {
        let shelf = Shelf::new(0, 3, 80);
        let of_group = |group| PutHints { length: Some(100), group: Some(group) };
        let one = claim(&shelf, of_group(1));
        let other = claim(&shelf, of_group(2));
        assert_ne!(one.slot(), other.slot());
        assert_eq!(claim(&shelf, of_group(1)).slot(), one.slot());
        let (slot, others) = (one.slot(), other.slot());
        write(&shelf, one, 100);
        write(&shelf, other, 100);
        assert_eq!(claim(&shelf, of_group(2)).slot(), others);
        let third = claim(&shelf, of_group(3));
        assert!(third.slot() != slot && third.slot() != others);
        drop(third);
        shelf.end_group(1);
        assert_eq!(claim(&shelf, PutHints::default()).slot(), slot);
    }

    #[test]
    fn a_group_has_the_set_that_takes_the_place_of_a_spent_one() {
        let shelf = Shelf::new(0, 1, 80);
        shelf.opened(0, SetId(100), WHOLE);
        shelf.written(SetId(100), 3);
        let _claim = claim(&shelf, PutHints { length: Some(100), group: Some(7) });
        assert!(shelf.has_group(7));
    }

    #[test]
    fn where_no_set_fits_the_fullest_gets_the_head() {
        let shelf = Shelf::new(0, 2, 80);
        let (first, second) = (claim(&shelf, of(900)), claim(&shelf, of(800)));
        let third = claim(&shelf, of(500));
        assert_eq!((third.slot(), third.limit()), (first.slot(), 100));
        // Where everything is claimed there is still a place.
        let fourth = claim(&shelf, of(500));
        assert_eq!((fourth.slot(), fourth.limit()), (second.slot(), 200));
        assert!(claim(&shelf, of(500)).limit() > 0);
    }

    #[test]
    fn what_is_small_goes_where_drives_are() {
        let shelf = Shelf::new(0, 4, 80);
        let (first, second) = (claim(&shelf, of(700)), claim(&shelf, of(600)));
        let (one, other) = (first.slot(), second.slot());
        write(&shelf, second, 600);
        write(&shelf, first, 700);
        assert_eq!(shelf.claim_here(20).slot(), one);
        // What is left there is somebody else's now.
        let rest = claim(&shelf, of(295));
        assert_eq!((rest.slot(), shelf.claim_here(20).slot()), (one, other));
        drop(rest);
        let grouped = shelf.claim(PutHints { length: Some(10), group: Some(7) });
        shelf.written(shelf.slots[grouped.slot()].set.get().unwrap(), 250);
        assert_ne!(shelf.claim_here(20).slot(), grouped.slot());
    }

    #[test]
    fn the_end_of_a_set_is_written_before_another_one_is_begun() {
        let shelf = Shelf::new(0, 4, 80);
        let first = claim(&shelf, of(950));
        let second = claim(&shelf, of(100));
        assert_eq!((second.slot(), second.limit()), (first.slot(), 50));
        let rest = claim(&shelf, of(50));
        assert_ne!(rest.slot(), first.slot());
        // The end of a set that drives have left is for what fits there.
        let large = claim(&shelf, of(700));
        assert_eq!((large.slot(), large.limit()), (rest.slot(), 700));
    }

    #[test]
    fn claims_end_with_their_set_and_spent_sets_are_left() {
        let shelf = Shelf::new(0, 2, 80);
        let mut first = claim(&shelf, of(900));
        assert!(first.limit() >= 900);
        shelf.closed(SetId(100));
        assert_eq!(first.limit(), 0);
        first.spend(10);
        drop(first);
        let second = claim(&shelf, of(995));
        write(&shelf, second, 995);
        // Five are left: less than is worth a claim.
        let third = shelf.claim(of(50));
        assert!(shelf.is_spent(third.slot()));
        shelf.closed(SetId(100));
        shelf.opened(0, SetId(101), WHOLE);
        assert_eq!((third.limit(), shelf.is_spent(0)), (50, false));
    }

    #[test]
    fn what_is_left_of_a_set_does_not_say_how_long_sets_are() {
        let shelf = Shelf::new(0, 3, 80);
        shelf.reopened(0, SetId(100), 100);
        let first = shelf.claim(of(500));
        let second = shelf.claim(of(300));
        assert_eq!((first.slot(), first.limit()), (1, 500));
        assert_eq!((second.slot(), second.limit()), (1, 300));
    }
}
