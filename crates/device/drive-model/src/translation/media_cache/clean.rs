//! Cleaning of one band: read it, read what the cache has of it, write all to the scratch place, and then over the band.
//! (Skylight, section 2.4.5 and Algorithm 1.)

use std::collections::VecDeque;
use std::ops::Range;

use crate::command::{Nanos, Op};
use crate::translation::extents::Extent;
use crate::translation::managed::Medium;
use crate::translation::steps::{Step, pieces};

use super::layout::Layout;

/// Time that the drive takes over each extent of a band, beside reading it: with it a band that was overwritten at every other
/// block takes the 1.6 s of Figure 2.11, and one with blocks in all entries the 45 s of section 2.4.9.
const ASSEMBLE: Nanos = 1_750_000;

/// A band that is being cleaned.
#[derive(Clone, Debug)]
pub(super) struct Cleaning {
    /// The cache's extents of the band, as they were read.
    pub(super) taken: Vec<Extent>,
    steps: VecDeque<Step>,
    /// Time that is left to be taken over the extents once they are read, and when it ends.
    assembles: Nanos,
    assembled: Option<Nanos>,
    /// A step is under way.
    pub(super) runs: bool,
}

impl Cleaning {
    pub(super) fn plan(band: &Range<u64>, taken: Vec<Extent>, layout: &Layout, map_blocks: u64) -> Self {
        let native = layout.native(band.start);
        let length = band.end - band.start;
        let mut steps = VecDeque::new();
        steps.extend(pieces(Medium::Disk, Op::Read, native, length));
        steps.extend(cached(&taken));
        steps.extend(pieces(Medium::Disk, Op::Write, layout.scratch_at(), length));
        steps.extend(pieces(Medium::Disk, Op::Write, native, length));
        steps.push_back(Step { medium: Medium::Disk, op: Op::Write, at: layout.map_at(), blocks: map_blocks });
        let assembles = ASSEMBLE * taken.len() as Nanos;
        Self { taken, steps, assembles, assembled: None, runs: false }
    }

    /// Time at which the next step can begin, unless that is now: the whole band is put together before any of it is written.
    pub(super) fn begins(&mut self, now: Nanos) -> Option<Nanos> {
        if self.assembles > 0 && self.steps.front().is_some_and(|step| step.op == Op::Write) {
            self.assembled = Some(now + std::mem::take(&mut self.assembles));
        }
        self.assembled = self.assembled.filter(|&at| at > now);
        self.assembled
    }

    /// The time for which it waits.
    pub(super) fn waits_until(&self) -> Option<Nanos> {
        self.assembled
    }

    /// The next step, which is then under way; `None` when all are done.
    pub(super) fn next(&mut self) -> Option<Step> {
        let step = self.steps.front().copied();
        self.runs = step.is_some();
        step
    }

    /// The step that is under way has ended.
    pub(super) fn ended(&mut self) {
        self.steps.pop_front();
        self.runs = false;
    }

    /// The cleaning after a loss of power: it goes on if the scratch place has the whole band, or else is forgotten.
    pub(super) fn after_power_failed(self, layout: &Layout) -> Option<Self> {
        let copies = |step: &Step| step.op == Op::Write && step.at < layout.scratch_at() + layout.scratch;
        let goes_on = !self.steps.iter().any(copies);
        goes_on.then_some(Self { runs: false, assembled: None, ..self })
    }
}

/// Reads of cached extents in the order of the log, each stretch of it at once.
fn cached(taken: &[Extent]) -> Vec<Step> {
    let mut places: Vec<(u64, u64)> = taken.iter().map(|extent| (extent.at, extent.blocks)).collect();
    places.sort_unstable();
    let mut steps: Vec<Step> = Vec::new();
    for (at, blocks) in places {
        match steps.last_mut().filter(|last| last.at + last.blocks == at) {
            Some(last) => last.blocks += blocks,
            None => steps.push(Step { medium: Medium::Disk, op: Op::Read, at, blocks }),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_is_read_with_its_cached_blocks_and_written_twice() {
        let layout = Layout { ring: 10_000, scratch: 2000, map: 100, middle: 5000 };
        let extent = |start, at| Extent { start, blocks: 4, at, owner: 0 };
        let taken = vec![extent(1000, 708), extent(1100, 700), extent(1200, 704)];
        let mut cleaning = Cleaning::plan(&(900..1900), taken, &layout, 10);
        let take = |cleaning: &mut Cleaning| cleaning.next().inspect(|_| cleaning.ended());
        let steps: Vec<Step> = std::iter::from_fn(|| take(&mut cleaning)).collect();
        let step = |op, at, blocks| Step { medium: Medium::Disk, op, at, blocks };
        assert_eq!(
            steps,
            [
                step(Op::Read, 12_900, 512),
                step(Op::Read, 13_412, 488),
                step(Op::Read, 700, 12),
                step(Op::Write, 10_000, 512),
                step(Op::Write, 10_512, 488),
                step(Op::Write, 12_900, 512),
                step(Op::Write, 13_412, 488),
                step(Op::Write, 17_000, 10),
            ]
        );
    }
}
