//! Writing of journal entries: gathering, the place in the log, merges of the map.

use std::ops::Range;

use crate::command::{Nanos, Op};
use crate::translation::extents::Extent;
use crate::translation::managed::{Inside, Medium};

use super::journal::{Stage, Waiting};
use super::layer::{MediaCacheLayer, work};

impl MediaCacheLayer {
    /// Time at which the run that has waited longest goes to the journal.
    pub(super) fn run_due(&self) -> Option<Nanos> {
        let volatile = self.spec.volatile?;
        // While the journal is at work, its end lets things go on.
        let oldest = self.runs.oldest().filter(|_| self.journal.is_idle() && !self.full)?;
        Some(oldest + volatile.hold)
    }

    /// Moves runs that have waited long enough to the journal, as much as fits into an entry.
    fn take_runs(&mut self, now: Nanos) {
        let Some(volatile) = self.spec.volatile else { return };
        let mut room =
            self.spec.entry_max.saturating_sub(self.journal.waiting.iter().map(|write| length(&write.blocks)).sum());
        while let Some(oldest) = self.runs.oldest()
            && let Some(blocks) = self.runs.oldest_blocks()
            && (oldest + volatile.hold <= now || self.presses())
            && (length(&blocks) <= room || self.journal.waiting.is_empty())
        {
            room = room.saturating_sub(length(&blocks));
            let taken = self.runs.take_oldest();
            self.journal.waiting.extend(taken.map(|(number, blocks)| Waiting { id: None, blocks, number }));
        }
    }

    /// Lets the journal go on if it can.
    pub(super) fn go_journaling(&mut self, inside: &mut Inside) {
        let now = inside.now();
        match self.journal.stage {
            Stage::Idle => {
                self.take_runs(now);
                if !self.journal.waiting.is_empty() && !self.full {
                    // Blocks of the volatile cache have gathered already.
                    let gather = if self.spec.volatile.is_some() { 0 } else { self.spec.gather };
                    self.journal.stage = Stage::Gathers(now + gather);
                    if gather == 0 {
                        self.begin_entry(inside);
                    }
                }
            }
            Stage::Gathers(until) if until <= now => self.begin_entry(inside),
            _ => {}
        }
    }

    /// Begins an entry, or the merge of the map that comes before it.
    fn begin_entry(&mut self, inside: &mut Inside) {
        if self.journal.is_merge_due(self.spec.merge_every) {
            self.journal.merged_at = self.journal.entries;
            self.journal.stage = Stage::Merges;
            inside.run(Medium::Disk, Op::Write, self.layout.map_at(), self.spec.merge_blocks, work::JOURNAL);
            return;
        }
        self.write_entry(inside);
    }

    /// Writes an entry of what waits, if the cache has room for it.
    fn write_entry(&mut self, inside: &mut Inside) {
        self.journal.stage = Stage::Idle;
        let data_left = self.spec.data_max.saturating_sub(self.log.data());
        let room = (data_left * self.spec.quantum).min(self.spec.entry_max);
        let extents = self.spec.extents_max.saturating_sub(self.map.len());
        let mut writes = self.journal.take(room, extents);
        if writes.is_empty() && data_left > 0 && extents > 0 {
            // A write that is larger than an entry goes alone.
            writes = self.journal.waiting.pop_front().into_iter().collect();
        }
        let blocks: u64 = writes.iter().map(|write| length(&write.blocks)).sum();
        let data = blocks.div_ceil(self.spec.quantum);
        let quanta = data + self.spec.out_of_band;
        let place = if writes.is_empty() { None } else { self.place(inside, quanta) };
        let Some(at) = place else {
            self.journal.put_back(writes);
            self.full = true;
            return;
        };
        let written = (quanta * self.spec.quantum).saturating_sub(self.spec.gap).max(blocks);
        let start = self.log.in_ring(at) * self.spec.quantum;
        self.journal.entries += 1;
        self.journal.stage = Stage::Writes { writes, quanta: at..at + quanta, data };
        inside.run(Medium::Disk, Op::Write, start, written, work::JOURNAL);
    }

    /// The first quantum for an entry: of those within a turn the one that the head reaches first.
    fn place(&self, inside: &Inside, quanta: u64) -> Option<u64> {
        let places = (0..2).filter_map(|skip| self.log.place(quanta, skip));
        places.min_by_key(|&at| (inside.reach(self.log.in_ring(at) * self.spec.quantum), at))
    }

    /// The journal's internal command ended: the map is merged, or an entry is durable.
    pub(super) fn journaled(&mut self, inside: &mut Inside) {
        match std::mem::replace(&mut self.journal.stage, Stage::Idle) {
            Stage::Merges => self.write_entry(inside),
            Stage::Writes { writes, quanta, data } => {
                let first = self.log.in_ring(quanta.start) * self.spec.quantum;
                let extents = writes.iter().map(|write| write.blocks.clone()).collect();
                let owner = self.log.push(quanta, data, extents);
                let mut at = first;
                for write in writes {
                    let blocks = length(&write.blocks);
                    let replaced = self.map.insert(Extent { start: write.blocks.start, blocks, at, owner });
                    replaced.iter().for_each(|part| self.log.let_go(part.owner, part.blocks));
                    at += blocks;
                    if let Some(id) = write.id {
                        inside.complete(id);
                    }
                }
            }
            Stage::Idle | Stage::Gathers(_) => {}
        }
    }
}

fn length(range: &Range<u64>) -> u64 {
    range.end - range.start
}
