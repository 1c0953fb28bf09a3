//! Lanes: an array that has the drives of several sets is written to in several at once.
//!
//! One set at a time would use the bandwidth of its own drives alone. So there are as many lanes as sets find drives of
//! their own; each has open sets, turns, and one writer at a time. Whoever comes goes to the lane with the fewest writers, and a
//! lane opens sets on drives that others do not write to. (The paper's array has the drives of one set: one lane.)
//!
//! # Invariants
//! - LANE-1: lanes are a plan, as claims are (SHELF-1): sets of two lanes may share drives, and then wait for each other
//!   (WINDOW-2).

use std::rc::Rc;

use crate::engine::Engine;
use crate::sets::ZoneSet;
use crate::shelf::{Claim, PutHints, Shelf};
use crate::turn::Turns;
use crate::types::SetId;

/// Sets of an array for each one that is open for clients: those that are part empty must be few.
const SETS_A_SLOT: usize = 32;

/// Sets that a lane has open at most. (A recovery walks all of them.)
const SLOTS_MAX: usize = 12;

/// Sets that are open for clients at most.
const STREAMS_MAX: usize = u8::MAX as usize;

/// Empty sets that lanes choose from at least.
const CHOICE: usize = 4096;

/// Zones of a drive that must be left for streams that are not clients', and for a rebuild.
const ZONES_LEFT: u32 = 5;

/// Writers that go one after the other, and their open sets.
pub(crate) struct Lane {
    pub(crate) shelf: Rc<Shelf>,
    pub(crate) turns: Rc<Turns>,
}

/// All lanes; the slots of their sets are numbered through, as many for each.
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    slots: usize,
}

/// How many lanes an array has, and how many open sets each: `wanted` of all of them, or as many as its sets allow; and as its
/// drives do, which have at most `zones` open.
pub(crate) fn lanes(
    drives: usize,
    width: usize,
    wanted: Option<usize>,
    sets: usize,
    zones: Option<u32>,
) -> (usize, usize) {
    let side_by_side = (drives / width).max(1);
    let slots = wanted.unwrap_or((sets / SETS_A_SLOT).min(SLOTS_MAX * side_by_side)).min(STREAMS_MAX);
    // Sets of all lanes may have zones of one drive.
    let slots = slots.min(zones.map_or(usize::MAX, |zones| zones.saturating_sub(ZONES_LEFT) as usize)).max(1);
    let lanes = side_by_side.min(slots);
    (lanes, slots / lanes)
}

impl Lanes {
    /// `count` lanes with `slots` open sets each, for segments with that much data.
    pub(crate) fn new(count: usize, slots: usize, segment: u32, turn_segments: u32) -> Self {
        let lane = |number| Lane {
            shelf: Shelf::new(number * slots, slots, segment),
            turns: Turns::new(number, turn_segments, slots > 1),
        };
        Self { lanes: (0..count).map(lane).collect(), slots }
    }

    pub(crate) fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Slots of all lanes.
    pub(crate) fn slots(&self) -> usize {
        self.lanes.len() * self.slots
    }

    pub(crate) fn get(&self, lane: usize) -> &Lane {
        &self.lanes[lane]
    }

    pub(crate) fn lane_of(&self, slot: usize) -> usize {
        slot / self.slots
    }

    /// The lane of a slot.
    pub(crate) fn of(&self, slot: usize) -> &Lane {
        self.get(self.lane_of(slot))
    }

    /// The lane with the fewest writers.
    pub(crate) fn least_busy(&self) -> usize {
        let busy = |lane: &usize| {
            let Lane { shelf, turns } = self.get(*lane);
            (shelf.writers() + turns.small(), shelf.claimed())
        };
        (0..self.lanes.len()).min_by_key(busy).unwrap_or(0)
    }

    /// Claims room for the rest of an object: in the lane that its writer has a turn of, or that has its group, or in the one
    /// with the fewest writers.
    pub(crate) fn claim(&self, hints: PutHints, turn: Option<usize>) -> Claim {
        let of_group =
            || self.lanes.iter().position(|lane| hints.group.is_some_and(|group| lane.shelf.has_group(group)));
        let lane = turn.or_else(of_group).unwrap_or_else(|| self.least_busy());
        self.lanes[lane].shelf.claim(hints)
    }

    /// A set has room for so much data now.
    pub(crate) fn written(&self, set: SetId, free: u64) {
        self.lanes.iter().for_each(|lane| lane.shelf.written(set, free));
    }

    /// A set is closed.
    pub(crate) fn closed(&self, set: SetId) {
        self.lanes.iter().for_each(|lane| lane.shelf.closed(set));
    }

    /// Slots whose sets have room, the emptiest first.
    pub(crate) fn roomy(&self) -> Vec<usize> {
        let mut slots: Vec<(usize, u64)> = self.lanes.iter().flat_map(|lane| lane.shelf.roomy()).collect();
        slots.sort_by_key(|&(_, free)| std::cmp::Reverse(free));
        slots.into_iter().map(|(slot, _)| slot).collect()
    }

    /// Nothing more comes of a group.
    pub(crate) fn end_group(&self, group: u64) {
        self.lanes.iter().for_each(|lane| lane.shelf.end_group(group));
    }

    /// There are no more turns.
    pub(crate) fn end(&self) {
        self.lanes.iter().for_each(|lane| lane.turns.end());
    }
}

/// How many open sets have a zone of each drive.
pub(crate) struct Crowding([u32; 256]);

impl Crowding {
    pub(crate) const NONE: Self = Self([0; 256]);

    /// Of the drives of a set, together.
    pub(crate) fn of(&self, set: &ZoneSet) -> u32 {
        set.members.borrow().iter().map(|member| self.0[usize::from(member.drive.0)]).sum()
    }
}

impl Engine {
    /// What sets of `lane` keep away from: open sets of other lanes.
    pub(crate) fn crowding(&self, lane: usize) -> Crowding {
        let mut crowding = Crowding::NONE;
        let others = (0..self.lanes.count()).filter(|&other| other != lane);
        for set in others.flat_map(|other| self.lanes.get(other).shelf.sets()) {
            let Some(set) = self.sets.get(set) else { continue };
            set.members.borrow().iter().for_each(|member| crowding.0[usize::from(member.drive.0)] += 1);
        }
        crowding
    }

    /// Of empty sets so many that are opened next: those that lack the least, for each lane as many that keep away from the
    /// others, in order.
    pub(crate) fn for_lanes(&self, mut empty: Vec<(SetId, Rc<ZoneSet>)>, most: usize) -> Vec<(SetId, Rc<ZoneSet>)> {
        empty.sort_by_cached_key(|(_, set)| self.lossy(set));
        // The first of many are choice enough.
        empty.truncate(most.max(CHOICE));
        let lanes = self.lanes.count();
        let mut chosen = Vec::with_capacity(most);
        for lane in 0..lanes {
            let crowding = self.crowding(lane);
            empty.sort_by_cached_key(|(id, set)| (self.lossy(set), crowding.of(set), *id));
            let share = (most - chosen.len()).div_ceil(lanes - lane);
            chosen.extend(empty.drain(..share.min(empty.len())));
        }
        chosen
    }

    /// A slot without a set, for one that recovery found open: in the lane whose drives it has, as far as that can be seen.
    pub(crate) fn slot_for(&self, set: &ZoneSet) -> Option<usize> {
        let free = |lane: usize| self.lanes.get(lane).shelf.free_slot();
        let lanes = (0..self.lanes.count()).filter(|&lane| free(lane).is_some());
        let best = lanes.min_by_key(|&lane| (self.crowding(lane).of(set), self.lanes.get(lane).shelf.sets().count()));
        best.and_then(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_and_slots_follow_the_array_and_its_drives() {
        assert_eq!(lanes(6, 6, None, 20, Some(128)), (1, 1));
        assert_eq!(lanes(6, 6, None, 306, Some(128)), (1, 9));
        assert_eq!(lanes(6, 6, None, 30_000, None), (1, 12));
        assert_eq!(lanes(6, 6, Some(4), 30_000, None), (1, 4));
        assert_eq!(lanes(6, 6, None, 30_000, Some(14)), (1, 9));
        assert_eq!(lanes(6, 6, Some(8), 30_000, Some(3)), (1, 1));
        assert_eq!(lanes(60, 12, None, 375_000, Some(128)), (5, 12));
        assert_eq!(lanes(60, 12, None, 375_000, Some(14)), (5, 1));
        assert_eq!(lanes(60, 12, None, 100, None), (3, 1));
        assert_eq!(lanes(255, 2, None, usize::MAX, None), (127, 2));
    }

    #[test]
    fn writers_go_to_the_lane_with_the_fewest() {
        let lanes = Lanes::new(2, 3, 80, 12);
        let of = |length| PutHints { length: Some(length), group: None };
        let first = lanes.claim(of(500), None);
        let second = lanes.claim(of(100), None);
        assert_eq!((lanes.lane_of(first.slot()), lanes.lane_of(second.slot())), (0, 1));
        // As many write in each: less is to come in the second.
        let third = lanes.claim(of(100), None);
        assert_eq!(lanes.lane_of(third.slot()), 1);
        drop((second, third));
        assert_eq!(lanes.lane_of(lanes.claim(of(1), None).slot()), 1);
        // Whoever has a turn stays.
        assert_eq!(lanes.lane_of(lanes.claim(of(1), Some(0)).slot()), 0);
    }

    #[test]
    fn a_group_stays_in_its_lane() {
        let lanes = Lanes::new(2, 3, 80, 12);
        let of_group = |group| PutHints { length: Some(100), group: Some(group) };
        let one = lanes.claim(of_group(1), None);
        let other = lanes.claim(of_group(2), None);
        assert_eq!((lanes.lane_of(one.slot()), lanes.lane_of(other.slot())), (0, 1));
        assert_eq!(lanes.claim(of_group(1), None).slot(), one.slot());
        lanes.end_group(1);
        drop(one);
        assert_eq!(lanes.lane_of(lanes.claim(of_group(3), None).slot()), 0);
    }
}
