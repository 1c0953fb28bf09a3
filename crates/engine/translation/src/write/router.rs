//! Routes: to which frontier a write goes. They are data, and no code of a controller runs in the way of a write.

use std::collections::VecDeque;
use std::ops::Range;

use super::piece::Piece;
use super::stream::{SEQUENTIAL, STREAMS, WRITES};

/// The choice of a frontier for each write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// One for all.
    #[default]
    Single,
    /// One for sectors that lie in one of the `young` zones opened last, which were written a short while ago; another for all
    /// others.
    Heat {
        /// Number of zones.
        young: u32,
    },
    /// One for each of up to four runs of sequential writes, from the sector on at which a run has so many behind it; another for all others.
    Sequential {
        /// Sectors of a run before it counts.
        sectors: u32,
    },
}

/// A run of sequential writes.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    next: u64,
    sectors: u64,
    stream: u8,
}

/// State of the choice, and writes that have to wait for it.
#[derive(Default)]
pub(crate) struct Router {
    pub(crate) route: Route,
    /// Latest first.
    runs: VecDeque<Run>,
    /// Writes that overlap others at several frontiers, and all that came after them.
    pub(super) deferred: VecDeque<(Range<u64>, Vec<Piece>)>,
}

impl Router {
    /// The stream of a write that may go on a run.
    pub(super) fn run_of(&mut self, sectors: &Range<u64>, least: u32) -> u8 {
        let streams = usize::from(STREAMS - SEQUENTIAL);
        let known = self.runs.iter().position(|run| run.next == sectors.start);
        let mut run = known.and_then(|at| self.runs.remove(at)).unwrap_or_else(|| {
            let oldest = if self.runs.len() < streams { None } else { self.runs.pop_back() };
            let stream = oldest.map_or(SEQUENTIAL + self.runs.len() as u8, |run| run.stream);
            Run { stream, ..Run::default() }
        });
        run.next = sectors.end;
        run.sectors += sectors.end - sectors.start;
        self.runs.push_front(run);
        if run.sectors >= u64::from(least) { run.stream } else { WRITES }
    }

    /// Gives up all that waits.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Piece> {
        self.deferred.drain(..).flat_map(|(_, pieces)| pieces)
    }

    /// Nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.deferred.is_empty()
    }
}
