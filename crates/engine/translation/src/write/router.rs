//! Routes: to which frontier a write goes. They are data, and no code of a controller runs in the way of a write.

use std::collections::VecDeque;
use std::ops::Range;

use super::piece::Piece;
use super::stream::{COLD, SEQUENTIAL, STREAMS, WRITES, is_run};

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
    /// One for each of up to four runs of sequential writes, once a run is so long; another for all others.
    Sequential {
        /// Sectors of a run before it counts.
        sectors: u32,
        /// A run goes on in another zone at each multiple of so many sectors; 0 = it fills its zones.
        align: u64,
    },
}

impl Route {
    /// Callers' writes to this stream may come.
    pub(crate) fn uses(self, stream: u8) -> bool {
        match self {
            Self::Single => stream == WRITES,
            Self::Heat { .. } => matches!(stream, WRITES | COLD),
            Self::Sequential { .. } => stream == WRITES || is_run(stream),
        }
    }

    /// A stream goes on in another zone at the multiples of so many sectors.
    pub(super) fn align_of(self, stream: u8) -> Option<u64> {
        match self {
            Self::Sequential { align, .. } if stream >= SEQUENTIAL => Some(align).filter(|&align| align > 0),
            _ => None,
        }
    }
}

/// Runs that are followed, those of random writes among them.
const RUNS: usize = 32;

/// A run of sequential writes.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    next: u64,
    sectors: u64,
    /// Its own stream, once it is long enough.
    stream: Option<u8>,
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
        let known = self.runs.iter().position(|run| run.next == sectors.start);
        let mut run = known.and_then(|at| self.runs.remove(at)).unwrap_or_default();
        run.next = sectors.end;
        run.sectors += sectors.end - sectors.start;
        if run.stream.is_none() && run.sectors >= u64::from(least) {
            run.stream = self.stream_for_run();
        }
        self.runs.truncate(RUNS - 1);
        self.runs.push_front(run);
        run.stream.unwrap_or(WRITES)
    }

    /// A stream that no run has, else that of the run that was idle longest.
    fn stream_for_run(&mut self) -> Option<u8> {
        let taken = |stream: u8| self.runs.iter().any(|run| run.stream == Some(stream));
        let free = (SEQUENTIAL..STREAMS).find(|&stream| !taken(stream));
        free.or_else(|| self.runs.iter_mut().rev().find_map(|run| run.stream.take()))
    }

    /// Pieces that wait for others, and sectors of them.
    pub(crate) fn deferred(&self) -> (u64, u64) {
        let pieces = || self.deferred.iter().flat_map(|(_, pieces)| pieces);
        (pieces().count() as u64, pieces().map(|piece| u64::from(piece.sectors)).sum())
    }

    /// Gives up writes that go beyond a sector.
    pub(super) fn take_deferred_behind(&mut self, end: u64) -> Vec<Piece> {
        let (behind, others) = self.deferred.drain(..).partition::<VecDeque<_>, _>(|(sectors, _)| sectors.end > end);
        self.deferred = others;
        behind.into_iter().flat_map(|(_, pieces)| pieces).collect()
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
