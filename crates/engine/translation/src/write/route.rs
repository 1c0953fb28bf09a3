//! The way of a write to its frontier.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use shingle_store_api::StoreErrorKind;
use tokio::sync::oneshot;

use super::piece::Piece;
use super::queue::touches;
use super::router::Route;
use super::stream::{COLD, WRITES, of_writes};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::state::State;

impl State {
    /// The stream of a write to these sectors.
    fn choose_stream(&mut self, sectors: &Range<u64>) -> u8 {
        match self.router.route {
            Route::Single => WRITES,
            Route::Heat { young } => {
                if self.is_young(sectors.start, young) {
                    WRITES
                } else {
                    COLD
                }
            }
            Route::Sequential { sectors: least, .. } => self.router.run_of(sectors, least),
        }
    }

    /// The sector lies in one of the zones opened last.
    fn is_young(&self, lba: u64, young: u32) -> bool {
        let zone = self.maps.live.get(lba).and_then(|extent| self.zones.get(self.shape.zone_of(extent.place)));
        zone.is_some_and(|zone| zone.order + u64::from(young) > self.zones.opened())
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
        self.still_open()?;
        if sectors.end > state.sectors {
            // The call was made before the volume became smaller.
            return Err(behind_end());
        }
        if let Some(last) = pieces.last_mut() {
            last.done = Some(done);
        }
        if let Route::Sequential { align, .. } = state.router.route
            && align > 0
        {
            pieces = pieces.into_iter().flat_map(|piece| piece.cut_at(align, state.shape)).collect();
        }
        state.router.deferred.push_back((sectors, pieces));
        self.send_deferred(&mut state);
        Ok(receiver)
    }

    /// The volume has become smaller: writes that wait, and go beyond its end, fail (TL-SIZE-3). Those that were numbered have ended.
    pub(crate) fn refuse_behind_end(self: &Rc<Self>, state: &mut State) {
        let end = state.sectors;
        let mut refused = Vec::new();
        // Copies move only what lies in the volume still.
        for stream in of_writes() {
            let queue = &mut state.frontiers[usize::from(stream)].queue;
            let (behind, others) = queue.drain(..).partition::<VecDeque<Piece>, _>(|piece| piece.end() > end);
            *queue = others;
            refused.extend(behind);
        }
        refused.extend(state.router.take_deferred_behind(end));
        // The last piece of a write goes farthest, and has its caller.
        for done in refused.into_iter().filter_map(|piece| piece.done) {
            let _ = done.send(Err(behind_end()));
        }
        self.send_deferred(state);
    }

    /// Sends writes to their frontiers, in their order, up to one that overlaps others at several (TL-ORDER).
    pub(super) fn send_deferred(self: &Rc<Self>, state: &mut State) {
        while let Some((sectors, _)) = state.router.deferred.front() {
            let sectors = sectors.clone();
            let mut met = of_writes().filter(|&stream| touches(&state.frontiers[usize::from(stream)], &sectors));
            let (met, several) = (met.next(), met.next().is_some());
            if several {
                return;
            }
            let stream = met.unwrap_or_else(|| {
                let stream = state.choose_stream(&sectors);
                if state.may_open(stream) { stream } else { WRITES }
            });
            if let Some((_, pieces)) = state.router.deferred.pop_front() {
                self.enqueue(state, stream, pieces);
            }
        }
    }

    /// Writes go by another route from now on. Zones that only the one before wrote to are ended.
    pub(crate) fn set_route(self: &Rc<Self>, route: Route) {
        if self.still_open().is_err() {
            return;
        }
        let unused: Vec<_> = {
            let mut state = self.state.borrow_mut();
            state.router.route = route;
            let idle = |stream: &u8| state.is_idle(*stream);
            let unused = of_writes().filter(|&stream| !route.uses(stream)).filter(idle);
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

fn behind_end() -> Failure {
    Failure::new(StoreErrorKind::Invalid, "the write goes beyond the end of the volume, which has become smaller")
}
