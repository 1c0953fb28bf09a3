//! Records that no progress mark names yet, by zone.

use std::collections::{BTreeMap, BTreeSet};

use shingle_base::{BLOCK_SIZE, ZoneId};

/// Records without a mark yet.
#[derive(Debug, Default)]
pub(crate) struct Unmarked {
    /// Blocks between marks; `None` where none are made.
    every: Option<u64>,
    /// Blocks written since the last.
    pub(crate) blocks: u64,
    /// Zones that have something to say.
    pub(crate) zones: BTreeSet<ZoneId>,
    /// Zones with records of which another copy was acknowledged, and may be reset (CS-MARK-5).
    pub(crate) moved: BTreeSet<ZoneId>,
    /// Stretches of zones that an opening read, behind what it could not read (CS-MARK-3).
    pub(crate) behind: BTreeMap<ZoneId, Vec<(u32, u32)>>,
}

impl Unmarked {
    /// Nothing, with marks due after so many bytes.
    pub(crate) fn new(every: Option<u64>) -> Self {
        Self { every: every.map(|bytes| bytes / BLOCK_SIZE as u64), ..Self::default() }
    }

    /// Blocks of a zone entered the index, or it was closed. Returns whether marks are due.
    pub(crate) fn note(&mut self, zone: ZoneId, blocks: u64) -> bool {
        let Some(every) = self.every else { return false };
        self.zones.insert(zone);
        self.blocks += blocks;
        self.blocks >= every
    }

    /// An opening read all between two blocks of a zone, and could not read what is before them.
    pub(crate) fn note_behind(&mut self, zone: ZoneId, stretch: (u32, u32)) {
        self.behind.entry(zone).or_default().push(stretch);
        self.moved.insert(zone);
    }

    /// Records that lie elsewhere, too, entered the index: the next reset waits for a mark of them, whether others are
    /// made or not.
    pub(crate) fn note_moved(&mut self, zone: ZoneId) {
        self.moved.insert(zone);
    }
}
