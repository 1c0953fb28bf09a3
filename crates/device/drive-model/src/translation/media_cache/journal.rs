//! Journal entries: writes that are gathered, written to the log as one, and mapped when it is durable.

use std::collections::VecDeque;
use std::ops::Range;

use crate::command::{CommandId, Nanos};

/// A write on its way to the log.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// Host command that completes with it; `None` for blocks of the volatile cache.
    pub(super) id: Option<CommandId>,
    pub(super) blocks: Range<u64>,
    /// Number of the host's first write in it.
    pub(super) number: u64,
}

/// Present work of the journal.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Nothing.
    Idle,
    /// Writes gather until then.
    Gathers(Nanos),
    /// The map is merged, before the entry that makes it due.
    Merges,
    /// An entry is written.
    Writes { writes: Vec<Waiting>, quanta: Range<u64>, data: u64 },
}

/// Writes that wait for the journal, and its stage.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) stage: Stage,
    /// Entries ever written.
    pub(super) entries: u64,
    /// Their number when the map was merged last.
    pub(super) merged_at: u64,
}

impl Journal {
    pub(super) fn new() -> Self {
        Self { waiting: VecDeque::new(), stage: Stage::Idle, entries: 0, merged_at: 0 }
    }

    /// True if the next entry is one of those that merge the map first, and the map is not merged yet.
    pub(super) fn is_merge_due(&self, every: u64) -> bool {
        (self.entries + 1).is_multiple_of(every) && self.merged_at < self.entries
    }

    /// Nothing is on its way any more: an entry that was being written counts for nothing, and a merge is made again.
    pub(super) fn power_failed(&mut self) {
        if matches!(self.stage, Stage::Merges) {
            self.merged_at = 0;
        }
        self.waiting.clear();
        self.stage = Stage::Idle;
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle)
    }

    /// True if a read finds all its blocks among those on their way.
    pub(super) fn holds(&self, range: &Range<u64>) -> bool {
        self.on_their_way().any(|write| write.blocks.start <= range.start && range.end <= write.blocks.end)
    }

    /// True if a write on its way came before that number.
    pub(super) fn has_before(&self, number: u64) -> bool {
        self.on_their_way().any(|write| write.number < number)
    }

    /// Blocks are not needed any more: those of the volatile cache that wait are forgotten.
    pub(super) fn forget(&mut self, range: &Range<u64>) {
        let within = |write: &Waiting| range.start <= write.blocks.start && write.blocks.end <= range.end;
        self.waiting.retain(|write| write.id.is_some() || !within(write));
    }

    fn on_their_way(&self) -> impl Iterator<Item = &Waiting> {
        let written = match &self.stage {
            Stage::Writes { writes, .. } => writes.as_slice(),
            _ => &[],
        };
        self.waiting.iter().chain(written)
    }

    /// Takes the first writes out that fit into `blocks` and are at most `count`.
    pub(super) fn take(&mut self, blocks: u64, count: usize) -> Vec<Waiting> {
        let mut left = blocks;
        let fits = |write: &&Waiting| {
            let length = write.blocks.end - write.blocks.start;
            let fits = length <= left;
            left = left.saturating_sub(length);
            fits
        };
        let fitting = self.waiting.iter().take(count).take_while(fits).count();
        self.waiting.drain(..fitting).collect()
    }

    /// Puts writes back, for which the log has no room.
    pub(super) fn put_back(&mut self, writes: Vec<Waiting>) {
        writes.into_iter().rev().for_each(|write| self.waiting.push_front(write));
    }
}
