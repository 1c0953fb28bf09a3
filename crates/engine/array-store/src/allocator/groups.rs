//! Drives of groups, and sets that are kept ready for them. (Formation of groups: [`crate::zone_set::layout`].)

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::append::open_set::OpenSet;
use crate::engine::Engine;
use crate::types::{DriveSet, SetId, SetState};
use crate::zone_set::layout::{Candidate, choose_groups};
use crate::zone_set::{Group, List, ZoneSet};

/// Overlap of a set with other groups than its own: the less, the better it fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Overlap {
    /// Drives of it that are other groups'.
    others: u32,
    /// Drives of it that are not the group's.
    outside: u32,
}

const NONE: DriveSet = DriveSet::EMPTY;

/// Judges where sets fit by their drives, as drives and groups are now: once for each group of sets on the same drives,
/// not for each set.
pub(super) struct Fit {
    /// The drives of each group.
    homes: Vec<DriveSet>,
    /// Drives that are gone or about to leave.
    lossy: DriveSet,
    /// Drives that new data keeps away from.
    avoided: DriveSet,
}

impl Fit {
    /// Overlap of drives with the homes of groups other than `group`; `None`: other than the one that they fit best.
    pub(super) fn overlap(&self, group: Option<usize>, drives: &DriveSet) -> Overlap {
        let common = |home: &DriveSet| home.common(drives);
        let taken: u32 = self.homes.iter().map(common).sum();
        let own = match group {
            Some(group) => self.homes.get(group).map_or(0, common),
            None => self.homes.iter().map(common).max().unwrap_or(0),
        };
        let homeless = group.is_some_and(|group| self.homes.get(group).is_none_or(|home| *home == NONE));
        Overlap { others: taken - own, outside: if homeless { 0 } else { drives.count() - own } }
    }

    /// Zones that sets on those drives lack, or will.
    fn lacks(&self, drives: &DriveSet) -> u32 {
        self.lossy.common(drives)
    }

    /// The less the better: how many zones sets on those drives lack, and how many are on drives that are avoided.
    pub(super) fn ill(&self, drives: &DriveSet) -> (u32, u32) {
        (self.lacks(drives), self.avoided.common(drives))
    }

    /// The less the better.
    fn rank(&self, group: Option<usize>, drives: &DriveSet) -> ((u32, u32), Overlap) {
        (self.ill(drives), self.overlap(group, drives))
    }
}

impl Engine {
    /// Fit of sets by the present drives. A group that clients keep away from has the drives that they do, or no writer
    /// would try those.
    pub(super) fn fit_for(&self, group: Option<usize>) -> Fit {
        let able = group.is_none_or(|group| self.allocator.plan(|plan| plan.is_able(group)));
        let avoided = if able { self.paces.avoided() } else { NONE };
        Fit { avoided, ..self.fit_now() }
    }

    /// Drives that the next set of a group, or of a stream without one, is to be without. (AS-LANE-3)
    pub(crate) fn shunned(&self, group: Option<usize>) -> DriveSet {
        let able = self.allocator.plan(|plan| !plan.is_cornered() && group.is_none_or(|group| plan.is_able(group)));
        if able { self.paces.avoided() } else { NONE }
    }

    fn fit_now(&self) -> Fit {
        Fit { homes: self.allocator.drives(), lossy: self.lossy_drives(), avoided: self.paces.avoided() }
    }

    /// True if parity makes up for the zones that sets on those drives lack.
    pub(crate) fn may_open_on(&self, drives: &DriveSet) -> bool {
        let gone = self.drives.ids().into_iter().filter(|id| self.drives.usable(*id).is_none());
        drives.common(&gone.collect()) as usize <= self.code.parity()
    }

    /// Gives groups drives of their own, on which many sets can be opened: as many groups as can be have some. They
    /// keep those that they have as long as sets can be opened there, unless more groups could have some.
    pub(super) fn settle_groups(&self) {
        let kept = self.allocator.drives();
        if kept.len() == 1 {
            return;
        }
        let lossy = self.lossy_drives();
        let mut candidates = Vec::new();
        self.sets.with_groups(|all| {
            for (drives, group) in all.iter().filter(|(drives, _)| !drives.meets(&lossy)) {
                let count = |lists: &[List]| lists.iter().map(|list| group.list(*list).len() as u32).sum();
                let free = count(&[List::Empty, List::Offered, List::Available]);
                candidates.extend((free > 0).then(|| Candidate { free, open: count(&[List::Open]), drives: *drives }));
            }
        });
        let chosen = choose_groups(candidates, kept);
        self.allocator.plan(|plan| {
            plan.groups.iter_mut().zip(chosen).for_each(|(group, drives)| group.drives = drives);
        });
    }

    fn settle_homeless(&self) {
        if self.allocator.drives().contains(&NONE) {
            self.settle_groups();
        }
    }

    /// Of empty sets on other drives than those so many that are opened next, as many for each group: the first that fit
    /// and lack nothing; where those are not enough, of the others those that lack the least.
    pub(crate) fn for_groups(&self, most: usize, without: &DriveSet) -> Vec<(SetId, Rc<ZoneSet>)> {
        self.settle_homeless();
        let (fit, groups) = (self.fit_now(), self.allocator.groups());
        let mut chosen = BTreeSet::new();
        for group in 0..groups {
            let fits = |drives: &DriveSet| fit.rank(Some(group), drives) == ((0, 0), Overlap::default());
            let rank = |drives: &DriveSet| fits(drives).then_some(());
            let found = self.best_empty((most + group) / groups, rank, |id| !chosen.contains(id));
            chosen.extend(found);
        }
        let rest = most - chosen.len();
        let rank = |drives: &DriveSet| (!drives.meets(without)).then(|| fit.rank(None, drives));
        let others = self.best_empty(rest, rank, |id| !chosen.contains(id));
        let all = chosen.iter().copied().chain(others);
        all.filter_map(|id| Some((id, self.sets.get(id)?))).collect()
    }

    /// True if a set is available on drives that are less ill, beside those that are reserved and one for each slot.
    pub(super) fn has_better_than(&self, drives: &DriveSet) -> bool {
        let fit = self.fit_now();
        let better =
            |(other, of): (&DriveSet, &Group)| !of.list(List::Available).is_empty() && fit.ill(other) < fit.ill(drives);
        self.sets.count(SetState::Available) > self.cleaners.reserved() + self.allocator.slots()
            && self.sets.with_groups(|all| all.iter().any(better))
    }

    /// Of empty sets so many that fit a group better than every available one does, the best first.
    pub(crate) fn better_for(&self, group: usize, most: usize) -> Vec<(SetId, Rc<ZoneSet>)> {
        let fit = self.fit_for(Some(group));
        let rank = |drives: &DriveSet| fit.rank(Some(group), drives);
        let best = self.sets.with_groups(|all| {
            let available = all.iter().filter(|(_, of)| !of.list(List::Available).is_empty());
            available.map(|(drives, _)| rank(drives)).min()
        });
        let better = |drives: &DriveSet| Some(rank(drives)).filter(|rank| best.is_none_or(|best| *rank < best));
        let found = self.best_empty(most, better, |_| true);
        found.into_iter().filter_map(|id| Some((id, self.sets.get(id)?))).collect()
    }

    /// Of empty sets that `may` be so many, those on the drives with the least rank first; none whose zones were just not reset.
    /// (AS-RESET-1)
    fn best_empty<R: Ord + Copy>(
        &self,
        most: usize,
        rank: impl Fn(&DriveSet) -> Option<R>,
        may: impl Fn(&SetId) -> bool,
    ) -> Vec<SetId> {
        if most == 0 {
            return Vec::new();
        }
        let (mut found, now): (Vec<(R, SetId)>, _) = (Vec::new(), self.rt.now());
        self.sets.with_groups(|all| {
            for (drives, of) in all.iter().filter(|(_, of)| !of.list(List::Empty).is_empty()) {
                if let Some(rank) = rank(drives).filter(|_| self.may_open_on(drives)) {
                    let empty = of.list(List::Empty).iter().filter(|id| may(id) && self.unreset.is_due(**id, now));
                    found.extend(empty.take(most).map(|id| (rank, *id)));
                }
            }
        });
        found.sort_unstable();
        found.truncate(most);
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// Continues a set that was open when the array was closed: in the group that it fits. If no slot is free it comes
    /// back.
    pub(crate) fn go_on_in(&self, open: OpenSet) -> Option<OpenSet> {
        self.settle_homeless();
        let free = |group: usize| self.allocator.plan(|plan| plan.free_slot(group));
        let groups = (0..self.allocator.groups()).filter(|&group| free(group).is_some());
        let (fit, drives) = (self.fit_now(), open.set.drives());
        let best = groups.min_by_key(|&group| fit.overlap(Some(group), &drives));
        let Some(slot) = best.and_then(free) else { return Some(open) };
        let left = self.data_left(&open);
        self.allocator.fill(slot as u8, open, left);
        None
    }
}
