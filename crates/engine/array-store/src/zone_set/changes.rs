//! Sets that changed since a superblock described them.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use crate::types::{SetId, SetState};

/// Fields of a set in superblocks beside its live bytes.
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

/// Sets by the number of their last change, each once: those since a moment are found without a look at the others.
#[derive(Default)]
struct Latest {
    number_of: BTreeMap<SetId, u64>,
    by_number: BTreeMap<u64, SetId>,
}

impl Latest {
    fn changed(&mut self, id: SetId, number: u64) {
        if let Some(before) = self.number_of.insert(id, number) {
            self.by_number.remove(&before);
        }
        self.by_number.insert(number, id);
    }

    fn since(&self, number: u64) -> impl Iterator<Item = SetId> {
        self.by_number.range(number..).map(|(_, id)| *id)
    }

    /// Forgets changes before that one.
    fn forget(&mut self, number: u64) {
        while let Some(oldest) = self.by_number.first_entry().filter(|oldest| *oldest.key() < number) {
            self.number_of.remove(&oldest.remove());
        }
    }
}

/// Sets that changed, with the number of their last change. Live bytes are counted anew unless an array was closed in
/// order, so only the superblock that says that it was needs theirs.
#[derive(Default)]
pub(super) struct ChangeLog {
    /// Somebody asks for changes.
    kept: bool,
    next: u64,
    said: Latest,
    live: Latest,
    /// Changes that were looked at. (AS-LIST-2)
    pub(super) touched: Cell<u64>,
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
            self.said.changed(id, self.next);
        }
        if live {
            self.live.changed(id, self.next);
        }
        self.next += 1;
    }

    pub(super) fn since(&self, said: u64, live: Option<u64>) -> BTreeSet<SetId> {
        let lives = live.into_iter().flat_map(|live| self.live.since(live));
        let looked_at = |_: &SetId| self.touched.set(self.touched.get() + 1);
        self.said.since(said).chain(lives).inspect(looked_at).collect()
    }

    pub(super) fn forget(&mut self, said: u64, live: u64) {
        self.kept &= said != u64::MAX;
        self.said.forget(said);
        self.live.forget(live);
    }
}
