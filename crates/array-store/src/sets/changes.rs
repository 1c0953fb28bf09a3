//! Which sets changed since a superblock said what they are.

use std::collections::{BTreeMap, BTreeSet};

use crate::types::{SetId, SetState};

/// What superblocks say of a set beside its live bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) state: SetState,
    pub(super) covered: u32,
    pub(super) end: u32,
    pub(super) length: u32,
    pub(super) suspect: bool,
    /// Counts how often its members changed.
    pub(super) membership: u32,
}

/// Sets that changed, with the number of their last change. Live bytes are counted anew unless an array was closed in order, so
/// only the superblock that says that it was needs theirs.
#[derive(Default)]
pub(super) struct ChangeLog {
    /// Somebody asks for changes.
    kept: bool,
    next: u64,
    said: BTreeMap<SetId, u64>,
    live: BTreeMap<SetId, u64>,
}

impl ChangeLog {
    pub(super) fn now(&mut self) -> u64 {
        self.kept = true;
        self.next
    }

    pub(super) fn changed(&mut self, id: SetId, said: bool, live: bool) {
        if !self.kept || !said && !live {
            return;
        }
        if said {
            self.said.insert(id, self.next);
        }
        if live {
            self.live.insert(id, self.next);
        }
        self.next += 1;
    }

    pub(super) fn since(&self, said: u64, live: Option<u64>) -> BTreeSet<SetId> {
        let those = self.said.iter().filter(|(_, number)| **number >= said).map(|(id, _)| *id);
        let lives = self.live.iter().filter(|(_, number)| live.is_some_and(|live| **number >= live));
        those.chain(lives.map(|(id, _)| *id)).collect()
    }

    pub(super) fn forget(&mut self, said: u64, live: u64) {
        self.kept &= said != u64::MAX;
        self.said.retain(|_, number| *number >= said);
        self.live.retain(|_, number| *number >= live);
    }
}
