//! Choice of a writer's set among a group's open ones: data that dies together should lie in as few sets as can be.
//!
//! Cleaning costs what lives beside what died. An object that lies in one set leaves one large hole when it is deleted;
//! one that was written in turns among those of eleven other writers leaves many small ones. So several sets are open
//! for clients, and a writer reserves room for all of its object before it writes: in the set that it fills best, or,
//! if its length is not known, all that one set has left. (`docs/decisions/0028-open-sets.md` has what that saves.)
//!
//! **Knows nothing of** drives, tasks and time: it is asked and told.
//!
//! # Invariants
//! - AS-SHELF-1: reservations are a plan and nothing relies on them: what does not fit where room was reserved goes
//!   elsewhere.

use crate::append::open_set::CUT_MIN;
use crate::types::SetId;

/// Open sets with room that nobody reserved, from which on no other is opened to fit an object better.
const PARTIAL_MAX: usize = 4;

/// The share of a set at its end that is written at once, with whatever comes.
const END: u64 = 12;

/// The open sets of a group.
pub(crate) struct Slots {
    slots: Vec<Slot>,
    /// Data of a set that is filled from its start, as the last one that was opened.
    whole: u64,
    /// Less room than this is not worth a reservation.
    least: u64,
    reservations: u64,
    /// Of them, those that are there.
    alive: usize,
    /// The slot of the set that was written last.
    here: usize,
}

/// An open set, or none yet.
#[derive(Default)]
struct Slot {
    set: Option<SetId>,
    /// Data that it has room for.
    free: u64,
    /// Of it, what is reserved.
    reserved: u64,
    /// Reservations in an earlier generation say nothing.
    generation: u64,
    /// The set is full as far as reservations go: the next write opens another one.
    spent: bool,
    /// Objects that belong together are written there.
    group: Option<u64>,
    /// When it was reserved last, in reservations.
    used: u64,
}

/// Hints about an object before it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutHints {
    /// Its bytes.
    pub length: Option<u64>,
    /// Objects with the same number will be deleted together, such as parts of one upload.
    pub group: Option<u64>,
}

/// Room in an open set, until it is [given back](Slots::give_back).
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) slot: usize,
    generation: u64,
    left: u64,
    /// All that the set has left, however much that turns out to be.
    to_end: bool,
}

impl Slot {
    fn unreserved(&self, whole: u64) -> u64 {
        let free = if self.set.is_some() && !self.spent { self.free } else { whole };
        free.saturating_sub(self.reserved)
    }

    /// Nothing is open there, or what is open is spent; and nobody is about to open another.
    fn is_fresh(&self, least: u64) -> bool {
        let open = self.set.is_some() && !self.spent;
        self.reserved == 0 && (!open || self.free < least)
    }
}

impl Slots {
    /// So many slots, for segments with that much data.
    pub(crate) fn new(slots: usize, segment: u32) -> Self {
        Self {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            whole: u64::MAX,
            least: u64::from(segment / CUT_MIN),
            reservations: 0,
            alive: 0,
            here: 0,
        }
    }

    /// Number of writers with reservations.
    pub(crate) fn writers(&self) -> usize {
        self.alive
    }

    /// Bytes that are reserved.
    pub(crate) fn reserved(&self) -> u64 {
        self.slots.iter().map(|slot| slot.reserved).fold(0, u64::saturating_add)
    }

    /// A slot without a set.
    pub(crate) fn free_slot(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.set.is_none())
    }

    pub(crate) fn has_group(&self, group: u64) -> bool {
        self.slots.iter().any(|slot| slot.group == Some(group))
    }

    fn least_by(&self, which: impl Fn(&Slot) -> bool, key: impl Fn(&Slot) -> u64) -> Option<usize> {
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| which(slot));
        slots.min_by_key(|(at, slot)| (key(slot), *at)).map(|(at, _)| at)
    }

    /// Reserves room for the rest of an object.
    pub(crate) fn reserve(&mut self, hints: PutHints) -> Reservation {
        let (slot, length) = match hints {
            PutHints { length: Some(length), group: None } => self.fitting(length),
            PutHints { group, .. } => (self.alone(group), None),
        };
        self.reserve_in(slot, length, hints.group)
    }

    /// A place for something small: where drives are, unless that is a group's or reserved; for tombstones, which have
    /// no data, even then. It reserves no room.
    pub(crate) fn reserve_here(&mut self, length: u64) -> Reservation {
        let free = |slot: &Slot| slot.group.is_none() && slot.unreserved(self.whole) >= self.least;
        let taken = |slot: &Slot| !slot.is_fresh(self.least) && (length == 0 || free(slot));
        let slot = if self.slots.get(self.here).is_some_and(taken) { self.here } else { self.fitting(length).0 };
        let group = self.slots.get(slot).and_then(|slot| slot.group);
        self.reserve_in(slot, Some(0), group)
    }

    fn reserve_in(&mut self, slot: usize, length: Option<u64>, group: Option<u64>) -> Reservation {
        let (whole, least) = (self.whole, self.least);
        self.reservations += 1;
        self.alive += 1;
        let chosen = &mut self.slots[slot];
        if chosen.is_fresh(least) && chosen.set.is_some() {
            chosen.spent = true;
        }
        let left = length.unwrap_or_else(|| chosen.unreserved(whole));
        chosen.reserved = chosen.reserved.saturating_add(left);
        chosen.group = group;
        chosen.used = self.reservations;
        Reservation { slot, generation: chosen.generation, left, to_end: length.is_none() }
    }

    /// Slot for an object of that length, and the part of it that goes there.
    fn fitting(&self, length: u64) -> (usize, Option<u64>) {
        if self.slots.len() == 1 {
            // There is nothing to choose, and nothing to be gained by cutting objects where others begin.
            return (0, None);
        }
        let (whole, least) = (self.whole, self.least);
        let used = |slot: &Slot| !slot.is_fresh(least);
        let fits = |slot: &Slot| used(slot) && slot.unreserved(whole) >= length.max(least);
        if let Some(slot) = self.least_by(fits, |slot| slot.unreserved(whole)) {
            return (slot, Some(length));
        }
        let roomy = |slot: &Slot| used(slot) && slot.unreserved(whole) >= least;
        // The end of the set that is being written gets the head of it: to come back later would be a seek of all
        // drives.
        if let Some(slot) = self.least_by(|slot| slot.used == self.reservations, |_| 0)
            && roomy(&self.slots[slot])
            && whole != u64::MAX
            && self.slots[slot].unreserved(whole) < whole / END
        {
            return (slot, Some(self.slots[slot].unreserved(whole)));
        }
        let partial = self.slots.iter().filter(|slot| roomy(slot)).count();
        if (partial < PARTIAL_MAX || length >= whole)
            && let Some(slot) = self.least_by(|slot| slot.is_fresh(least), |_| 0)
        {
            return (slot, if length >= whole { None } else { Some(length) });
        }
        // The fullest gets the head of it; where everything is reserved, it goes to the emptiest, as far as that has
        // room.
        match self.least_by(roomy, |slot| slot.unreserved(whole)) {
            Some(slot) => (slot, Some(length.min(self.slots[slot].unreserved(whole)))),
            None => (self.least_by(|_| true, |slot| u64::MAX - slot.free).unwrap_or(0), None),
        }
    }

    /// A set that nobody else writes to: that of the group, one that is part full, a new one, one of another group.
    fn alone(&self, group: Option<u64>) -> usize {
        let idle = |slot: &Slot| !slot.is_fresh(self.least) && slot.reserved == 0;
        let of_group = |slot: &Slot| group.is_some() && slot.group == group && !slot.is_fresh(self.least);
        let found = self
            .least_by(of_group, |slot| slot.reserved)
            .or_else(|| self.least_by(|slot| idle(slot) && slot.group.is_none(), |slot| slot.free))
            .or_else(|| self.least_by(|slot| slot.is_fresh(self.least), |_| 0))
            .or_else(|| self.least_by(idle, |slot| slot.used))
            .or_else(|| self.least_by(|_| true, |slot| slot.used));
        found.unwrap_or(0)
    }

    /// Nothing more comes of a group.
    pub(crate) fn end_group(&mut self, group: u64) {
        let slots = self.slots.iter_mut().filter(|slot| slot.group == Some(group));
        slots.for_each(|slot| slot.group = None);
    }

    /// True if a slot's set is to be closed before the next write there.
    pub(crate) fn is_spent(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(|slot| slot.spent)
    }

    /// A slot has a set with room for so much data.
    pub(crate) fn opened(&mut self, slot: usize, set: SetId, free: u64) {
        self.reopened(slot, set, free);
        self.whole = free;
    }

    /// The same, where the set holds something already.
    pub(crate) fn reopened(&mut self, slot: usize, set: SetId, free: u64) {
        let Some(slot) = self.slots.get_mut(slot) else { return };
        slot.set = Some(set);
        slot.free = free;
        slot.spent = false;
    }

    /// A set has room for so much data now.
    pub(crate) fn written(&mut self, set: SetId, free: u64) {
        if let Some(at) = self.slots.iter().position(|slot| slot.set == Some(set)) {
            self.slots[at].free = free;
            self.here = at;
        }
    }

    /// A set is closed.
    pub(crate) fn closed(&mut self, set: SetId) {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.set == Some(set)) else { return };
        slot.set = None;
        // If it was spent, reservations and their group are of the set that comes next.
        if !std::mem::take(&mut slot.spent) {
            slot.group = None;
            slot.reserved = 0;
            slot.generation += 1;
        }
    }

    /// Slots whose sets have room, and how much.
    pub(crate) fn roomy(&self) -> impl Iterator<Item = (usize, u64)> {
        let open = self.slots.iter().enumerate().filter(|(_, slot)| slot.set.is_some());
        open.map(|(at, slot)| (at, slot.free))
    }

    /// Bytes to write at most before another reservation. 0: the reservation is spent.
    pub(crate) fn limit(&self, reservation: &Reservation) -> u64 {
        match self.slots.get(reservation.slot).filter(|slot| slot.generation == reservation.generation) {
            None => 0,
            Some(_) if reservation.to_end => u64::MAX,
            Some(_) => reservation.left,
        }
    }

    /// So much of a reservation was written.
    pub(crate) fn spend(&mut self, reservation: &mut Reservation, bytes: u64) {
        let spent = bytes.min(reservation.left);
        reservation.left -= spent;
        self.free_up(reservation, spent);
    }

    /// Nobody needs what is left of a reservation.
    pub(crate) fn give_back(&mut self, reservation: Reservation) {
        self.alive -= 1;
        self.free_up(&reservation, reservation.left);
    }

    fn free_up(&mut self, reservation: &Reservation, bytes: u64) {
        if let Some(slot) =
            self.slots.get_mut(reservation.slot).filter(|slot| slot.generation == reservation.generation)
        {
            slot.reserved = slot.reserved.saturating_sub(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: u64 = 1000;

    /// Reserves, and opens a set where there is none, as a write does.
    fn reserve(slots: &mut Slots, hints: PutHints) -> Reservation {
        let reservation = slots.reserve(hints);
        if let Some(spent) = slots.slots[reservation.slot].set.filter(|_| slots.is_spent(reservation.slot)) {
            slots.closed(spent);
        }
        if slots.slots[reservation.slot].set.is_none() {
            slots.opened(reservation.slot, SetId(100 + reservation.slot as u32), WHOLE);
        }
        reservation
    }

    /// Slot and bytes of a writer that goes away again.
    fn place(slots: &mut Slots, hints: PutHints) -> (usize, u64) {
        let reservation = reserve(slots, hints);
        let found = (reservation.slot, slots.limit(&reservation));
        slots.give_back(reservation);
        found
    }

    /// The slot where something small goes.
    fn here(slots: &mut Slots, length: u64) -> usize {
        let reservation = slots.reserve_here(length);
        let slot = reservation.slot;
        slots.give_back(reservation);
        slot
    }

    fn of(length: u64) -> PutHints {
        PutHints { length: Some(length), group: None }
    }

    fn write(slots: &mut Slots, mut reservation: Reservation, bytes: u64) {
        let slot = &slots.slots[reservation.slot];
        let (set, free) = (slot.set.unwrap(), slot.free - bytes);
        slots.spend(&mut reservation, bytes);
        slots.written(set, free);
        slots.give_back(reservation);
    }

    #[test]
    fn an_object_goes_where_it_leaves_the_least() {
        let mut slots = Slots::new(8, 80);
        let first = reserve(&mut slots, of(700));
        let second = reserve(&mut slots, of(500));
        assert_ne!(first.slot, second.slot);
        // 300 and 500 are left.
        assert_eq!(place(&mut slots, of(300)).0, first.slot);
        assert_eq!(place(&mut slots, of(400)).0, second.slot);
        write(&mut slots, first, 700);
        write(&mut slots, second, 500);
        assert_eq!(slots.roomy().count(), 2);
    }

    #[test]
    fn an_object_without_a_length_has_a_set_of_its_own() {
        let mut slots = Slots::new(3, 80);
        let unknown = PutHints::default();
        let first = reserve(&mut slots, unknown);
        let second = reserve(&mut slots, unknown);
        assert_ne!(first.slot, second.slot);
        assert_eq!(slots.limit(&first), u64::MAX);
        // The next writer gets the rest of it.
        let slot = first.slot;
        write(&mut slots, first, 400);
        assert_eq!(place(&mut slots, unknown).0, slot);
    }

    #[test]
    fn a_group_stays_together_until_it_ends() {
        let mut slots = Slots::new(3, 80);
        let of_group = |group| PutHints { length: Some(100), group: Some(group) };
        let one = reserve(&mut slots, of_group(1));
        let other = reserve(&mut slots, of_group(2));
        assert_ne!(one.slot, other.slot);
        assert_eq!(place(&mut slots, of_group(1)).0, one.slot);
        let (slot, others) = (one.slot, other.slot);
        write(&mut slots, one, 100);
        write(&mut slots, other, 100);
        assert_eq!(place(&mut slots, of_group(2)).0, others);
        let (third, _) = place(&mut slots, of_group(3));
        assert!(third != slot && third != others);
        slots.end_group(1);
        assert_eq!(place(&mut slots, PutHints::default()).0, slot);
    }

    #[test]
    fn a_group_has_the_set_that_takes_the_place_of_a_spent_one() {
        let mut slots = Slots::new(1, 80);
        slots.opened(0, SetId(100), WHOLE);
        slots.written(SetId(100), 3);
        let _reservation = reserve(&mut slots, PutHints { length: Some(100), group: Some(7) });
        assert!(slots.has_group(7));
    }

    /// AS-SHELF-1.
    #[test]
    fn where_no_set_fits_the_fullest_gets_the_head() {
        let mut slots = Slots::new(2, 80);
        let (first, second) = (reserve(&mut slots, of(900)), reserve(&mut slots, of(800)));
        let third = reserve(&mut slots, of(500));
        assert_eq!((third.slot, slots.limit(&third)), (first.slot, 100));
        // With everything reserved there is still a place.
        let fourth = reserve(&mut slots, of(500));
        assert_eq!((fourth.slot, slots.limit(&fourth)), (second.slot, 200));
        assert!(place(&mut slots, of(500)).1 > 0);
    }

    #[test]
    fn what_is_small_goes_where_drives_are() {
        let mut slots = Slots::new(4, 80);
        let (first, second) = (reserve(&mut slots, of(700)), reserve(&mut slots, of(600)));
        let (one, other) = (first.slot, second.slot);
        write(&mut slots, second, 600);
        write(&mut slots, first, 700);
        assert_eq!(here(&mut slots, 20), one);
        // Another writer gets the rest of it now.
        let rest = reserve(&mut slots, of(295));
        assert_eq!((rest.slot, here(&mut slots, 20)), (one, other));
        slots.give_back(rest);
        let grouped = slots.reserve(PutHints { length: Some(10), group: Some(7) });
        slots.written(slots.slots[grouped.slot].set.unwrap(), 250);
        assert_ne!(here(&mut slots, 20), grouped.slot);
    }

    #[test]
    fn the_end_of_a_set_is_written_before_another_one_is_begun() {
        let mut slots = Slots::new(4, 80);
        let first = reserve(&mut slots, of(950));
        let second = reserve(&mut slots, of(100));
        assert_eq!((second.slot, slots.limit(&second)), (first.slot, 50));
        let rest = reserve(&mut slots, of(50));
        assert_ne!(rest.slot, first.slot);
        // The end of a set that drives have left is for what fits there.
        let large = reserve(&mut slots, of(700));
        assert_eq!((large.slot, slots.limit(&large)), (rest.slot, 700));
    }

    #[test]
    fn reservations_end_with_their_set_and_spent_sets_are_left() {
        let mut slots = Slots::new(2, 80);
        let mut first = reserve(&mut slots, of(900));
        assert!(slots.limit(&first) >= 900);
        slots.closed(SetId(100));
        assert_eq!(slots.limit(&first), 0);
        slots.spend(&mut first, 10);
        slots.give_back(first);
        let second = reserve(&mut slots, of(995));
        write(&mut slots, second, 995);
        // Five are left: less than is worth a reservation.
        let third = slots.reserve(of(50));
        assert!(slots.is_spent(third.slot));
        slots.closed(SetId(100));
        slots.opened(0, SetId(101), WHOLE);
        assert_eq!((slots.limit(&third), slots.is_spent(0)), (50, false));
    }

    #[test]
    fn what_is_left_of_a_set_does_not_say_how_long_sets_are() {
        let mut slots = Slots::new(3, 80);
        slots.reopened(0, SetId(100), 100);
        let first = slots.reserve(of(500));
        let second = slots.reserve(of(300));
        assert_eq!((first.slot, slots.limit(&first)), (1, 500));
        assert_eq!((second.slot, slots.limit(&second)), (1, 300));
    }
}
