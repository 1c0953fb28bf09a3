//! The plan of an array's groups: who writes where, and who is next. It is asked and told, and decides at once.
//!
//! An array may have the drives of several sets. One set at a time would use the bandwidth of its own drives alone: so
//! there are as many groups as sets find drives of their own, each with drives, open sets ([`Slots`]) and writers
//! ([`Queue`]). A new writer goes to the group with the fewest writers. The items on their way to the drives are
//! bounded for all ([`Flow`]).
//!
//! **Knows nothing of** tasks and time, nor of what is in a set.
//!
//! # Invariants
//! - AS-LANE-1: groups are a plan, as reservations are (AS-SHELF-1): sets of two may share drives, and then wait for
//!   each other (AS-WINDOW-2).
//! - AS-LANE-2: while a drive of a group is avoided, and there are groups of which none is, nobody begins an item
//!   there, whatever it has reserved.
//! - AS-LANE-3: nor is a set opened on a drive that is avoided, as long as others can be won: sets are counted, kept
//!   available, cleaned and left for cleaners without those that have such a drive ([`Engine::shunned`]).
//!
//! [`Engine::shunned`]: crate::engine::Engine

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::flow::Flow;
use super::queue::{Queue, SeatId};
use super::slots::{PutHints, Reservation, Slots};
use crate::types::{DriveId, DriveSet, SetId};

/// Sets of an array for each one that is open for clients: those that are part empty must be few.
const SETS_A_SLOT: usize = 32;

/// Sets that a group has open at most. (A recovery walks all of them.)
const SLOTS_MAX: usize = 12;

/// Sets that are open for clients at most.
const STREAMS_MAX: usize = u8::MAX as usize;

/// Zones of a drive that must be left beside those of clients' streams: for a cleaner, for what is old, for snapshots, for a rebuild, for both
/// superblock zones (the one that was left stays part full), and for a set that ends while the next one is begun.
const ZONES_LEFT: u32 = 7;

/// Request of a client's item.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    /// A segment of an object, in its writer's turn, where room is reserved for the rest of the object.
    Turn(PutHints),
    /// A piece of an object of that length that lost its place. It had its turn.
    Again(u64),
    /// So many bytes of something small: where drives are.
    Small(u64),
}

/// Some drives, the sets that are open on them, and who writes there.
pub(crate) struct Group {
    pub(crate) slots: Slots,
    pub(crate) queue: Queue,
    /// None before that is settled, or where no set can be opened on drives of its own.
    pub(crate) drives: DriveSet,
}

/// Somebody who writes for clients.
#[derive(Default)]
struct Seat {
    /// Room for what comes next, and the group where that is.
    reservation: Option<(usize, Reservation)>,
    /// The group that it has a turn of, or waits for one.
    turn: Option<usize>,
    /// The group that it writes small objects in.
    small: Option<usize>,
}

pub(crate) struct Plan {
    pub(crate) groups: Vec<Group>,
    /// Slots of each; they are numbered through.
    slots: usize,
    seats: BTreeMap<SeatId, Seat>,
    seated: SeatId,
    pub(crate) flow: Flow,
    /// Drives that new data keeps away from.
    pub(super) avoided: DriveSet,
    /// Somebody who was asked to wait may go on now.
    pub(crate) moved: bool,
}

/// Number of groups of an array, and of open sets in each: `wanted` of all of them, or as many as its sets allow; and
/// as its drives do, which have at most `zones` open.
pub(crate) fn shape(
    drives: usize,
    width: usize,
    wanted: Option<usize>,
    sets: usize,
    zones: Option<u32>,
) -> (usize, usize) {
    let side_by_side = (drives / width).max(1);
    let slots = wanted.unwrap_or((sets / SETS_A_SLOT).min(SLOTS_MAX * side_by_side)).min(STREAMS_MAX);
    // Sets of all groups may have zones of one drive.
    let slots = slots.min(zones.map_or(usize::MAX, |zones| zones.saturating_sub(ZONES_LEFT) as usize)).max(1);
    let groups = side_by_side.min(slots);
    (groups, slots / groups)
}

/// Further zones of a drive that may be open beside those of `slots` and of other streams.
pub(crate) fn zones_beside(slots: usize, zones: Option<u32>) -> usize {
    zones.map_or(usize::MAX, |zones| (zones.saturating_sub(ZONES_LEFT) as usize).saturating_sub(slots))
}

impl Plan {
    /// `groups` with `slots` open sets each, for segments with that much data.
    pub(crate) fn new(groups: usize, slots: usize, segment: u32, turn_segments: u32, flow: Flow) -> Self {
        let group = |_| Group {
            slots: Slots::new(slots, segment),
            queue: Queue::new(turn_segments, slots > 1),
            drives: DriveSet::default(),
        };
        Self {
            groups: (0..groups).map(group).collect(),
            slots,
            seats: BTreeMap::new(),
            seated: 0,
            flow,
            avoided: DriveSet::EMPTY,
            moved: false,
        }
    }

    /// Slots of all groups.
    pub(crate) fn slots(&self) -> usize {
        self.groups.len() * self.slots
    }

    pub(crate) fn group_of(&self, slot: usize) -> usize {
        slot / self.slots
    }

    /// The group of a slot, and which of its slots that is.
    pub(crate) fn slots_of(&mut self, slot: usize) -> (&mut Slots, usize) {
        let (group, own) = (slot / self.slots, slot % self.slots);
        (&mut self.groups[group].slots, own)
    }

    /// A slot of a group without a set.
    pub(crate) fn free_slot(&self, group: usize) -> Option<usize> {
        Some(group * self.slots + self.groups.get(group)?.slots.free_slot()?)
    }

    /// A seat for somebody who writes; it ends with [`Plan::leave`].
    pub(crate) fn sit(&mut self) -> SeatId {
        self.seated += 1;
        self.seats.insert(self.seated, Seat::default());
        self.seated
    }

    /// True if the seat is taken.
    pub(crate) fn is_seated(&self, seat: SeatId) -> bool {
        self.seats.contains_key(&seat)
    }

    pub(crate) fn leave(&mut self, seat: SeatId) {
        self.rest(seat);
        self.give_back(seat);
        if let Some(group) = self.seats.remove(&seat).and_then(|seat| seat.small) {
            self.groups[group].queue.leave(seat);
        }
    }

    /// Gives the turn back, or the place among those who wait for one.
    pub(crate) fn rest(&mut self, seat: SeatId) {
        if let Some(group) = self.seats.get_mut(&seat).and_then(|seat| seat.turn.take()) {
            self.groups[group].queue.leave(seat);
            self.moved = true;
        }
    }

    fn give_back(&mut self, seat: SeatId) {
        if let Some((group, reservation)) = self.seats.get_mut(&seat).and_then(|seat| seat.reservation.take()) {
            self.groups[group].slots.give_back(reservation);
        }
    }

    /// Writers in a group, writing or waiting, and their reserved bytes.
    fn busy(&self, group: usize) -> (usize, u64) {
        let Group { slots, queue, .. } = &self.groups[group];
        (slots.writers() + queue.small(), slots.reserved())
    }

    /// From now on new data keeps away from these drives, as far as it can.
    pub(crate) fn avoid(&mut self, drives: DriveSet) {
        self.moved |= self.avoided != drives;
        self.avoided = drives;
    }

    fn has_drives(&self, group: usize) -> bool {
        self.groups.get(group).is_some_and(|group| group.drives != DriveSet::EMPTY)
    }

    /// True if it has drives of its own, and none of them is avoided.
    fn is_well(&self, group: usize) -> bool {
        self.has_drives(group) && !self.groups[group].drives.meets(&self.avoided)
    }

    /// True if nobody has to keep away from a group. (AS-LANE-2)
    pub(crate) fn is_able(&self, group: usize) -> bool {
        self.avoided == DriveSet::EMPTY || self.is_well(group) || self.is_cornered()
    }

    /// True if drives are avoided, and no group is without them.
    pub(crate) fn is_cornered(&self) -> bool {
        self.avoided != DriveSet::EMPTY && !(0..self.groups.len()).any(|group| self.is_well(group))
    }

    /// True if a group is well while drives are avoided: then a set that it has open on one of those, since drives were
    /// grouped otherwise, is done without. (AS-LANE-2)
    pub(crate) fn keeps_away(&self, group: usize) -> bool {
        self.avoided != DriveSet::EMPTY && self.is_well(group)
    }

    /// The first slot of a group that clients keep away from for that drive.
    pub(crate) fn slot_beside(&self, drive: DriveId) -> Option<usize> {
        let has = |group: &usize| self.groups[*group].drives.has(drive) && !self.is_able(*group);
        (0..self.groups.len()).find(has).map(|group| group * self.slots)
    }

    /// The group with the fewest writers, of those that have drives: another one would hold up two of those.
    pub(crate) fn least_busy(&self) -> usize {
        let groups = 0..self.groups.len();
        let rank = |group: usize| (!self.is_able(group), !self.has_drives(group), self.busy(group));
        groups.min_by_key(|&group| rank(group)).unwrap_or(0)
    }

    /// The slot for the next item of a seat, and how much of it at most; `None`: it is others' turn.
    pub(crate) fn next(&mut self, seat: SeatId, want: Want) -> Option<(usize, u64)> {
        let (slot, limit) = match want {
            Want::Turn(hints) => self.in_turn(seat, hints)?,
            Want::Again(length) => {
                let hints = PutHints { length: Some(length), group: None };
                self.reserve(seat, self.least_busy(), |slots| slots.reserve(hints))
            }
            Want::Small(length) => {
                let group = self.seats.get(&seat).and_then(|seat| seat.small).filter(|&group| self.is_able(group));
                let group = group.unwrap_or_else(|| self.least_busy());
                self.reserve(seat, group, |slots| slots.reserve_here(length))
            }
        };
        // A reservation cuts what has a turn: elsewhere whoever comes next would begin there.
        Some((slot, if matches!(want, Want::Turn(_)) { limit.max(1) } else { u64::MAX }))
    }

    /// Reserves room in a group, in place of what was reserved before: its room may be what is needed. The slot, and
    /// how much.
    fn reserve(
        &mut self,
        seat: SeatId,
        group: usize,
        reservation: impl FnOnce(&mut Slots) -> Reservation,
    ) -> (usize, u64) {
        self.give_back(seat);
        let slots = &mut self.groups[group].slots;
        let reservation = reservation(slots);
        let found = (group * self.slots + reservation.slot, slots.limit(&reservation));
        match self.seats.get_mut(&seat) {
            Some(seat) => seat.reservation = Some((group, reservation)),
            None => slots.give_back(reservation),
        }
        found
    }

    fn in_turn(&mut self, seat: SeatId, hints: PutHints) -> Option<(usize, u64)> {
        if self.seats.get(&seat).and_then(|seat| seat.turn).is_some_and(|group| !self.is_able(group)) {
            self.rest(seat);
        }
        let turn = self.seats.get(&seat).and_then(|seat| seat.turn);
        if turn.is_some_and(|group| self.groups[group].queue.waits(seat)) {
            return None;
        }
        let (slot, limit) = match self.reserved(seat) {
            Some(reserved) => reserved,
            None => {
                self.give_back(seat);
                let group = self.group_for(hints, turn);
                self.reserve(seat, group, |slots| slots.reserve(hints))
            }
        };
        let group = self.group_of(slot);
        if turn.is_some_and(|turn| turn != group) {
            self.rest(seat);
        }
        self.seats.get_mut(&seat)?.turn = Some(group);
        let own = slot % self.slots;
        self.groups[group].queue.turn(seat, own).then_some((slot, limit))
    }

    /// Reservation of a seat, if it says anything yet.
    fn reserved(&self, seat: SeatId) -> Option<(usize, u64)> {
        let (group, reservation) = self.seats.get(&seat)?.reservation.as_ref()?;
        let limit = self.groups[*group].slots.limit(reservation);
        (limit > 0 && self.is_able(*group)).then_some((group * self.slots + reservation.slot, limit))
    }

    /// The group for the rest of an object: the one that has its group of objects, or that its writer has a turn of
    /// unless another one has fewer writers, or the one with the fewest.
    fn group_for(&self, hints: PutHints, turn: Option<usize>) -> usize {
        let has_group = |group: &usize| hints.group.is_some_and(|number| self.groups[*group].slots.has_group(number));
        let least = self.least_busy();
        let stays = turn.filter(|&group| self.busy(group).0 <= self.busy(least).0);
        let mut able = (0..self.groups.len()).filter(|&group| self.is_able(group));
        able.find(has_group).or(stays).unwrap_or(least)
    }

    /// True if small objects may be written between the segments of others; their seat is in the group with the fewest
    /// writers.
    pub(crate) fn small_turn(&mut self, seat: SeatId) -> bool {
        let Some(before) = self.seats.get(&seat).map(|seat| seat.small) else { return false };
        let group = before.filter(|&group| self.is_able(group)).unwrap_or_else(|| self.least_busy());
        if let Some(before) = before.filter(|&before| before != group) {
            self.groups[before].queue.leave(seat);
        }
        if let Some(taken) = self.seats.get_mut(&seat) {
            taken.small = Some(group);
        }
        self.groups[group].queue.small_turn(seat)
    }

    /// So much of an item went to that slot: the whole, or what still fitted there.
    pub(crate) fn launched(&mut self, seat: SeatId, slot: usize, bytes: u64, whole: bool) {
        self.moved = true;
        let Some(taken) = self.seats.get_mut(&seat) else { return };
        if let Some((group, reservation)) = &mut taken.reservation {
            self.groups[*group].slots.spend(reservation, bytes);
        }
        taken.turn = taken.turn.filter(|&group| self.groups[group].queue.spend(seat, slot % self.slots));
        if !whole {
            self.give_back(seat);
        }
    }

    /// A set has room for so much data now.
    pub(crate) fn written(&mut self, set: SetId, free: u64) {
        self.groups.iter_mut().for_each(|group| group.slots.written(set, free));
    }

    /// A set is closed.
    pub(crate) fn closed(&mut self, set: SetId) {
        self.groups.iter_mut().for_each(|group| group.slots.closed(set));
    }

    /// Slots whose sets have room, the emptiest first.
    pub(crate) fn roomy(&self) -> Vec<usize> {
        let of = |(at, group): (usize, &'_ Group)| -> Vec<(usize, u64)> {
            group.slots.roomy().map(|(slot, free)| (at * self.slots + slot, free)).collect()
        };
        let mut slots: Vec<(usize, u64)> = self.groups.iter().enumerate().flat_map(of).collect();
        slots.sort_by_key(|&(_, free)| Reverse(free));
        slots.into_iter().map(|(slot, _)| slot).collect()
    }

    /// Nothing more comes of a group of objects.
    pub(crate) fn end_group(&mut self, group: u64) {
        self.groups.iter_mut().for_each(|own| own.slots.end_group(group));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(groups: usize, slots: usize) -> Plan {
        Plan::new(groups, slots, 80, 12, Flow::new(groups))
    }

    fn of(length: u64) -> Want {
        Want::Turn(PutHints { length: Some(length), group: None })
    }

    fn of_group(group: u64) -> Want {
        Want::Turn(PutHints { length: Some(100), group: Some(group) })
    }

    /// A seat, and the group that it asks in.
    fn sit(plan: &mut Plan, want: Want) -> (SeatId, usize) {
        let seat = plan.sit();
        (seat, ask(plan, seat, want))
    }

    fn ask(plan: &mut Plan, seat: SeatId, want: Want) -> usize {
        plan.next(seat, want);
        plan.seats[&seat].turn.unwrap()
    }

    #[test]
    fn groups_and_slots_follow_the_array_and_its_drives() {
        assert_eq!(shape(6, 6, None, 20, Some(128)), (1, 1));
        assert_eq!(shape(6, 6, None, 306, Some(128)), (1, 9));
        assert_eq!(shape(6, 6, None, 30_000, None), (1, 12));
        assert_eq!(shape(6, 6, Some(4), 30_000, None), (1, 4));
        assert_eq!(shape(6, 6, None, 30_000, Some(14)), (1, 7));
        assert_eq!(shape(6, 6, Some(8), 30_000, Some(3)), (1, 1));
        assert_eq!(shape(60, 12, None, 375_000, Some(128)), (5, 12));
        assert_eq!(shape(60, 12, None, 375_000, Some(14)), (5, 1));
        assert_eq!(shape(60, 12, None, 100, None), (3, 1));
        assert_eq!(shape(255, 2, None, usize::MAX, None), (127, 2));
    }

    #[test]
    fn writers_go_to_the_group_with_the_fewest() {
        let mut plan = plan(2, 3);
        let (_, first) = sit(&mut plan, of(500));
        let (two, second) = sit(&mut plan, of(100));
        assert_eq!((first, second), (0, 1));
        // As many write in each: less is to come in the second.
        let (three, third) = sit(&mut plan, of(100));
        assert_eq!(third, 1);
        plan.leave(two);
        plan.leave(three);
        assert_eq!(sit(&mut plan, of(1)).1, 1);
    }

    /// A writer with a turn stays if no more write there than elsewhere.
    #[test]
    fn a_writer_whose_reservation_ends_stays_unless_others_have_fewer() {
        let mut plan = plan(2, 3);
        let (one, group) = sit(&mut plan, of(100));
        assert_eq!(group, 0);
        assert!(plan.next(one, of(100)).is_some());
        plan.launched(one, 0, 50, false);
        assert_eq!(ask(&mut plan, one, of(50)), 0);
        let (_, other) = sit(&mut plan, of(10));
        assert_eq!(other, 1);
        // Two more in its own group.
        let group = plan.groups[0].slots.reserve(PutHints { length: Some(1), group: None });
        let another = plan.groups[0].slots.reserve(PutHints { length: Some(1), group: None });
        plan.launched(one, 0, 10, false);
        assert_eq!(ask(&mut plan, one, of(40)), 1);
        plan.groups[0].slots.give_back(group);
        plan.groups[0].slots.give_back(another);
    }

    /// Two groups on drives of their own.
    fn plan_on_drives() -> Plan {
        let mut plan = plan(2, 3);
        for (at, group) in plan.groups.iter_mut().enumerate() {
            group.drives = (3 * at as u8..3 * at as u8 + 3).map(DriveId).collect();
        }
        plan
    }

    /// AS-LANE-2: whoever reserved room, has a turn or waits for one goes elsewhere; objects that belong together, too.
    #[test]
    fn nobody_begins_an_item_in_a_group_with_a_drive_that_is_avoided() {
        let mut plan = plan_on_drives();
        let seats: Vec<SeatId> = (0..4).map(|_| plan.sit()).collect();
        let groups: Vec<usize> = seats.iter().map(|&seat| ask(&mut plan, seat, of(100))).collect();
        assert_eq!(groups, [0, 1, 0, 1]);
        let (grouped, small) = (plan.sit(), plan.sit());
        assert_eq!((ask(&mut plan, grouped, of_group(1)), plan.small_turn(small)), (0, false));
        plan.moved = false;
        plan.avoid([DriveId(1)].into_iter().collect());
        assert!(plan.moved && !plan.is_cornered() && plan.slot_beside(DriveId(1)) == Some(0));
        assert!(seats.iter().all(|&seat| ask(&mut plan, seat, of(100)) == 1));
        assert_eq!((ask(&mut plan, grouped, of_group(1)), plan.small_turn(small)), (1, false));
        // Nobody is left in the other one.
        let other = &plan.groups[0];
        assert_eq!((other.slots.writers(), other.queue.small()), (0, 0));
        // With drives of both to avoid there is no other way.
        plan.avoid([DriveId(1), DriveId(5)].into_iter().collect());
        assert!(plan.is_cornered() && plan.slot_beside(DriveId(1)).is_none());
        plan.avoid(DriveSet::EMPTY);
        assert!(!plan.is_cornered() && (0..2).all(|group| plan.is_able(group)));
    }

    #[test]
    fn objects_of_a_group_stay_together() {
        let mut plan = plan(2, 3);
        let (one, first) = sit(&mut plan, of_group(1));
        let (_, second) = sit(&mut plan, of_group(2));
        assert_eq!((first, second), (0, 1));
        assert_eq!(sit(&mut plan, of_group(1)).1, 0);
        plan.end_group(1);
        plan.leave(one);
        assert_eq!(sit(&mut plan, of_group(3)).1, 0);
    }

    /// AS-ALLOC-1: a writer that goes away while it has the turn, or waits for one, keeps it from nobody.
    #[test]
    fn whoever_goes_away_keeps_no_turn() {
        let mut plan = plan(1, 2);
        let seats: Vec<SeatId> = (0..4).map(|_| plan.sit()).collect();
        let goes: Vec<bool> = seats.iter().map(|&seat| plan.next(seat, of(100)).is_some()).collect();
        assert_eq!(goes, [true, false, false, false]);
        plan.leave(seats[1]);
        plan.moved = false;
        plan.leave(seats[0]);
        assert!(plan.moved && plan.next(seats[1], of(100)).is_none() && !plan.is_seated(seats[1]));
        assert!(plan.next(seats[2], of(100)).is_some() && plan.next(seats[3], of(100)).is_none());
        plan.rest(seats[2]);
        assert!(plan.next(seats[3], of(100)).is_some());
        assert!(plan.next(seats[2], of(100)).is_none());
    }
}
