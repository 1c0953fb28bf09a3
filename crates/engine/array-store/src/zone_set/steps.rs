//! The steps from one state of a zone set to the next, and what changes while it is what it is. (AS-LIFE-1)
//!
//! A step that is asked of a set in another state than it is for is a mistake of the engine; it changes nothing.

use std::collections::BTreeSet;

use shingle_runtime::Instant;

use super::life::{Ended, Filling, Full, Held, Life, Purpose, Zones};
use super::set::ZoneSet;
use crate::format::Member;
use crate::types::DriveId;

/// Recovery's findings about a set that holds something.
pub(crate) struct FoundToHold {
    pub(crate) end: u32,
    pub(crate) written: u32,
    pub(crate) closed: u64,
    pub(crate) hurt: bool,
    pub(crate) suspect: bool,
    pub(crate) stuck: bool,
}

impl ZoneSet {
    // From one state to the next.

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
    /// cleaning `packed` wins nothing until something in it dies (AS-CLEAN-3).
    pub(crate) fn has_ended(&self, end: u32, packed: bool) {
        self.step(|life| match life {
            Life::Ending(Filling { purpose, mut held, .. }, _) => {
                held.end = held.end.min(end);
                let full = match purpose {
                    Purpose::Objects => Full::Closed,
                    Purpose::Index => Full::Index,
                };
                if packed && full == Full::Closed {
                    held.no_gain_at = Some(held.died);
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

    /// It holds nothing any more: what was known of it goes, above all what a snapshot covers (AS-SET-3).
    pub(crate) fn emptied(&self, zones: Zones) {
        self.generation.set(self.generation.get() + 1);
        self.step(|_| Ok(Life::Empty(zones)));
    }

    /// Sets the state of an empty set's zones.
    pub(crate) fn zones_are(&self, zones: Zones) {
        self.step(|life| match life {
            Life::Empty(_) => Ok(Life::Empty(zones)),
            other => Err(other),
        });
    }

    /// Takes over recovery's findings: the set has ended, in any state before.
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

    /// The same where too much of it is unreadable to say what it holds; nothing from `end` on counts, also if it can be read
    /// again.
    pub(crate) fn found_damaged(&self, end: u32) {
        self.step(|life| {
            let held = match life {
                Life::Available => Held::default(),
                Life::Found(held) | Life::Ended(Ended { held, .. }) => held,
                other => return Err(other),
            };
            let held = Held { end: held.end.min(end), ..held };
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

    // Changes within a state.

    pub(crate) fn add_live(&self, bytes: u64) {
        self.change_held(|held| held.live += bytes);
    }

    /// A part of that many bytes died.
    pub(crate) fn remove_live(&self, bytes: u64) {
        self.change_held(|held| {
            debug_assert!(held.live >= bytes, "a set has fewer live bytes than are taken from it");
            held.live = held.live.saturating_sub(bytes);
            held.died += 1;
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

    /// Items at this block and behind it are void.
    pub(crate) fn ends_before(&self, block: u32) {
        self.change_held(|held| held.end = held.end.min(block));
    }

    /// When it was closed.
    pub(crate) fn closed_at(&self, stamp: u64) {
        self.change_held(|held| held.closed = stamp);
    }

    /// Marks it to be looked at, or not.
    pub(crate) fn set_suspect(&self, suspect: bool) {
        self.change_held(|held| held.suspect = suspect);
    }

    /// A member is short of what others have.
    pub(crate) fn hurt(&self) {
        self.change_held(|held| held.hurt = true);
    }

    /// Moving what lives there won nothing when so many had died: it wins nothing before another one does.
    pub(crate) fn wins_nothing_at(&self, died: u64) {
        self.change_held(|held| held.no_gain_at = Some(died));
    }

    /// Moving what lives there may win something again.
    pub(crate) fn may_win_again(&self) {
        self.change_held(|held| held.no_gain_at = None);
    }

    /// Marks that something in it can neither be read nor moved, or not.
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

    /// Puts `new` in the place of a member; `false` if it has no such member. The used part of its zones stays as it
    /// is.
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
