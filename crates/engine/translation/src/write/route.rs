//! Routes: to which frontier a write goes. They are data, and no code of a controller runs in the way of a write.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use tokio::sync::oneshot;

use super::piece::Piece;
use super::stream::{COLD, SEQUENTIAL, STREAMS, WRITES, of_writes};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::state::State;

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
    deferred: VecDeque<(Range<u64>, Vec<Piece>)>,
}

impl Router {
    /// The stream of a write to these sectors.
    fn choose(&mut self, state: &StateView<'_>, sectors: &Range<u64>) -> u8 {
        match self.route {
            Route::Single => WRITES,
            Route::Heat { young } => {
                if state.is_young(sectors.start, young) { WRITES } else { COLD }
            }
            Route::Sequential { sectors: least } => self.run_of(sectors, least),
        }
    }

    fn run_of(&mut self, sectors: &Range<u64>, least: u32) -> u8 {
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

    /// Gives up what waits.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Piece> {
        self.deferred.drain(..).flat_map(|(_, pieces)| pieces)
    }

    /// Nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.deferred.is_empty()
    }
}

/// The state, but for the router.
struct StateView<'s>(&'s State);

impl StateView<'_> {
    fn is_young(&self, lba: u64, young: u32) -> bool {
        let State { map, zones, opened, shape, .. } = self.0;
        let zone = map.get(lba).and_then(|extent| zones.get(shape.zone_of(extent.place)));
        zone.is_some_and(|zone| zone.order + u64::from(young) > *opened)
    }
}

impl Engine {
    /// Sends a write on its way, at once. The receiver hears when it is in the map.
    pub(super) fn send(
        self: &Rc<Self>,
        sectors: Range<u64>,
        mut pieces: Vec<Piece>,
    ) -> Result<oneshot::Receiver<Result<(), Failure>>, Failure> {
        let (done, receiver) = oneshot::channel();
        let mut state = self.state.borrow_mut();
        state.running()?;
        if self.closing.get() {
            return Err(Failure::gone());
        }
        if let Some(last) = pieces.last_mut() {
            last.done = Some(done);
        }
        state.router.deferred.push_back((sectors, pieces));
        self.send_deferred(&mut state);
        Ok(receiver)
    }

    /// Sends writes to their frontiers, in their order, up to one that overlaps others at several (TL-ORDER).
    pub(super) fn send_deferred(self: &Rc<Self>, state: &mut State) {
        while let Some((sectors, _)) = state.router.deferred.front() {
            let sectors = sectors.clone();
            let mut met = of_writes().filter(|&stream| state.frontiers[usize::from(stream)].touches(&sectors));
            let (met, several) = (met.next(), met.next().is_some());
            if several {
                return;
            }
            let stream = met.unwrap_or_else(|| {
                let mut router = std::mem::take(&mut state.router);
                let stream = router.choose(&StateView(state), &sectors);
                state.router = router;
                if state.may_open(stream) { stream } else { WRITES }
            });
            if let Some((_, pieces)) = state.router.deferred.pop_front() {
                self.enqueue(state, stream, pieces);
            }
        }
    }

    /// Writes go by another route from now on. Zones that only the one before wrote to are ended.
    pub(crate) fn set_route(self: &Rc<Self>, route: Route) {
        let unused: Vec<_> = {
            let mut state = self.state.borrow_mut();
            state.router.route = route;
            let used = |stream: u8| match route {
                Route::Single => stream == WRITES,
                Route::Heat { .. } => stream <= COLD,
                Route::Sequential { .. } => stream == WRITES || stream >= SEQUENTIAL,
            };
            let idle = |stream: &u8| state.frontiers[usize::from(*stream)].is_idle();
            let unused = of_writes().filter(|&stream| !used(stream)).filter(idle);
            unused.filter_map(|stream| Some((stream, state.frontiers[usize::from(stream)].zone?))).collect()
        };
        for (stream, zone) in unused {
            let ended = self.end_zone(stream, zone);
            self.rt.spawn_detached(async move {
                // A failure has stopped the volume, and told all.
                let _ = ended.await;
            });
        }
    }
}
