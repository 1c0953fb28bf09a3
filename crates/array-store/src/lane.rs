//! Lanes: an array that has the drives of several sets is written to in several at once.
//!
//! One set at a time would use the bandwidth of its own drives alone. So there are as many lanes as sets find drives of
//! their own; each has drives, open sets on them, and turns: one writer at a time. Whoever comes goes to the lane with the fewest
//! writers. When no set is left on a lane's drives, all lanes are given others. (The paper's array has the drives of one set:
//! one lane.)
//!
//! # Invariants
//! - LANE-1: lanes are a plan, as claims are (SHELF-1): sets of two lanes may share drives, and then wait for each other
//!   (WINDOW-2).

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::engine::Engine;
use crate::sets::{List, ZoneSet};
use crate::shelf::{Claim, PutHints, Shelf};
use crate::turn::Turns;
use crate::types::{DriveSet, SetId};

/// Sets of an array for each one that is open for clients: those that are part empty must be few.
const SETS_A_SLOT: usize = 32;

/// Sets that a lane has open at most. (A recovery walks all of them.)
const SLOTS_MAX: usize = 12;

/// Sets that are open for clients at most.
const STREAMS_MAX: usize = u8::MAX as usize;

/// Groups of drives that are tried as the first lane's when lanes are given drives.
const BEGINNINGS: usize = 64;

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
    /// The drives of each, once that is settled.
    homes: RefCell<Vec<DriveSet>>,
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
        Self { lanes: (0..count).map(lane).collect(), slots, homes: RefCell::default() }
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

    /// How many write in a lane, or wait to, and how much they have claimed.
    fn busy(&self, lane: usize) -> (usize, u64) {
        let Lane { shelf, turns } = self.get(lane);
        (shelf.writers() + turns.small(), shelf.claimed())
    }

    /// The lane with the fewest writers, of those that have drives: another one would hold up two of those.
    pub(crate) fn least_busy(&self) -> usize {
        let homes = self.homes.borrow();
        let has_drives = |lane: &usize| homes.get(*lane).is_some_and(|home| *home != DriveSet::default());
        let lanes = 0..self.lanes.len();
        let able = lanes.clone().filter(has_drives).min_by_key(|&lane| self.busy(lane));
        able.or_else(|| lanes.min_by_key(|&lane| self.busy(lane))).unwrap_or(0)
    }

    /// Whether some lane has no drives of its own.
    fn lack_drives(&self) -> bool {
        let homes = self.homes.borrow();
        homes.is_empty() || homes.contains(&DriveSet::default())
    }

    /// Claims room for the rest of an object: in the lane that has its group, or that its writer has a turn of unless another one
    /// has fewer writers, or in the one with the fewest.
    pub(crate) fn claim(&self, hints: PutHints, turn: Option<usize>) -> Claim {
        let has_group = |lane: &Lane| hints.group.is_some_and(|group| lane.shelf.has_group(group));
        let least = self.least_busy();
        let stays = turn.filter(|&lane| self.busy(lane).0 <= self.busy(least).0);
        let lane = self.lanes.iter().position(has_group).or(stays).unwrap_or(least);
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
        slots.sort_by_key(|&(_, free)| Reverse(free));
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

/// How ill a set fits a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Misfit {
    /// Drives of it that are other lanes'.
    others: u32,
    /// Drives of it that are not the lane's.
    outside: u32,
}

impl Engine {
    /// How ill a set's drives are those of `lane`; `None`: of the lane that it fits best.
    pub(crate) fn misfit(&self, lane: Option<usize>, set: &ZoneSet) -> Misfit {
        let (homes, drives) = (self.lanes.homes.borrow(), set.drives());
        let common = |home: &DriveSet| home.common(&drives);
        let taken: u32 = homes.iter().map(common).sum();
        let own = match lane {
            Some(lane) => homes.get(lane).map_or(0, common),
            None => homes.iter().map(common).max().unwrap_or(0),
        };
        let homeless = homes.is_empty() || lane.is_some_and(|lane| homes[lane] == DriveSet::default());
        Misfit { others: taken - own, outside: if homeless { 0 } else { drives.count() - own } }
    }

    /// Gives lanes drives of their own, on which many sets can be opened: as many lanes as can be have some. They keep those that
    /// they have as long as sets can be opened there, unless more lanes could have some.
    pub(crate) fn settle_lanes(&self) {
        let lanes = self.lanes.count();
        if lanes == 1 {
            return;
        }
        let mut groups: BTreeMap<DriveSet, (u32, u32)> = BTreeMap::new();
        let lossy = self.lossy_drives();
        self.sets.with_groups(|all| {
            for (drives, group) in all {
                let count = |lists: &[List]| lists.iter().map(|list| group.list(*list).len() as u32).sum();
                let free = if drives.meets(&lossy) { 0 } else { count(&[List::Empty, List::Offered, List::Available]) };
                groups.insert(*drives, (free, count(&[List::Open])));
            }
        });
        groups.retain(|_, (free, _)| *free > 0);
        let mut kept = self.lanes.homes.borrow().clone();
        kept.iter_mut().filter(|home| !groups.contains_key(*home)).for_each(|home| *home = DriveSet::default());
        let mut groups: Vec<Group> = groups.into_iter().map(|(drives, (free, open))| (free, open, drives)).collect();
        groups.sort_unstable_by_key(|&group| Reverse(group));
        let beginnings = (0..groups.len().min(BEGINNINGS)).map(|first| disjoint(&groups, first, lanes));
        let best = beginnings.max_by_key(|found| (found.len(), found.iter().map(|(free, ..)| *free).min()));
        let best = best.unwrap_or_default();
        let homes = if best.len() > kept.iter().filter(|home| **home != DriveSet::default()).count() {
            let mut homes: Vec<DriveSet> = best.into_iter().map(|(.., drives)| drives).collect();
            homes.sort_unstable();
            homes
        } else {
            kept
        };
        self.lanes.homes.replace(homes);
        self.lanes.homes.borrow_mut().resize(lanes, DriveSet::default());
    }

    /// Of empty sets so many that are opened next, as many for each lane: the first that fit and lack nothing; where those are
    /// not enough, of the others those that lack the least.
    pub(crate) fn for_lanes(&self, most: usize) -> Vec<(SetId, Rc<ZoneSet>)> {
        if self.lanes.lack_drives() {
            self.settle_lanes();
        }
        let lanes = self.lanes.count();
        let mut left: Vec<usize> = (0..lanes).map(|lane| (most + lane) / lanes).collect();
        let mut chosen = Vec::with_capacity(most);
        let mut others = Vec::new();
        for (id, set) in self.usable_empty() {
            if chosen.len() == most {
                return chosen;
            }
            let whole = self.lossy(&set) == 0;
            let fits = |lane: usize| self.misfit(Some(lane), &set) == Misfit::default();
            match (0..lanes).find(|&lane| whole && left[lane] > 0 && fits(lane)) {
                Some(lane) => {
                    left[lane] -= 1;
                    chosen.push((id, set));
                }
                None => others.push((id, set)),
            }
        }
        others.sort_by_cached_key(|(id, set)| (self.lossy(set), self.misfit(None, set), *id));
        others.truncate(most - chosen.len());
        chosen.extend(others);
        chosen
    }

    /// Of empty sets so many that fit a lane better than every available one does, the best first.
    pub(crate) fn better_for(&self, lane: usize, most: usize) -> Vec<(SetId, Rc<ZoneSet>)> {
        let mut empty: Vec<_> = self.usable_empty().collect();
        let fit = |set: &ZoneSet| (self.lossy(set), self.misfit(Some(lane), set));
        let available = self.sets.of(List::Available);
        if let Some(best) = available.map(|(_, set)| fit(&set)).min() {
            empty.retain(|(_, set)| fit(set) < best);
        }
        empty.sort_by_cached_key(|(id, set)| (fit(set), *id));
        empty.truncate(most);
        empty
    }

    /// A slot without a set, for one that recovery found open: in the lane that it fits.
    pub(crate) fn slot_for(&self, set: &ZoneSet) -> Option<usize> {
        if self.lanes.lack_drives() {
            self.settle_lanes();
        }
        let free = |lane: usize| self.lanes.get(lane).shelf.free_slot();
        let lanes = (0..self.lanes.count()).filter(|&lane| free(lane).is_some());
        lanes.min_by_key(|&lane| self.misfit(Some(lane), set)).and_then(free)
    }
}

/// Drives, and how many sets on them are free and open.
type Group = (u32, u32, DriveSet);

/// Groups that share no drive, at most `most`: that one, and of the others always the first that does.
fn disjoint(groups: &[Group], first: usize, most: usize) -> Vec<Group> {
    let mut found = vec![groups[first]];
    for group in groups {
        if found.len() == most {
            break;
        }
        if found.iter().all(|(.., other)| !other.meets(&group.2)) {
            found.push(*group);
        }
    }
    found
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
        // Whoever has a turn stays where no more write than elsewhere.
        assert_eq!(lanes.lane_of(lanes.claim(of(1), Some(0)).slot()), 1);
        let _other = lanes.claim(of(900), Some(1));
        assert_eq!(lanes.lane_of(lanes.claim(of(1), None).slot()), 0);
        assert_eq!(lanes.lane_of(lanes.claim(of(1), Some(1)).slot()), 1);
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
