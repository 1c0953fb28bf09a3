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
    /// Runs that stream.
    streaming: BTreeSet<u64>,
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

    /// Takes in a write, and gives the number of its run. A run that grows to `stream_min` blocks streams.
    pub(super) fn write(&mut self, range: &Range<u64>, now: Nanos, number: u64, stream_min: u64) -> u64 {
        let length = range.end - range.start;
        self.blocks += length;
        let number = self.ends.remove(&range.start).unwrap_or(number);
        let new = Run { blocks: range.start..range.start, length: 0, last: now, streams: false };
        let run = self.runs.entry(number).or_insert(new);
        self.waiting.remove(&(run.last, number));
        (run.blocks.end, run.last) = (range.end, now);
        run.length += length;
        run.streams |= run.length >= stream_min;
        if run.streams {
            self.streaming.insert(number);
        } else {
            self.waiting.insert((now, number));
        }
        // A run that ended there before goes on alone.
        self.ends.insert(range.end, number);
        number
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
        let &(_, number) = self.waiting.first()?;
        self.take(number).map(|blocks| (number, blocks))
    }

    /// Takes out the runs that have blocks of a range and do not stream, in the order in which they began.
    pub(super) fn take_overlapping(&mut self, range: &Range<u64>) -> Vec<(u64, Range<u64>)> {
        let numbers = self.overlapping(range);
        numbers.into_iter().filter_map(|number| self.take(number).map(|blocks| (number, blocks))).collect()
    }

    /// The blocks of a range are not needed any more. A run that begins or ends in it becomes shorter; one around it, and one that
    /// streams, stays as it is.
    pub(super) fn forget(&mut self, range: &Range<u64>) {
        for number in self.overlapping(range) {
            let Some(run) = self.runs.get_mut(&number) else { continue };
            let (start, end) = (run.blocks.start, run.blocks.end);
            if range.start <= start && end <= range.end {
                self.take(number);
            } else if range.start <= start {
                run.blocks.start = range.end;
                self.blocks -= range.end - start;
            } else if end <= range.end {
                let before = run.clone();
                run.blocks.end = range.start;
                self.blocks -= end - range.start;
                self.forget_end(&before, number);
                self.ends.entry(range.start).or_insert(number);
            }
        }
    }

    /// True if a run streams.
    pub(super) fn streams(&self, number: u64) -> bool {
        self.runs.get(&number).is_some_and(|run| run.streams)
    }

    /// True while the blocks of a run before `to` are here.
    pub(super) fn has_of(&self, number: u64, to: u64) -> bool {
        self.runs.get(&number).is_some_and(|run| run.blocks.start < to.min(run.blocks.end))
    }

    fn overlapping(&self, range: &Range<u64>) -> Vec<u64> {
        let overlaps = |run: &Run| run.blocks.start < range.end && range.start < run.blocks.end;
        self.runs.iter().filter(|(_, run)| !run.streams && overlaps(run)).map(|(&number, _)| number).collect()
    }

    /// Takes out a run that does not stream.
    fn take(&mut self, number: u64) -> Option<Range<u64>> {
        let run = self.runs.remove(&number)?;
        self.waiting.remove(&(run.last, number));
        self.forget_end(&run, number);
        self.blocks -= run.blocks.end - run.blocks.start;
        Some(run.blocks)
    }

    /// The streaming run that began first, and its number.
    pub(super) fn stream(&self) -> Option<(u64, &Run)> {
        let &number = self.streaming.first()?;
        self.runs.get(&number).map(|run| (number, run))
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
        self.streaming.remove(&number);
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

    #[test]
    fn blocks_that_nobody_needs_are_forgotten_where_a_run_begins_or_ends() {
        let mut runs = Runs::default();
        runs.write(&(0..10), 1, 1, 30);
        runs.write(&(20..30), 2, 2, 30);
        runs.write(&(40..50), 3, 3, 30);
        runs.write(&(60..90), 4, 4, 30);
        runs.forget(&(5..45));
        assert_eq!((runs.blocks(), runs.holds(&(0..5)), runs.holds(&(45..50))), (40, true, true));
        assert!(!runs.holds(&(4..6)) && !runs.holds(&(20..21)) && !runs.holds(&(44..46)));
        runs.forget(&(47..48));
        runs.forget(&(0..100));
        assert_eq!((runs.blocks(), runs.stream().map(|(number, _)| number)), (30, Some(4)), "a stream goes on");
    }

    #[test]
    fn runs_with_blocks_of_a_range_come_out_in_the_order_in_which_they_began() {
        let mut runs = Runs::default();
        for (number, blocks) in [(1, 100..110), (2, 0..10), (3, 50..60), (4, 105..120)] {
            runs.write(&blocks, number, number, 1000);
        }
        assert_eq!(runs.take_overlapping(&(5..106)), [(1, 100..110), (2, 0..10), (3, 50..60), (4, 105..120)]);
        assert!(runs.is_empty() && runs.oldest().is_none());
    }
}
