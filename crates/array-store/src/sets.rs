//! The zone-set table: states, members, live bytes, holds. (SMORE, sections III-B and III-C.)
//!
//! # Invariants
//! - SET-1: a set receives writes only after a superblock called it available (or open): recovery looks at those. When one
//!   calls it available its zones are empty, durably.
//! - SET-2: a set's zones are reset only when nothing live is left in it and nobody reads it.
//! - SET-3: a set that is empty is covered by no snapshot, or recovery would pass over what comes next.
//! - SET-4: what a set holds is read off its zones only while nothing changes them, and under a hold, which keeps it so
//!   ([`crate::engine::Engine::settled`]). Nobody who waits for a change to end has a hold: the change may wait for it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use shingle_runtime::Instant;
use tokio::sync::Notify;

use crate::format::{Member, SetEntry};
use crate::types::{DriveSet, SetId, SetState};

/// What is being done to a set's zones. (SET-4)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing.
    Still,
    /// A stream has it open.
    Filling,
    /// No stream has it any more; its last writes are on their way, or what they wrote is not in the index yet.
    Ending,
    /// They are being reset.
    Resetting,
}

/// A zone set.
pub(crate) struct ZoneSet {
    pub(crate) state: Cell<SetState>,
    pub(crate) phase: Cell<Phase>,
    pub(crate) members: RefCell<Vec<Member>>,
    /// Bytes of live parts.
    pub(crate) live: Cell<u64>,
    /// Blocks written in each of its zones.
    pub(crate) written: Cell<u32>,
    /// Items below this block are in the newest snapshot of the index.
    pub(crate) covered: Cell<u32>,
    /// The block behind the last item that counts, from when that is certain: what lies behind it is void for ever (EXAM-3).
    /// All ones before, and where an older version closed the set: there everything counts that is found.
    pub(crate) end: Cell<u32>,
    /// Blocks that are used of its zones, where that is less than its shortest zone has: a shorter one was replaced.
    pub(crate) length: Cell<u32>,
    /// Counts how often it was emptied: what was said of an earlier life is not true of this one.
    pub(crate) life: Cell<u64>,
    /// It is empty, and the superblock that is being written calls it available (SET-1).
    pub(crate) offered: Cell<bool>,
    /// Readers and others that need it as it is.
    holds: Cell<u32>,
    /// First blocks of items that are on their way or not in the index yet.
    pub(crate) unentered: RefCell<BTreeSet<u32>>,
    /// Some of its zones are not empty although it is: they are reset before it is used.
    pub(crate) unclean: Cell<bool>,
    /// A member is short of what others have, or failed a write: to be cleaned before others.
    pub(crate) hurt: Cell<bool>,
    /// It was collected, and is reset when its last reader is gone.
    pub(crate) trimming: Cell<bool>,
    /// When somebody first waited for it to be reset or closed.
    pub(crate) awaited: Cell<Option<Instant>>,
    /// Moving what lives there won nothing when that was so much.
    pub(crate) no_gain_at: Cell<u64>,
    /// Something in it can neither be read nor moved.
    pub(crate) stuck: Cell<bool>,
    /// When it was closed: its age, for cleaning.
    pub(crate) closed: Cell<u64>,
}

impl ZoneSet {
    pub(crate) fn new(members: Vec<Member>, state: SetState) -> Rc<Self> {
        Rc::new(Self {
            state: Cell::new(state),
            phase: Cell::new(Phase::Still),
            members: RefCell::new(members),
            live: Cell::new(0),
            written: Cell::new(0),
            covered: Cell::new(0),
            end: Cell::new(u32::MAX),
            length: Cell::new(u32::MAX),
            life: Cell::new(0),
            offered: Cell::new(false),
            holds: Cell::new(0),
            unclean: Cell::new(false),
            hurt: Cell::new(false),
            unentered: RefCell::default(),
            trimming: Cell::new(false),
            awaited: Cell::new(None),
            no_gain_at: Cell::new(u64::MAX),
            stuck: Cell::new(false),
            closed: Cell::new(0),
        })
    }

    /// It holds nothing any more: what was known of it goes, above all what a snapshot covers (SET-3).
    pub(crate) fn emptied(&self) {
        self.live.set(0);
        self.covered.set(0);
        self.end.set(u32::MAX);
        self.length.set(u32::MAX);
        self.life.set(self.life.get() + 1);
        self.no_gain_at.set(u64::MAX);
        self.hurt.set(false);
        self.phase.set(Phase::Still);
        // Last: whoever sees an empty set may open it.
        self.state.set(SetState::Empty);
    }

    /// It holds nothing, nobody reads it, and no superblock that is being written offers it: it may be taken apart.
    pub(crate) fn idle(&self) -> bool {
        self.state.get() == SetState::Empty && self.untouched()
    }

    /// The same of one that is available.
    pub(crate) fn ready(&self) -> bool {
        self.state.get() == SetState::Available && self.untouched()
    }

    fn untouched(&self) -> bool {
        !self.offered.get() && !self.trimming.get() && self.holds.get() == 0
    }

    /// Everything below this block is in the index.
    pub(crate) fn entered_below(&self) -> u32 {
        self.unentered.borrow().first().copied().unwrap_or(self.written.get())
    }

    pub(crate) fn drives(&self) -> DriveSet {
        self.members.borrow().iter().map(|member| member.drive).collect()
    }

    /// The members in the order of the first segment's fragments: parity goes round with the set's number, and within the
    /// set as `Rotation` has it.
    pub(crate) fn ordered_members(&self, id: SetId) -> Vec<Member> {
        let members = self.members.borrow();
        let turn = id.0 as usize % members.len().max(1);
        let mut ordered = members.clone();
        ordered.rotate_left(turn);
        ordered
    }
}

/// Keeps a set's zones from being reset while it lives. (The shared lock of SMORE, section III-E.)
pub(crate) struct Hold {
    set: Rc<ZoneSet>,
    released: Rc<Notify>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.set.holds.set(self.set.holds.get() - 1);
        if self.set.holds.get() == 0 {
            self.released.notify_waiters();
        }
    }
}

/// All sets, by number.
#[derive(Default)]
pub(crate) struct SetTable {
    sets: RefCell<Vec<Option<Rc<ZoneSet>>>>,
    /// The last hold of some set went away.
    released: Rc<Notify>,
}

impl SetTable {
    pub(crate) fn from_entries(entries: &[Option<SetEntry>]) -> Self {
        let set = |entry: &SetEntry| {
            let set = ZoneSet::new(entry.members.clone(), entry.state);
            set.live.set(entry.live);
            set.covered.set(entry.covered);
            set.end.set(entry.end);
            set.length.set(entry.length);
            set
        };
        let sets = entries.iter().map(|entry| entry.as_ref().map(set)).collect();
        Self { sets: RefCell::new(sets), released: Rc::default() }
    }

    /// As a superblock has it.
    pub(crate) fn entries(&self) -> Vec<Option<SetEntry>> {
        let entry = |set: &Rc<ZoneSet>| SetEntry {
            state: if set.offered.get() { SetState::Available } else { set.state.get() },
            members: set.members.borrow().clone(),
            live: set.live.get(),
            covered: set.covered.get(),
            end: set.end.get(),
            length: set.length.get(),
        };
        self.sets.borrow().iter().map(|set| set.as_ref().map(entry)).collect()
    }

    pub(crate) fn get(&self, id: SetId) -> Option<Rc<ZoneSet>> {
        self.sets.borrow().get(id.0 as usize).cloned().flatten()
    }

    /// Adds a set under the first number that is free.
    pub(crate) fn insert(&self, set: Rc<ZoneSet>) -> SetId {
        let mut sets = self.sets.borrow_mut();
        let at = sets.iter().position(Option::is_none).unwrap_or(sets.len());
        if at == sets.len() {
            sets.push(None);
        }
        sets[at] = Some(set);
        SetId(at as u32)
    }

    /// Takes a set out of the table.
    pub(crate) fn remove(&self, id: SetId) -> Option<Rc<ZoneSet>> {
        self.sets.borrow_mut().get_mut(id.0 as usize)?.take()
    }

    /// Puts a set back under its number.
    pub(crate) fn put_back(&self, id: SetId, set: Rc<ZoneSet>) {
        if let Some(place) = self.sets.borrow_mut().get_mut(id.0 as usize) {
            *place = Some(set);
        }
    }

    /// All sets with their numbers, in order.
    pub(crate) fn all(&self) -> Vec<(SetId, Rc<ZoneSet>)> {
        let sets = self.sets.borrow();
        sets.iter().enumerate().filter_map(|(at, set)| Some((SetId(at as u32), set.clone()?))).collect()
    }

    /// The same, each as it is when its turn comes.
    pub(crate) fn one_by_one(&self) -> impl Iterator<Item = (SetId, Rc<ZoneSet>)> {
        let ids = (0..self.sets.borrow().len()).map(|at| SetId(at as u32));
        ids.filter_map(|id| Some((id, self.get(id)?)))
    }

    /// How many sets are in that state.
    pub(crate) fn count(&self, state: SetState) -> usize {
        self.sets.borrow().iter().flatten().filter(|set| set.state.get() == state).count()
    }

    /// The first set in that state.
    pub(crate) fn first(&self, state: SetState) -> Option<(SetId, Rc<ZoneSet>)> {
        let sets = self.sets.borrow();
        sets.iter().enumerate().find_map(|(at, set)| {
            let set = set.as_ref().filter(|set| set.state.get() == state)?;
            Some((SetId(at as u32), set.clone()))
        })
    }

    /// Keeps `id` from being reset. `None` if there is no such set.
    pub(crate) fn hold(&self, id: SetId) -> Option<Hold> {
        let set = self.get(id)?;
        set.holds.set(set.holds.get() + 1);
        Some(Hold { set, released: self.released.clone() })
    }

    /// Waits until nobody holds `set`.
    pub(crate) async fn unheld(&self, set: &ZoneSet) {
        loop {
            let released = self.released.notified();
            if set.holds.get() == 0 {
                return;
            }
            released.await;
        }
    }

    /// More or fewer live bytes in a set.
    pub(crate) fn add_live(&self, id: SetId, bytes: u64) {
        if let Some(set) = self.get(id) {
            set.live.set(set.live.get() + bytes);
        }
    }

    pub(crate) fn remove_live(&self, id: SetId, bytes: u64) {
        if let Some(set) = self.get(id) {
            debug_assert!(set.live.get() >= bytes, "{id} has fewer live bytes than are taken from it");
            set.live.set(set.live.get().saturating_sub(bytes));
        }
    }
}
