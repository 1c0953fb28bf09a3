//! The zone-set table: what sets are, their members, live bytes, pins. (SMORE, sections III-B and III-C.)
//!
//! # Invariants
//! - AS-SET-1: a set receives writes only after a superblock called it available (or open): recovery looks at those.
//!   When one calls it available its zones are empty, durably.
//! - AS-SET-2: a set's zones are reset only when nothing live is left in it and nobody reads it.
//! - AS-SET-3: a set that is empty is covered by no snapshot, or recovery would pass over what comes next.
//! - AS-SET-4: what a set holds is read off its zones only while nothing changes them, and under a pin, which keeps it
//!   so ([`crate::engine::Engine::settled`]). Nobody who waits for a change to end has a pin: the change may wait for
//!   it.
//! - AS-SET-5: a superblock calls a set empty before the first of its zones is reset. Else an opening would find a set of which
//!   some zones are empty, and take what the others lack for lost.

mod changes;
pub(crate) mod layout;
mod life;
mod lists;
mod set;
mod shared;
mod steps;
pub(crate) mod supply;
mod victims;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use shingle_erasure::Code;
use tokio::sync::Notify;

use crate::config::CleaningPolicy;
use crate::drives::Drives;
use crate::format::{Changes, Member, SetEntry};
use crate::types::{DriveId, DriveSet, SetId, SetState};

pub(crate) use life::{Phase, Purpose, Zones};
pub(crate) use lists::{Group, List};
pub(crate) use set::ZoneSet;
pub(crate) use steps::FoundToHold;

use life::Life;
use lists::Lists;
use shared::Shared;

/// Written blocks of each live member of a set.
pub(crate) type Written = Vec<(Member, u32)>;

/// Lists of sets that may hold something.
const HOLDING: [List; 4] = [List::Open, List::Closed, List::Indexed, List::Index];

/// Keeps a set's zones from being reset while it lives. (The shared lock of SMORE, section III-E.)
pub(crate) struct Pin {
    set: Rc<ZoneSet>,
    unpinned: Rc<Notify>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        if self.set.was_unpinned() {
            self.unpinned.notify_waiters();
        }
    }
}

/// All sets, by number.
pub(crate) struct SetTable {
    sets: RefCell<Vec<Option<Rc<ZoneSet>>>>,
    /// Numbers that no set has, of those below the last.
    unused: RefCell<BTreeSet<SetId>>,
    shared: Rc<Shared>,
    /// The last hold of some set went away.
    unpinned: Rc<Notify>,
}

impl SetTable {
    pub(crate) fn from_entries(
        entries: Vec<Option<SetEntry>>,
        drives: &Drives,
        code: Code,
        policy: CleaningPolicy,
    ) -> Self {
        let table = Self {
            sets: RefCell::new(Vec::with_capacity(entries.len())),
            unused: RefCell::default(),
            shared: Rc::new(Shared { lists: Lists::new(policy), drives: drives.clone(), code }),
            unpinned: Rc::default(),
        };
        for (at, entry) in entries.into_iter().enumerate() {
            let id = SetId(at as u32);
            table.sets.borrow_mut().push(None);
            match entry {
                None => drop(table.unused.borrow_mut().insert(id)),
                Some(entry) => {
                    let life = Life::found(&entry);
                    table.put_back(id, ZoneSet::new(&table.shared, entry.members, life));
                }
            }
        }
        table
    }

    /// Numbers that were ever given: no set has a higher one.
    pub(crate) fn numbers(&self) -> usize {
        self.sets.borrow().len()
    }

    /// All sets as a superblock has them, numbers without one too.
    pub(crate) fn entries(&self) -> Changes {
        let all = self.entries_of(0..self.numbers()).into_iter().enumerate();
        all.map(|(at, entry)| (SetId(at as u32), entry)).collect()
    }

    /// The same of some numbers.
    pub(crate) fn entries_of(&self, numbers: Range<usize>) -> Vec<Option<SetEntry>> {
        let sets = self.sets.borrow();
        sets.get(numbers).unwrap_or_default().iter().map(|set| set.as_ref().map(|set| set.entry())).collect()
    }

    /// A number for this moment: what changes from now on has it, or a higher one. From here on it is kept what changes.
    pub(crate) fn changes_so_far(&self) -> u64 {
        self.shared.lists.changes.borrow_mut().now()
    }

    /// Superblock fields of the sets that changed since that moment; `live`: also of those of which only live bytes
    /// changed since that one.
    pub(crate) fn changes(&self, since: u64, live: Option<u64>) -> Changes {
        let changed = self.shared.lists.changes.borrow().since(since, live);
        let entry = |id: SetId| (id, self.get(id).map(|set| set.entry()));
        changed.into_iter().map(entry).collect()
    }

    /// Nobody asks for changes before that moment any more, or for those of live bytes before the other.
    pub(crate) fn forget_changes(&self, since: u64, live: u64) {
        self.shared.lists.changes.borrow_mut().forget(since, live);
    }

    /// Number of sets.
    pub(crate) fn len(&self) -> usize {
        self.sets.borrow().len() - self.unused.borrow().len()
    }

    pub(crate) fn get(&self, id: SetId) -> Option<Rc<ZoneSet>> {
        self.sets.borrow().get(id.0 as usize).cloned().flatten()
    }

    /// Adds an empty set, whose zones are reset before it is used, under the first number that is free.
    pub(crate) fn insert(&self, members: Vec<Member>) -> SetId {
        let free = self.unused.borrow().first().copied();
        let id = free.unwrap_or_else(|| {
            let mut sets = self.sets.borrow_mut();
            sets.push(None);
            SetId((sets.len() - 1) as u32)
        });
        self.put_back(id, ZoneSet::new(&self.shared, members, Life::Empty(Zones::Unclean)));
        id
    }

    /// Takes a set out of the table.
    pub(crate) fn remove(&self, id: SetId) -> Option<Rc<ZoneSet>> {
        let set = self.sets.borrow_mut().get_mut(id.0 as usize)?.take()?;
        set.unlist();
        self.unused.borrow_mut().insert(id);
        Some(set)
    }

    /// Puts a set back under its number.
    pub(crate) fn put_back(&self, id: SetId, set: Rc<ZoneSet>) {
        if let Some(place) = self.sets.borrow_mut().get_mut(id.0 as usize) {
            set.list(id);
            self.unused.borrow_mut().remove(&id);
            *place = Some(set);
        }
    }

    /// All sets with their numbers, in order, each as it is when its turn comes. For what is done once: at an opening,
    /// or when drives come and go. (AS-LIST-2)
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = (SetId, Rc<ZoneSet>)> {
        let ids = (0..self.sets.borrow().len()).map(|at| SetId(at as u32));
        ids.filter_map(|id| {
            let touched = &self.shared.lists.touched;
            touched.set(touched.get() + 1);
            Some((id, self.get(id)?))
        })
    }

    /// The sets of a list with their numbers, in order, each as it is when its turn comes.
    pub(crate) fn of(&self, list: List) -> impl Iterator<Item = (SetId, Rc<ZoneSet>)> {
        let mut last = None;
        std::iter::from_fn(move || {
            let id = self.shared.lists.next(list, last)?;
            last = Some(id);
            Some((id, self.get(id)?))
        })
    }

    /// The same from the last to the first.
    pub(crate) fn backwards(&self, list: List) -> impl Iterator<Item = (SetId, Rc<ZoneSet>)> {
        let mut last = None;
        std::iter::from_fn(move || {
            let id = self.shared.lists.back(list, last)?;
            last = Some(id);
            Some((id, self.get(id)?))
        })
    }

    /// Number of sets in a list.
    pub(crate) fn listed(&self, list: List) -> usize {
        self.shared.lists.count(list)
    }

    /// Number of sets in that state; but for empty ones, of those that can be used.
    pub(crate) fn count(&self, state: SetState) -> usize {
        self.listed(List::of(state))
    }

    /// Number of sets in each state: empty, available, open, closed, indexed, index.
    pub(crate) fn by_state(&self) -> [usize; 6] {
        let empty = [List::Empty, List::Unusable, List::Offered].into_iter().map(|list| self.listed(list)).sum();
        let [available, open, closed, indexed, index] =
            [List::Available, List::Open, List::Closed, List::Indexed, List::Index].map(|list| self.listed(list));
        [empty, available, open, closed, indexed, index]
    }

    /// Sets that hold nothing and can be used, but for those on some drives.
    pub(crate) fn free_without(&self, drives: &DriveSet) -> usize {
        [List::Empty, List::Offered, List::Available].into_iter().map(|list| self.listed_without(list, drives)).sum()
    }

    /// Number of sets in a list that are on none of those drives.
    pub(crate) fn listed_without(&self, list: List, without: &DriveSet) -> usize {
        if *without == DriveSet::EMPTY {
            return self.listed(list);
        }
        self.with_groups(|all| {
            let apart = all.iter().filter(|(drives, _)| !drives.meets(without));
            apart.map(|(_, group)| group.list(list).len()).sum()
        })
    }

    /// The first set behind `after` that holds something.
    pub(crate) fn next_holding(&self, after: Option<SetId>) -> Option<(SetId, Rc<ZoneSet>)> {
        let id = HOLDING.into_iter().filter_map(|list| self.shared.lists.next(list, after)).min()?;
        Some((id, self.get(id)?))
    }

    /// Number of sets behind `after` that hold something: counted without a look at them, and all the same one by one.
    pub(crate) fn holding_behind(&self, after: Option<SetId>) -> usize {
        HOLDING.into_iter().map(|list| self.shared.lists.count_behind(list, after)).sum()
    }

    /// Sets that will be closed or empty by themselves.
    pub(crate) fn coming(&self) -> Vec<Rc<ZoneSet>> {
        self.shared.lists.coming().into_iter().filter_map(|id| self.get(id)).collect()
    }

    /// Sets of which fragments are known to be torn, or not there, on drives that are.
    pub(crate) fn suspects(&self) -> Vec<SetId> {
        self.shared.lists.suspects()
    }

    /// The set to clean next, of those that `may` be, on drives that `may_on` names; `now` is a stamp.
    pub(crate) fn victim(
        &self,
        now: u64,
        may_on: impl Fn(&DriveSet) -> bool,
        may: impl Fn(SetId) -> bool,
    ) -> Option<(SetId, Rc<ZoneSet>)> {
        let id = self.shared.lists.victims.borrow().best(now, may_on, may)?;
        Some((id, self.get(id)?))
    }

    /// The groups of drives that sets lie on: as few as the layout makes, and those that rebuilds made.
    pub(crate) fn with_groups<T>(&self, look: impl FnOnce(&BTreeMap<DriveSet, Group>) -> T) -> T {
        self.shared.lists.with_groups(look)
    }

    /// Zones that the set with the fewest left lacks, of those that may hold something and whose drives `count`.
    pub(crate) fn most_lacking(
        &self,
        lost: impl IntoIterator<Item = DriveId>,
        count: impl Fn(&DriveSet) -> bool,
    ) -> usize {
        self.shared.lists.most_lacking(lost, count)
    }

    /// Drives of sets that may hold something.
    pub(crate) fn holding_drives(&self) -> DriveSet {
        self.shared.lists.holding_drives()
    }

    /// Drives that some set has a zone of, whether it holds anything or not.
    pub(crate) fn named_drives(&self) -> DriveSet {
        self.with_groups(|groups| groups.keys().fold(DriveSet::EMPTY, |all, drives| all.with(drives)))
    }

    /// Bytes that live in all sets, and bytes that they hold if they are filled.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        self.shared.lists.bytes()
    }

    /// Number of sets looked at or changed so far. (AS-LIST-2)
    #[cfg(test)]
    pub(crate) fn touched(&self) -> u64 {
        self.shared.lists.touched.get() + self.shared.lists.changes.borrow().touched.get()
    }

    /// Keeps `id` from being reset. `None` if there is no such set.
    pub(crate) fn pin(&self, id: SetId) -> Option<Pin> {
        let set = self.get(id)?;
        set.pinned();
        Some(Pin { set, unpinned: self.unpinned.clone() })
    }

    /// Waits until nobody pins `set`.
    pub(crate) async fn unpinned(&self, set: &ZoneSet) {
        loop {
            let unpinned = self.unpinned.notified();
            if !set.is_pinned() {
                return;
            }
            unpinned.await;
        }
    }

    /// More or fewer live bytes in a set.
    pub(crate) fn add_live(&self, id: SetId, bytes: u64) {
        if let Some(set) = self.get(id) {
            set.add_live(bytes);
        }
    }

    pub(crate) fn remove_live(&self, id: SetId, bytes: u64) {
        if let Some(set) = self.get(id) {
            set.remove_live(bytes);
        }
    }
}
