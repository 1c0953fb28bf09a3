//! The sets of an array in lists, by what they are.
//!
//! # Invariants
//! - AS-LIST-1: each set of the table is in the lists that its life says, and in no other: [`Lists::moved`] follows
//!   every change. `lists_agree_with_a_scan_of_all_sets`.
//! - AS-LIST-2: no step of the engine looks at all sets: each looks at a list of those that it is about.
//!   `a_step_touches_few_of_many_sets`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::changes::{ChangeLog, Said};
use super::victims::{Candidate, Victims};
use crate::config::CleaningPolicy;
use crate::types::{DriveId, DriveSet, SetId, SetState};

/// A list in which a set is: each in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    /// Sets that hold nothing.
    Empty,
    /// Those of them that cannot be used.
    Unusable,
    /// Those of them that a superblock will call available.
    Offered,
    Available,
    /// Sets that hold objects and receive writes, or did so last.
    Open,
    Closed,
    Indexed,
    /// Sets of snapshots.
    Index,
}

const LISTS: usize = 8;

impl List {
    /// The list of sets in a state; but for empty ones, of those that can be used.
    pub(crate) fn of(state: SetState) -> Self {
        match state {
            SetState::Empty => Self::Empty,
            SetState::Available => Self::Available,
            SetState::Open => Self::Open,
            SetState::Closed => Self::Closed,
            SetState::Indexed => Self::Indexed,
            SetState::Index => Self::Index,
        }
    }
}

/// Lists that a set belongs to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) list: List,
    /// It will be closed or empty by itself.
    pub(super) comes: bool,
    pub(super) drives: DriveSet,
    pub(super) live: u64,
    /// Bytes of data that it holds if it is filled.
    pub(super) data: u64,
    /// Its fields in superblocks beside its live bytes.
    pub(super) said: Said,
    /// It may be cleaned.
    pub(super) candidate: Option<Candidate>,
}

/// Sets on the same drives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// Sets of it by list.
    lists: [BTreeSet<SetId>; LISTS],
}

impl Group {
    pub(crate) fn list(&self, list: List) -> &BTreeSet<SetId> {
        &self.lists[list as usize]
    }

    /// True if some set of it may hold something, as far as a superblock says, or one that is being written: a set that
    /// is offered is available there. (AS-EVICT-1)
    fn may_hold(&self) -> bool {
        const ALL: [List; 6] = [List::Offered, List::Available, List::Open, List::Closed, List::Indexed, List::Index];
        ALL.iter().any(|list| !self.list(*list).is_empty())
    }
}

/// All lists.
pub(crate) struct Lists {
    lists: RefCell<[BTreeSet<SetId>; LISTS]>,
    groups: RefCell<BTreeMap<DriveSet, Group>>,
    coming: RefCell<BTreeSet<SetId>>,
    suspects: RefCell<BTreeSet<SetId>>,
    pub(super) victims: RefCell<Victims>,
    pub(super) changes: RefCell<ChangeLog>,
    live: Cell<u64>,
    data: Cell<u64>,
    /// Sets that were looked at. (AS-LIST-2)
    pub(super) touched: Cell<u64>,
}

impl Lists {
    pub(super) fn new(policy: CleaningPolicy) -> Self {
        Self {
            lists: RefCell::default(),
            groups: RefCell::default(),
            coming: RefCell::default(),
            suspects: RefCell::default(),
            victims: RefCell::new(Victims::new(policy)),
            changes: RefCell::default(),
            live: Cell::new(0),
            data: Cell::new(0),
            touched: Cell::new(0),
        }
    }

    /// A set belongs elsewhere now; `None`: nowhere. (AS-LIST-1)
    pub(super) fn moved(&self, id: SetId, from: Option<Mark>, to: Option<Mark>) {
        self.touched.set(self.touched.get() + 1);
        if from == to {
            return;
        }
        let figure = |figure: &Cell<u64>, of: fn(&Mark) -> u64| {
            let (less, more) = (from.as_ref().map_or(0, of), to.as_ref().map_or(0, of));
            figure.set(figure.get().wrapping_sub(less).wrapping_add(more));
        };
        figure(&self.live, |mark| mark.live);
        figure(&self.data, |mark| mark.data);
        let said = |mark: &Option<Mark>| mark.map(|mark| mark.said);
        let live = |mark: &Option<Mark>| mark.map(|mark| mark.live);
        self.changes.borrow_mut().changed(id, said(&from) != said(&to), live(&from) != live(&to));
        let place = |mark: &Option<Mark>| mark.map(|mark| (mark.list, mark.drives));
        if place(&from) != place(&to) {
            self.relist(id, place(&from), place(&to));
        }
        let listed = |list: &RefCell<BTreeSet<SetId>>, of: fn(&Mark) -> bool| match (
            from.as_ref().is_some_and(of),
            to.as_ref().is_some_and(of),
        ) {
            (false, true) => drop(list.borrow_mut().insert(id)),
            (true, false) => drop(list.borrow_mut().remove(&id)),
            _ => {}
        };
        listed(&self.coming, |mark| mark.comes);
        listed(&self.suspects, |mark| mark.said.suspect);
        let candidate = |mark: Option<Mark>| mark.and_then(|mark| Some((mark.drives, mark.candidate?)));
        let (from, to) = (candidate(from), candidate(to));
        if from != to {
            let mut victims = self.victims.borrow_mut();
            from.iter().for_each(|(drives, candidate)| victims.remove(id, *drives, candidate));
            to.iter().for_each(|(drives, candidate)| victims.insert(id, *drives, candidate));
        }
    }

    fn relist(&self, id: SetId, from: Option<(List, DriveSet)>, to: Option<(List, DriveSet)>) {
        let (mut lists, mut groups) = (self.lists.borrow_mut(), self.groups.borrow_mut());
        if let Some((list, drives)) = from {
            lists[list as usize].remove(&id);
            if let Some(group) = groups.get_mut(&drives) {
                group.lists[list as usize].remove(&id);
                if group.lists.iter().all(BTreeSet::is_empty) {
                    groups.remove(&drives);
                }
            }
        }
        if let Some((list, drives)) = to {
            lists[list as usize].insert(id);
            groups.entry(drives).or_default().lists[list as usize].insert(id);
        }
    }

    pub(super) fn count(&self, list: List) -> usize {
        self.lists.borrow()[list as usize].len()
    }

    /// The first of a list behind `after`.
    pub(super) fn next(&self, list: List, after: Option<SetId>) -> Option<SetId> {
        self.touched.set(self.touched.get() + 1);
        let from = after.map_or(Some(0), |SetId(after)| after.checked_add(1))?;
        self.lists.borrow()[list as usize].range(SetId(from)..).next().copied()
    }

    /// Number of sets of a list behind `after`.
    pub(super) fn count_behind(&self, list: List, after: Option<SetId>) -> usize {
        let lists = self.lists.borrow();
        match after {
            None => lists[list as usize].len(),
            Some(SetId(after)) => {
                after.checked_add(1).map_or(0, |from| lists[list as usize].range(SetId(from)..).count())
            }
        }
    }

    /// The last of a list before `before`.
    pub(super) fn back(&self, list: List, before: Option<SetId>) -> Option<SetId> {
        self.touched.set(self.touched.get() + 1);
        let before = before.map_or(u32::MAX, |SetId(before)| before);
        self.lists.borrow()[list as usize].range(..SetId(before)).next_back().copied()
    }

    pub(super) fn suspects(&self) -> Vec<SetId> {
        self.suspects.borrow().iter().copied().collect()
    }

    pub(super) fn coming(&self) -> Vec<SetId> {
        let coming = self.coming.borrow();
        self.touched.set(self.touched.get() + coming.len() as u64);
        coming.iter().copied().collect()
    }

    /// The groups of drives that sets lie on.
    pub(super) fn with_groups<T>(&self, look: impl FnOnce(&BTreeMap<DriveSet, Group>) -> T) -> T {
        look(&self.groups.borrow())
    }

    /// Zones that the set with the fewest left lacks, of those that may hold something and whose drives `count`.
    pub(super) fn most_lacking(
        &self,
        lost: impl IntoIterator<Item = DriveId>,
        count: impl Fn(&DriveSet) -> bool,
    ) -> usize {
        let lost: DriveSet = lost.into_iter().collect();
        let groups = self.groups.borrow();
        let holding = groups.iter().filter(|(drives, group)| group.may_hold() && count(drives));
        holding.map(|(drives, _)| drives.common(&lost) as usize).max().unwrap_or(0)
    }

    /// Drives of sets that may hold something.
    pub(super) fn holding_drives(&self) -> DriveSet {
        let groups = self.groups.borrow();
        let holding = groups.iter().filter(|(_, group)| group.may_hold());
        holding.fold(DriveSet::default(), |all, (drives, _)| all.with(drives))
    }

    /// Bytes that live in all sets, and bytes that they hold if they are filled.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.live.get(), self.data.get())
    }
}
