//! A zone set: what it is, who pins it, and where it is listed. (For what becomes of it see `steps`.)

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use shingle_base::Blocks;
use shingle_runtime::Instant;

use super::changes::Said;
use super::life::{Ended, Full, Held, Life, Phase, Zones};
use super::lists::{List, Mark};
use super::shared::Shared;
use super::victims::Candidate;
use crate::format::{Member, SetEntry};
use crate::segment::Shape;
use crate::types::{DriveSet, SetId, SetState};

/// A zone set.
pub(crate) struct ZoneSet {
    shared: Rc<Shared>,
    pub(super) life: RefCell<Life>,
    /// Its number, while it is in the table.
    listed: Cell<Option<SetId>>,
    pub(super) members: RefCell<Box<[Member]>>,
    /// Counts how often they changed.
    membership: Cell<u32>,
    drives: Cell<DriveSet>,
    /// Blocks of its shortest zone, and bytes of data that the set holds if it is filled with full segments.
    shortest: Cell<u32>,
    data: Cell<u64>,
    /// Counts how often it was emptied: what was said of an earlier life is not true of this one.
    pub(super) generation: Cell<u64>,
    /// Readers and others that need it as it is.
    pins: Cell<u32>,
}

impl Life {
    /// The set of a superblock's entry.
    pub(super) fn found(entry: &SetEntry) -> Self {
        let SetEntry { live, covered, end, length, suspect, .. } = *entry;
        let held = Held { live, covered, end, length, suspect, ..Held::default() };
        let ended = |full, held| Self::Ended(Ended { full, held, stuck: false });
        match entry.state {
            SetState::Empty => Self::Empty(Zones::Clean),
            SetState::Available => Self::Available,
            SetState::Open => Self::Found(held),
            SetState::Closed => ended(Full::Closed, held),
            SetState::Indexed => ended(Full::Indexed, held),
            SetState::Index => ended(Full::Index, held),
        }
    }
}

impl ZoneSet {
    pub(super) fn new(shared: &Rc<Shared>, members: Vec<Member>, life: Life) -> Rc<Self> {
        let set = Self {
            shared: shared.clone(),
            life: RefCell::new(life),
            listed: Cell::new(None),
            members: RefCell::new(Box::default()),
            membership: Cell::new(0),
            drives: Cell::default(),
            shortest: Cell::new(0),
            data: Cell::new(0),
            generation: Cell::new(0),
            pins: Cell::new(0),
        };
        set.set_members(members.into());
        Rc::new(set)
    }

    pub(super) fn set_members(&self, members: Box<[Member]>) {
        let capacity = |member: &Member| self.shared.drives.zone_capacity(member.drive);
        self.shortest.set(members.iter().map(capacity).min().unwrap_or(0));
        self.drives.set(members.iter().map(|member| member.drive).collect());
        self.members.replace(members);
        self.membership.set(self.membership.get().wrapping_add(1));
        self.measure();
    }

    pub(super) fn measure(&self) {
        self.data.set(Shape::most_data(self.shared.code, Blocks(u64::from(self.capacity()))));
    }

    // Its state.

    pub(crate) fn state(&self) -> SetState {
        self.life.borrow().state()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.life.borrow().phase()
    }

    /// The members, in the order of their drives.
    pub(crate) fn members(&self) -> Vec<Member> {
        self.members.borrow().to_vec()
    }

    pub(crate) fn width(&self) -> usize {
        self.members.borrow().len()
    }

    pub(crate) fn drives(&self) -> DriveSet {
        self.drives.get()
    }

    pub(crate) fn count_members(&self, which: impl Fn(&Member) -> bool) -> usize {
        self.members.borrow().iter().filter(|member| which(member)).count()
    }

    pub(crate) fn has_member(&self, which: impl Fn(&Member) -> bool) -> bool {
        self.members.borrow().iter().any(which)
    }

    /// The members in the order of the first segment's fragments: parity goes round with the set's number, and within
    /// the set as `Rotation` has it.
    pub(crate) fn ordered_members(&self, id: SetId) -> Vec<Member> {
        let mut ordered = self.members();
        let shift = id.0 as usize % ordered.len().max(1);
        ordered.rotate_left(shift);
        ordered
    }

    fn of_held<T>(&self, of: impl FnOnce(&Held) -> T) -> Option<T> {
        self.life.borrow().held().map(of)
    }

    /// Bytes of live parts. Something may live there all the same, without bytes
    /// ([`Engine::nothing_lives`](crate::engine::Engine::nothing_lives)).
    pub(crate) fn live(&self) -> u64 {
        self.of_held(|held| held.live).unwrap_or(0)
    }

    /// Blocks written in each of its zones.
    pub(crate) fn written(&self) -> u32 {
        self.of_held(|held| held.written).unwrap_or(0)
    }

    /// Items below this block are in the newest snapshot of the index.
    pub(crate) fn covered(&self) -> u32 {
        self.of_held(|held| held.covered).unwrap_or(0)
    }

    /// The block behind the last item that counts; all ones where that is not certain.
    pub(crate) fn end(&self) -> u32 {
        self.of_held(|held| held.end).unwrap_or(u32::MAX)
    }

    /// Blocks that can be used of each zone.
    pub(crate) fn capacity(&self) -> u32 {
        self.of_held(|held| held.length).unwrap_or(u32::MAX).min(self.shortest.get())
    }

    /// Bytes of data that it holds if it is filled with full segments.
    pub(crate) fn data(&self) -> u64 {
        self.data.get()
    }

    pub(crate) fn is_hurt(&self) -> bool {
        self.of_held(|held| held.hurt).unwrap_or(false)
    }

    /// Fragments of it are torn, or not there, on drives that are.
    pub(crate) fn is_suspect(&self) -> bool {
        self.of_held(|held| held.suspect).unwrap_or(false)
    }

    /// Parts that died there since it was opened or found.
    pub(crate) fn died(&self) -> u64 {
        self.of_held(|held| held.died).unwrap_or(0)
    }

    /// Moving what lives there may win something, as far as is known.
    pub(crate) fn may_win(&self) -> bool {
        self.of_held(Held::may_win).unwrap_or(true)
    }

    /// Counts how often it was emptied.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// Something in it can neither be read nor moved; or it is empty, and its zones cannot be reset.
    pub(crate) fn is_stuck(&self) -> bool {
        match &*self.life.borrow() {
            Life::Empty(zones) => *zones == Zones::Unusable,
            Life::Ended(ended) | Life::Leaving(ended, _) | Life::Resetting(ended, _) => ended.stuck,
            _ => false,
        }
    }

    /// It is empty, and a superblock will call it available.
    pub(crate) fn is_offered(&self) -> bool {
        matches!(&*self.life.borrow(), Life::Offered)
    }

    /// It is empty, and its zones may not be.
    pub(crate) fn is_unclean(&self) -> bool {
        matches!(&*self.life.borrow(), Life::Empty(Zones::Unclean | Zones::Unusable))
    }

    /// It was collected, and is reset when its last reader is gone, or is being reset.
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(&*self.life.borrow(), Life::Leaving(..) | Life::Resetting(..))
    }

    /// It holds nothing, nobody reads it, and no superblock that is being written offers it: it may be taken apart.
    pub(crate) fn idle(&self) -> bool {
        matches!(&*self.life.borrow(), Life::Empty(_)) && !self.is_pinned()
    }

    /// The same of one that is available.
    pub(crate) fn ready(&self) -> bool {
        matches!(&*self.life.borrow(), Life::Available) && !self.is_pinned()
    }

    /// Everything below this block is in the index.
    pub(crate) fn entered_below(&self) -> u32 {
        let life = self.life.borrow();
        let unentered = life.filling().and_then(|filling| filling.unentered.first().copied());
        unentered.or(life.held().map(|held| held.written)).unwrap_or(0)
    }

    /// True if an item that begins at this block is not in the index yet.
    pub(crate) fn is_unentered(&self, block: u32) -> bool {
        self.life.borrow().filling().is_some_and(|filling| filling.unentered.contains(&block))
    }

    /// True if everything in it is in the index.
    pub(crate) fn all_entered(&self) -> bool {
        self.life.borrow().filling().is_none_or(|filling| filling.unentered.is_empty())
    }

    /// Since when somebody waits for it to be closed or empty, where that comes by itself.
    pub(crate) fn awaited(&self) -> Option<Instant> {
        self.life.borrow().coming().flatten()
    }

    /// As a superblock has it.
    pub(crate) fn entry(&self) -> SetEntry {
        let life = self.life.borrow();
        let state = life.said();
        let held = life.held().filter(|_| state != SetState::Empty).cloned();
        let Held { live, covered, end, length, suspect, .. } = held.unwrap_or_default();
        SetEntry { state, members: self.members(), live, covered, end, length, suspect }
    }

    // Holds.

    pub(super) fn pinned(&self) {
        self.pins.set(self.pins.get() + 1);
    }

    /// Returns true if that was the last pin.
    pub(super) fn was_unpinned(&self) -> bool {
        self.pins.set(self.pins.get() - 1);
        !self.is_pinned()
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pins.get() > 0
    }

    // Lists.

    /// Its lists now.
    pub(super) fn mark(&self) -> Mark {
        let life = self.life.borrow();
        let list = match &*life {
            Life::Empty(Zones::Unusable) => List::Unusable,
            Life::Offered => List::Offered,
            life => List::of(life.state()),
        };
        let live = life.held().map_or(0, |held| held.live);
        let candidate = match &*life {
            Life::Ended(Ended { full: Full::Closed | Full::Indexed, held, stuck: false }) => {
                let data = self.data.get();
                let wins = held.may_win() && (live < data || live == 0);
                let (hurt, closed) = (held.hurt, held.closed);
                wins.then_some(Candidate { hurt, live, data, closed })
            }
            _ => None,
        };
        let comes = life.coming().is_some();
        let state = life.said();
        let held = life.held().filter(|_| state != SetState::Empty);
        let suspect = held.is_some_and(|held| held.suspect);
        let of_held = |of: fn(&Held) -> u32, none: u32| held.map_or(none, of);
        let said = Said {
            state,
            covered: of_held(|held| held.covered, 0),
            end: of_held(|held| held.end, u32::MAX),
            length: of_held(|held| held.length, u32::MAX),
            suspect,
            membership: self.membership.get(),
        };
        Mark { said, list, comes, drives: self.drives.get(), live, data: self.data.get(), candidate }
    }

    /// It is in the table from now on.
    pub(super) fn list(&self, id: SetId) {
        self.listed.set(Some(id));
        self.shared.lists.moved(id, None, Some(self.mark()));
    }

    /// It is in the table no more.
    pub(super) fn unlist(&self) {
        if let Some(id) = self.listed.take() {
            self.shared.lists.moved(id, Some(self.mark()), None);
        }
    }

    /// Changes it, and its place in the lists with it. (AS-LIST-1)
    pub(super) fn change<T>(&self, change: impl FnOnce(&Self) -> T) -> T {
        let Some(id) = self.listed.get() else { return change(self) };
        let before = self.mark();
        let done = change(self);
        self.shared.lists.moved(id, Some(before), Some(self.mark()));
        done
    }

    pub(super) fn change_life<T>(&self, change: impl FnOnce(&mut Life) -> T) -> T {
        self.change(|set| change(&mut set.life.borrow_mut()))
    }

    pub(super) fn change_held(&self, change: impl FnOnce(&mut Held)) {
        self.change_life(|life| life.held_mut().map(change));
    }

    /// From one state to the next; `step` gives a life back as it is where it is none of those that the step is for.
    pub(super) fn step(&self, step: impl FnOnce(Life) -> Result<Life, Life>) {
        self.change(|set| {
            let life = set.life.replace(Life::Available);
            let next = step(life).unwrap_or_else(|life| {
                debug_assert!(false, "a set is not what it was taken for: {life:?}");
                tracing::error!(?life, "a zone set is not what it was taken for");
                life
            });
            set.life.replace(next);
            set.measure();
        });
    }
}
