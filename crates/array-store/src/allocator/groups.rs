//! Which drives groups have, and which sets are kept ready for them. (How drives form groups: [`crate::layout`].)

use std::rc::Rc;

use crate::engine::Engine;
use crate::layout::{Place, choose_groups};
use crate::sets::{List, ZoneSet};
use crate::types::{DriveSet, SetId};
use crate::writer::OpenSet;

/// How ill a set fits a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Misfit {
    /// Drives of it that are other groups'.
    others: u32,
    /// Drives of it that are not the group's.
    outside: u32,
}

const NONE: DriveSet = DriveSet::EMPTY;

impl Engine {
    /// How ill a set's drives are those of a group; `None`: of the group that it fits best.
    pub(crate) fn misfit(&self, group: Option<usize>, set: &ZoneSet) -> Misfit {
        let (homes, drives) = (self.allocator.drives(), set.drives());
        let common = |home: &DriveSet| home.common(&drives);
        let taken: u32 = homes.iter().map(common).sum();
        let own = match group {
            Some(group) => homes.get(group).map_or(0, common),
            None => homes.iter().map(common).max().unwrap_or(0),
        };
        let homeless = group.is_some_and(|group| homes.get(group).is_none_or(|home| *home == NONE));
        Misfit { others: taken - own, outside: if homeless { 0 } else { drives.count() - own } }
    }

    /// Gives groups drives of their own, on which many sets can be opened: as many groups as can be have some. They keep those
    /// that they have as long as sets can be opened there, unless more groups could have some.
    pub(super) fn settle_groups(&self) {
        let kept = self.allocator.drives();
        if kept.len() == 1 {
            return;
        }
        let lossy = self.lossy_drives();
        let mut places = Vec::new();
        self.sets.with_groups(|all| {
            for (drives, group) in all.iter().filter(|(drives, _)| !drives.meets(&lossy)) {
                let count = |lists: &[List]| lists.iter().map(|list| group.list(*list).len() as u32).sum();
                let free = count(&[List::Empty, List::Offered, List::Available]);
                places.extend((free > 0).then(|| Place { free, open: count(&[List::Open]), drives: *drives }));
            }
        });
        let chosen = choose_groups(places, kept);
        self.allocator.plan(|plan| {
            plan.groups.iter_mut().zip(chosen).for_each(|(group, drives)| group.drives = drives);
        });
    }

    fn settle_homeless(&self) {
        if self.allocator.drives().contains(&NONE) {
            self.settle_groups();
        }
    }

    /// Of empty sets so many that are opened next, as many for each group: the first that fit and lack nothing; where those are
    /// not enough, of the others those that lack the least.
    pub(crate) fn for_groups(&self, most: usize) -> Vec<(SetId, Rc<ZoneSet>)> {
        self.settle_homeless();
        let groups = self.allocator.groups();
        let mut left: Vec<usize> = (0..groups).map(|group| (most + group) / groups).collect();
        let mut chosen = Vec::with_capacity(most);
        let mut others = Vec::new();
        for (id, set) in self.usable_empty() {
            if chosen.len() == most {
                return chosen;
            }
            let whole = self.lossy(&set) == 0;
            let fits = |group: usize| self.misfit(Some(group), &set) == Misfit::default();
            match (0..groups).find(|&group| whole && left[group] > 0 && fits(group)) {
                Some(group) => {
                    left[group] -= 1;
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

    /// Of empty sets so many that fit a group better than every available one does, the best first.
    pub(crate) fn better_for(&self, group: usize, most: usize) -> Vec<(SetId, Rc<ZoneSet>)> {
        let mut empty: Vec<_> = self.usable_empty().collect();
        let fit = |set: &ZoneSet| (self.lossy(set), self.misfit(Some(group), set));
        let available = self.sets.of(List::Available);
        if let Some(best) = available.map(|(_, set)| fit(&set)).min() {
            empty.retain(|(_, set)| fit(set) < best);
        }
        empty.sort_by_cached_key(|(id, set)| (fit(set), *id));
        empty.truncate(most);
        empty
    }

    /// Goes on in a set that was open when the array was closed: in the group that it fits. Where no slot is free it comes back.
    pub(crate) fn go_on_in(&self, open: OpenSet) -> Option<OpenSet> {
        self.settle_homeless();
        let free = |group: usize| self.allocator.plan(|plan| plan.free_slot(group));
        let groups = (0..self.allocator.groups()).filter(|&group| free(group).is_some());
        let best = groups.min_by_key(|&group| self.misfit(Some(group), &open.set));
        let Some(slot) = best.and_then(free) else { return Some(open) };
        let left = self.data_left(&open);
        self.allocator.fill(slot as u8, open, left);
        None
    }
}
