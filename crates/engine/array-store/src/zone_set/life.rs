//! The life of a set: what it is, with what is known of it only then.
//!
//! ```text
//! Empty -> Offered -> Available -> Open -> Ending -> Ended -> Leaving -> Resetting -> Empty
//! ```
//!
//! A recovery finds sets [`Life::Found`], and a stream goes on there or they have ended.
//!
//! # Invariants
//! - AS-LIFE-1: only the methods of [`ZoneSet`](super::ZoneSet) take a set from one state to the next, and they keep
//!   the lists of all sets with it (AS-LIST-1). There is no state in which two of them are true of a set.

use std::collections::BTreeSet;

use shingle_runtime::Instant;

use crate::types::SetState;

/// State of an empty set's zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zones {
    /// Empty.
    Clean,
    /// Perhaps not: they are reset before the set is used.
    Unclean,
    /// They could not be reset.
    Unusable,
}

/// Purpose of a set while it is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Objects,
    /// A snapshot of the index.
    Index,
}

/// Kind of a set that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// It holds objects that no snapshot covers all of.
    Closed,
    /// A snapshot covers all of it.
    Indexed,
    /// It holds a snapshot.
    Index,
}

/// State of a set that may hold something.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// Bytes of live parts.
    pub(crate) live: u64,
    /// Blocks written in each of its zones.
    pub(crate) written: u32,
    /// Items below this block are in the newest snapshot of the index.
    pub(crate) covered: u32,
    /// The block behind the last item that counts, from when that is certain: what lies behind it is void for ever
    /// (AS-EXAM-3). All ones before, and where an older version closed the set: there everything counts that is found.
    pub(crate) end: u32,
    /// Blocks that are used of its zones, where that is less than its shortest zone has: a shorter one was replaced.
    pub(crate) length: u32,
    /// A member is short of what others have, or failed a write: to be cleaned before others.
    pub(crate) hurt: bool,
    /// Fragments of it are torn, or not there, on drives that are: it is to be looked at.
    pub(crate) suspect: bool,
    /// Parts that died there since it was opened or found.
    pub(crate) died: u64,
    /// Moving what lives there won nothing when so many had died.
    pub(crate) no_gain_at: Option<u64>,
    /// When it was closed: its age, for cleaning.
    pub(crate) closed: u64,
}

impl Held {
    /// Moving what lives there may win something: it was not found to win nothing, or something died since. Counted in parts: one without
    /// bytes takes room too. (AS-CLEAN-9)
    pub(crate) fn may_win(&self) -> bool {
        self.no_gain_at.is_none_or(|died| self.died > died)
    }
}

impl Default for Held {
    fn default() -> Self {
        Self {
            live: 0,
            written: 0,
            covered: 0,
            end: u32::MAX,
            length: u32::MAX,
            hurt: false,
            suspect: false,
            died: 0,
            no_gain_at: None,
            closed: 0,
        }
    }
}

/// A set that receives writes, or did until a moment ago.
#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) purpose: Purpose,
    pub(crate) held: Held,
    /// First blocks of items that are on their way or not in the index yet.
    pub(crate) unentered: BTreeSet<u32>,
}

/// A set of which nothing changes what it holds.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) full: Full,
    pub(crate) held: Held,
    /// Something in it can neither be read nor moved.
    pub(crate) stuck: bool,
}

/// State of a set.
#[derive(Debug)]
pub(crate) enum Life {
    /// It holds nothing, and may not be opened before a superblock calls it available (AS-SET-1).
    Empty(Zones),
    /// It is empty, and the superblock that is being written calls it available.
    Offered,
    /// It holds nothing, and may be opened at any time.
    Available,
    /// A superblock called it open, and nobody has it open: it is as the last opening left it.
    Found(Held),
    /// A stream has it open.
    Open(Filling),
    /// No stream has it any more; its last writes are on their way, or what they wrote is not in the index yet. With
    /// when somebody first waited for that.
    Ending(Filling, Option<Instant>),
    /// It holds what it holds.
    Ended(Ended),
    /// Nothing in it is needed: it is reset when its last reader is gone. With when somebody first waited for that.
    Leaving(Ended, Option<Instant>),
    /// Its zones are being reset.
    Resetting(Ended, Option<Instant>),
}

/// Work under way on a set's zones. (AS-SET-4)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing.
    Still,
    /// A stream has it open.
    Filling,
    /// Its last writes are on their way.
    Ending,
    /// They are being reset.
    Resetting,
}

impl Life {
    /// Its state, as far as it is settled: one that is offered may not be opened yet.
    pub(crate) fn state(&self) -> SetState {
        match self {
            Self::Empty(_) | Self::Offered => SetState::Empty,
            Self::Available => SetState::Available,
            Self::Found(_) => SetState::Open,
            Self::Open(filling) | Self::Ending(filling, _) => match filling.purpose {
                Purpose::Objects => SetState::Open,
                Purpose::Index => SetState::Index,
            },
            Self::Ended(ended) | Self::Leaving(ended, _) | Self::Resetting(ended, _) => match ended.full {
                Full::Closed => SetState::Closed,
                Full::Indexed => SetState::Indexed,
                Full::Index => SetState::Index,
            },
        }
    }

    /// Its state as a superblock has it: of one that is being reset, any subset of the zones may be empty next time.
    /// (AS-SET-5)
    pub(crate) fn said(&self) -> SetState {
        match self {
            Self::Offered => SetState::Available,
            Self::Resetting(..) => SetState::Empty,
            other => other.state(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self {
            Self::Empty(_) | Self::Offered | Self::Available | Self::Found(_) => Phase::Still,
            Self::Open(_) => Phase::Filling,
            Self::Ending(..) => Phase::Ending,
            // Readers of it go on, and others may begin.
            Self::Ended(_) | Self::Leaving(..) => Phase::Still,
            Self::Resetting(..) => Phase::Resetting,
        }
    }

    /// Its state, if it may hold something.
    pub(crate) fn held(&self) -> Option<&Held> {
        match self {
            Self::Empty(_) | Self::Offered | Self::Available => None,
            Self::Found(held) => Some(held),
            Self::Open(filling) | Self::Ending(filling, _) => Some(&filling.held),
            Self::Ended(ended) | Self::Leaving(ended, _) | Self::Resetting(ended, _) => Some(&ended.held),
        }
    }

    pub(crate) fn held_mut(&mut self) -> Option<&mut Held> {
        match self {
            Self::Empty(_) | Self::Offered | Self::Available => None,
            Self::Found(held) => Some(held),
            Self::Open(filling) | Self::Ending(filling, _) => Some(&mut filling.held),
            Self::Ended(ended) | Self::Leaving(ended, _) | Self::Resetting(ended, _) => Some(&mut ended.held),
        }
    }

    pub(crate) fn filling(&self) -> Option<&Filling> {
        match self {
            Self::Open(filling) | Self::Ending(filling, _) => Some(filling),
            _ => None,
        }
    }

    pub(crate) fn filling_mut(&mut self) -> Option<&mut Filling> {
        match self {
            Self::Open(filling) | Self::Ending(filling, _) => Some(filling),
            _ => None,
        }
    }

    /// Since when somebody waits for it to be closed or empty, where that comes by itself.
    pub(crate) fn coming(&self) -> Option<Option<Instant>> {
        match self {
            Self::Ending(_, since) | Self::Leaving(_, since) | Self::Resetting(_, since) => Some(*since),
            _ => None,
        }
    }

    pub(crate) fn coming_mut(&mut self) -> Option<&mut Option<Instant>> {
        match self {
            Self::Ending(_, since) | Self::Leaving(_, since) | Self::Resetting(_, since) => Some(since),
            _ => None,
        }
    }
}
