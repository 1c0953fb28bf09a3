//! The volatile cache: written blocks in sequential runs, which go to the journal or, if they are long, to their bands.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::command::Nanos;

/// Blocks that follow each other.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Blocks that are still here.
    pub(super) blocks: Range<u64>,
    /// Blocks that ever were.
    length: u64,
    /// Time of the last write to it.
    pub(super) last: Nanos,
    /// It is long: its blocks go to their bands.
    pub(super) streams: bool,
}

/// The runs, by the number of their first write.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    runs: BTreeMap<u64, Run>,
    /// Numbers of runs, by their ends.
    ends: BTreeMap<u64, u64>,
    /// Runs that do not stream, by the time of the last write.
    waiting: BTreeSet<(Nanos, u64)>,
    blocks: u64,
}

impl Runs {
    /// Blocks in all runs.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Takes in a write. A run that grows to `stream_min` blocks streams.
    pub(super) fn write(&mut self, range: &Range<u64>, now: Nanos, number: u64, stream_min: u64) {
        let length = range.end - range.start;
        self.blocks += length;
        let number = self.ends.remove(&range.start).unwrap_or(number);
        let new = Run { blocks: range.start..range.start, length: 0, last: now, streams: false };
        let run = self.runs.entry(number).or_insert(new);
        self.waiting.remove(&(run.last, number));
        (run.blocks.end, run.last) = (range.end, now);
        run.length += length;
        run.streams |= run.length >= stream_min;
        if !run.streams {
            self.waiting.insert((now, number));
        }
        // A run that ended there before goes on alone.
        self.ends.insert(range.end, number);
    }

    /// True if all of a range is here.
    pub(super) fn holds(&self, range: &Range<u64>) -> bool {
        let after = self.ends.range(range.end..).next().and_then(|(_, number)| self.runs.get(number));
        after.is_some_and(|run| run.blocks.start <= range.start && range.end <= run.blocks.end)
    }

    /// Time of the last write to the run that has waited longest, of those that do not stream.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.waiting.first().map(|&(last, _)| last)
    }

    /// Blocks of that run.
    pub(super) fn oldest_blocks(&self) -> Option<Range<u64>> {
        let &(_, number) = self.waiting.first()?;
        self.runs.get(&number).map(|run| run.blocks.clone())
    }

    /// Takes that run out; its number and its blocks.
    pub(super) fn take_oldest(&mut self) -> Option<(u64, Range<u64>)> {
        let (_, number) = self.waiting.pop_first()?;
        let run = self.runs.remove(&number)?;
        self.forget_end(&run, number);
        self.blocks -= run.blocks.end - run.blocks.start;
        Some((number, run.blocks))
    }

    /// The streaming run that began first, and its number.
    pub(super) fn stream(&self) -> Option<(u64, &Run)> {
        self.runs.iter().find(|(_, run)| run.streams).map(|(&number, run)| (number, run))
    }

    /// The blocks of a run before `to` have gone to their band. An empty run stays, and may go on.
    pub(super) fn gone(&mut self, number: u64, to: u64) {
        if let Some(run) = self.runs.get_mut(&number) {
            self.blocks -= to - run.blocks.start;
            run.blocks.start = to;
        }
    }

    /// Forgets a streaming run.
    pub(super) fn end_stream(&mut self, number: u64) {
        if let Some(run) = self.runs.remove(&number) {
            self.forget_end(&run, number);
            self.blocks -= run.blocks.end - run.blocks.start;
        }
    }

    /// True if a run with blocks began before that number.
    pub(super) fn has_before(&self, number: u64) -> bool {
        self.runs.range(..number).any(|(_, run)| !run.blocks.is_empty())
    }

    fn forget_end(&mut self, run: &Run, number: u64) {
        if self.ends.get(&run.blocks.end) == Some(&number) {
            self.ends.remove(&run.blocks.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_that_follow_each_other_are_one_run_which_streams_once_it_is_long() {
        let mut runs = Runs::default();
        runs.write(&(0..10), 5, 1, 30);
        runs.write(&(100..110), 6, 2, 30);
        runs.write(&(10..25), 7, 3, 30);
        assert_eq!((runs.oldest(), runs.oldest_blocks(), runs.blocks()), (Some(6), Some(100..110), 35));
        assert!(runs.holds(&(3..20)) && !runs.holds(&(20..30)) && runs.stream().is_none());
        runs.write(&(25..40), 8, 4, 30);
        let (number, run) = runs.stream().unwrap();
        assert_eq!((number, run.blocks.clone()), (1, 0..40));
        runs.gone(1, 30);
        assert_eq!((runs.blocks(), runs.has_before(1), runs.has_before(2)), (20, false, true));
        assert_eq!(runs.take_oldest(), Some((2, 100..110)));
        runs.end_stream(1);
        assert!(runs.is_empty() && runs.blocks() == 0 && !runs.holds(&(30..31)));
    }
}
