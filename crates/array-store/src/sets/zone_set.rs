//! A zone set: its life, and the steps from one state to the next.
//!
//! A step that is asked of a set in another state than it is for is a mistake of the engine; it changes nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use shingle_base::Blocks;
use shingle_runtime::Instant;

use super::Shared;
use super::changes::Said;
use super::life::{Ended, Filling, Full, Held, Life, Phase, Purpose, Zones};
use super::lists::{List, Mark};
use super::victims::Candidate;
use crate::format::{Member, SetEntry};
use crate::segment::Shape;
use crate::types::{DriveId, DriveSet, SetId, SetState};

/// A zone set.
pub(crate) struct ZoneSet {
    shared: Rc<Shared>,
    life: RefCell<Life>,
    /// Its number, while it is in the table.
    listed: Cell<Option<SetId>>,
    members: RefCell<Box<[Member]>>,
    /// Counts how often they changed.
    membership: Cell<u32>,
    drives: Cell<DriveSet>,
    /// Blocks of its shortest zone, and bytes of data that the set holds if it is filled with full segments.
    shortest: Cell<u32>,
    data: Cell<u64>,
    /// Counts how often it was emptied: what was said of an earlier life is not true of this one.
    lives: Cell<u64>,
    /// Readers and others that need it as it is.
    holds: Cell<u32>,
}

impl Life {
    /// What a superblock says of a set.
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

/// What recovery found of a set that holds something.
pub(crate) struct FoundToHold {
    pub(crate) end: u32,
    pub(crate) written: u32,
    pub(crate) closed: u64,
    pub(crate) hurt: bool,
    pub(crate) suspect: bool,
    pub(crate) stuck: bool,
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
            lives: Cell::new(0),
            holds: Cell::new(0),
        };
        set.set_members(members.into());
        Rc::new(set)
    }

    fn set_members(&self, members: Box<[Member]>) {
        let capacity = |member: &Member| self.shared.drives.zone_capacity(member.drive);
        self.shortest.set(members.iter().map(capacity).min().unwrap_or(0));
        self.drives.set(members.iter().map(|member| member.drive).collect());
        self.members.replace(members);
        self.membership.set(self.membership.get().wrapping_add(1));
        self.measure();
    }

    fn measure(&self) {
        self.data.set(Shape::most_data(self.shared.code, Blocks(u64::from(self.capacity()))));
    }

    // What it is.

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

    /// The members in the order of the first segment's fragments: parity goes round with the set's number, and within the
    /// set as `Rotation` has it.
    pub(crate) fn ordered_members(&self, id: SetId) -> Vec<Member> {
        let mut ordered = self.members();
        let turn = id.0 as usize % ordered.len().max(1);
        ordered.rotate_left(turn);
        ordered
    }

    fn of_held<T>(&self, of: impl FnOnce(&Held) -> T) -> Option<T> {
        self.life.borrow().held().map(of)
    }

    /// Bytes of live parts.
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

    pub(crate) fn no_gain_at(&self) -> u64 {
        self.of_held(|held| held.no_gain_at).unwrap_or(u64::MAX)
    }

    /// Counts how often it was emptied.
    pub(crate) fn lives(&self) -> u64 {
        self.lives.get()
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
        matches!(&*self.life.borrow(), Life::Empty(_)) && !self.is_held()
    }

    /// The same of one that is available.
    pub(crate) fn ready(&self) -> bool {
        matches!(&*self.life.borrow(), Life::Available) && !self.is_held()
    }

    /// Everything below this block is in the index.
    pub(crate) fn entered_below(&self) -> u32 {
        let life = self.life.borrow();
        let unentered = life.filling().and_then(|filling| filling.unentered.first().copied());
        unentered.or(life.held().map(|held| held.written)).unwrap_or(0)
    }

    /// Whether an item that begins at this block is not in the index yet.
    pub(crate) fn is_unentered(&self, block: u32) -> bool {
        self.life.borrow().filling().is_some_and(|filling| filling.unentered.contains(&block))
    }

    /// Whether everything in it is in the index.
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
        let state = if matches!(*life, Life::Offered) { SetState::Available } else { life.state() };
        let Held { live, covered, end, length, suspect, .. } = life.held().cloned().unwrap_or_default();
        SetEntry { state, members: self.members(), live, covered, end, length, suspect }
    }

    // Holds.

    pub(super) fn held(&self) {
        self.holds.set(self.holds.get() + 1);
    }

    /// Whether that was the last hold.
    pub(super) fn released(&self) -> bool {
        self.holds.set(self.holds.get() - 1);
        !self.is_held()
    }

    pub(super) fn is_held(&self) -> bool {
        self.holds.get() > 0
    }

    // Lists.

    /// Where it belongs now.
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
                let wins = live < held.no_gain_at && live < data;
                let (hurt, closed) = (held.hurt, held.closed);
                (wins || live == 0).then_some(Candidate { hurt, live, data, closed })
            }
            _ => None,
        };
        let comes = life.coming().is_some();
        let state = if matches!(*life, Life::Offered) { SetState::Available } else { life.state() };
        let suspect = life.held().is_some_and(|held| held.suspect);
        let of_held = |of: fn(&Held) -> u32, none: u32| life.held().map_or(none, of);
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

    /// Changes it, and its place in the lists with it. (LIST-1)
    fn change<T>(&self, change: impl FnOnce(&Self) -> T) -> T {
        let Some(id) = self.listed.get() else { return change(self) };
        let before = self.mark();
        let done = change(self);
        self.shared.lists.moved(id, Some(before), Some(self.mark()));
        done
    }

    fn change_life<T>(&self, change: impl FnOnce(&mut Life) -> T) -> T {
        self.change(|set| change(&mut set.life.borrow_mut()))
    }

    fn change_held(&self, change: impl FnOnce(&mut Held)) {
        self.change_life(|life| life.held_mut().map(change));
    }

    /// From one state to the next; `step` gives a life back as it is where it is none of those that the step is for.
    fn step(&self, step: impl FnOnce(Life) -> Result<Life, Life>) {
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

    // The steps of its life. (LIFE-1)

    /// Empty to offered; its zones were reset, or are empty.
    pub(crate) fn offer(&self) {
        self.step(|life| match life {
            Life::Empty(_) => Ok(Life::Offered),
            other => Err(other),
        });
    }

    /// Offered to available, if a `durable` superblock says so; else it is empty as before.
    pub(crate) fn offered(&self, durable: bool) {
        self.step(|life| match life {
            Life::Offered if durable => Ok(Life::Available),
            Life::Offered => Ok(Life::Empty(Zones::Clean)),
            other => Err(other),
        });
    }

    /// Available to empty, so that it can be taken apart.
    pub(crate) fn withdraw(&self) {
        self.step(|life| match life {
            Life::Available => Ok(Life::Empty(Zones::Unclean)),
            other => Err(other),
        });
    }

    /// Available to open: a stream has it.
    pub(crate) fn open(&self, purpose: Purpose) {
        let filling = Filling { purpose, held: Held::default(), unentered: BTreeSet::new() };
        self.step(|life| match life {
            Life::Available => Ok(Life::Open(filling)),
            other => Err(other),
        });
    }

    /// Open to available: nothing was written to it.
    pub(crate) fn open_no_more(&self) {
        self.step(|life| match life {
            Life::Open(_) => Ok(Life::Available),
            other => Err(other),
        });
    }

    /// Found open, with a certain end, to open: a stream goes on there.
    pub(crate) fn reopen(&self) {
        self.step(|life| match life {
            Life::Found(held) => {
                let held = Held { end: u32::MAX, ..held };
                Ok(Life::Open(Filling { purpose: Purpose::Objects, held, unentered: BTreeSet::new() }))
            }
            other => Err(other),
        });
    }

    /// Open to ending: no stream has it any more.
    pub(crate) fn begin_to_end(&self) {
        self.step(|life| match life {
            Life::Open(filling) => Ok(Life::Ending(filling, None)),
            other => Err(other),
        });
    }

    /// Ending to ended: all that was written there is in the index, or given up; what counts lies before `end`. One that
    /// cleaning `packed` wins nothing until something in it dies (CLEAN-3).
    pub(crate) fn has_ended(&self, end: u32, packed: bool) {
        self.step(|life| match life {
            Life::Ending(Filling { purpose, mut held, .. }, _) => {
                held.end = held.end.min(end);
                let full = match purpose {
                    Purpose::Objects => Full::Closed,
                    Purpose::Index => Full::Index,
                };
                if packed && full == Full::Closed {
                    held.no_gain_at = held.live;
                }
                Ok(Life::Ended(Ended { full, held, stuck: false }))
            }
            other => Err(other),
        });
    }

    /// Ended to leaving: nothing in it is needed any more.
    pub(crate) fn leave(&self) {
        self.step(|life| match life {
            Life::Ended(ended) => Ok(Life::Leaving(ended, None)),
            Life::Leaving(ended, since) => Ok(Life::Leaving(ended, since)),
            other => Err(other),
        });
    }

    /// Leaving to resetting.
    pub(crate) fn begin_to_reset(&self) {
        self.step(|life| match life {
            Life::Leaving(ended, since) => Ok(Life::Resetting(ended, since)),
            other => Err(other),
        });
    }

    /// It holds nothing any more: what was known of it goes, above all what a snapshot covers (SET-3).
    pub(crate) fn emptied(&self, zones: Zones) {
        self.lives.set(self.lives.get() + 1);
        self.step(|_| Ok(Life::Empty(zones)));
    }

    /// What an empty set's zones are like.
    pub(crate) fn zones_are(&self, zones: Zones) {
        self.step(|life| match life {
            Life::Empty(_) => Ok(Life::Empty(zones)),
            other => Err(other),
        });
    }

    /// What recovery found in it: it has ended, whatever it was.
    pub(crate) fn found_to_hold(&self, found: FoundToHold) {
        let FoundToHold { end, written, closed, hurt, suspect, stuck } = found;
        self.step(|life| {
            let (full, held) = match life {
                Life::Available => (Full::Closed, Held::default()),
                Life::Found(held) => (Full::Closed, held),
                Life::Ended(ended) => (ended.full, ended.held),
                other => return Err(other),
            };
            let suspect = suspect || held.suspect;
            Ok(Life::Ended(Ended { full, held: Held { end, written, closed, hurt, suspect, ..held }, stuck }))
        });
    }

    /// The same where too much of it is unreadable to say what it holds.
    pub(crate) fn found_damaged(&self) {
        self.step(|life| {
            let held = match life {
                Life::Available => Held::default(),
                Life::Found(held) | Life::Ended(Ended { held, .. }) => held,
                other => return Err(other),
            };
            Ok(Life::Ended(Ended { full: Full::Closed, held, stuck: true }))
        });
    }

    /// A snapshot covers it up to that block; all of it where that is all ones, if it has ended.
    pub(crate) fn cover(&self, block: u32) {
        self.change_life(|life| {
            match life {
                Life::Ended(ended) | Life::Leaving(ended, _) | Life::Resetting(ended, _)
                    if ended.full == Full::Closed && block == u32::MAX =>
                {
                    ended.full = Full::Indexed;
                }
                _ => {}
            }
            if let Some(held) = life.held_mut() {
                held.covered = block;
            }
        });
    }

    // What changes while it is what it is.

    pub(crate) fn add_live(&self, bytes: u64) {
        self.change_held(|held| held.live += bytes);
    }

    pub(crate) fn remove_live(&self, bytes: u64) {
        self.change_held(|held| {
            debug_assert!(held.live >= bytes, "a set has fewer live bytes than are taken from it");
            held.live = held.live.saturating_sub(bytes);
        });
    }

    pub(crate) fn set_live(&self, bytes: u64) {
        self.change_held(|held| held.live = bytes);
    }

    pub(crate) fn set_written(&self, blocks: u32) {
        if let Some(held) = self.life.borrow_mut().held_mut() {
            held.written = blocks;
        }
    }

    /// What lies at this block and behind it is void.
    pub(crate) fn ends_before(&self, block: u32) {
        self.change_held(|held| held.end = held.end.min(block));
    }

    /// When it was closed.
    pub(crate) fn closed_at(&self, stamp: u64) {
        self.change_held(|held| held.closed = stamp);
    }

    /// Whether it is to be looked at.
    pub(crate) fn set_suspect(&self, suspect: bool) {
        self.change_held(|held| held.suspect = suspect);
    }

    /// A member is short of what others have.
    pub(crate) fn hurt(&self) {
        self.change_held(|held| held.hurt = true);
    }

    /// Moving what lives there wins nothing as long as it is that much.
    pub(crate) fn set_no_gain_at(&self, live: u64) {
        self.change_held(|held| held.no_gain_at = live);
    }

    /// Whether something in it can neither be read nor moved.
    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.change_life(|life| match life {
            Life::Empty(zones) if stuck => *zones = Zones::Unusable,
            Life::Empty(zones) if *zones == Zones::Unusable => *zones = Zones::Unclean,
            Life::Ended(ended) | Life::Leaving(ended, _) | Life::Resetting(ended, _) => ended.stuck = stuck,
            _ => {}
        });
    }

    /// Somebody waits for it since then, or nobody does.
    pub(crate) fn set_awaited(&self, since: Option<Instant>) {
        if let Some(awaited) = self.life.borrow_mut().coming_mut() {
            *awaited = since;
        }
    }

    /// An item at that block is on its way.
    pub(crate) fn set_out(&self, block: u32) {
        if let Some(filling) = self.life.borrow_mut().filling_mut() {
            filling.unentered.insert(block);
        }
    }

    /// An item at that block is in the index, or given up.
    pub(crate) fn entered(&self, block: u32) {
        if let Some(filling) = self.life.borrow_mut().filling_mut() {
            filling.unentered.remove(&block);
        }
    }

    /// Puts `new` in the place of a member; `false` if it has no such member. What is used of its zones stays as it is.
    pub(crate) fn replace_member(&self, old: Member, new: Member) -> bool {
        let mut members = self.members.borrow().clone();
        let Some(place) = members.iter_mut().find(|member| **member == old) else { return false };
        *place = new;
        let capacity = self.capacity();
        self.change(|set| {
            // Other members end where the shortest did, which this may have been.
            if let Some(held) = set.life.borrow_mut().held_mut() {
                held.length = capacity;
            }
            set.set_members(members);
        });
        true
    }

    /// A drive has another number.
    pub(crate) fn renumber(&self, old: DriveId, new: DriveId) {
        let mut members = self.members.borrow().clone();
        members.iter_mut().filter(|member| member.drive == old).for_each(|member| member.drive = new);
        self.change(|set| set.set_members(members));
    }
}
