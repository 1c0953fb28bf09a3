//! Zones that cannot be emptied because some of what lives in them cannot be read: when they are tried again. (ZF-CLEAN-4)
//!
//! **Owns** the pauses. **Knows nothing of** the reading.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use shingle_base::ZoneId;

use crate::engine::Engine;

/// Pause between two tries: a disk may take seconds for each block, and other reads wait meanwhile.
const PAUSE: Duration = Duration::from_secs(600);

/// The pause while writers wait for room.
const PAUSE_WITHOUT_ROOM: Duration = Duration::from_secs(15);

impl Engine {
    /// Some of what lives in a zone cannot be read. The next cleaning of it begins at byte `from` of a file, if it is given.
    pub(crate) fn note_stuck(&self, zone: ZoneId, from: Option<(u64, u64)>) {
        let now = self.rt.now();
        let mut state = self.state.borrow_mut();
        state.stuck_at = Some(now);
        state.zones.note_stuck(zone);
        if let Some(own) = state.zones.own_mut(zone) {
            own.from = from.unwrap_or_default();
        }
    }

    /// Time until stuck zones are tried again; `None` if there are none.
    fn stuck_for(&self) -> Option<Duration> {
        let state = self.state.borrow();
        let waits = state.lanes.all.iter().any(|lane| lane.own.waits);
        let pause = if waits { PAUSE_WITHOUT_ROOM } else { PAUSE };
        let passed = self.rt.now().since(state.stuck_at?);
        Some(pause.saturating_sub(passed))
    }

    /// Makes stuck zones ones like others, once their pause is over.
    pub(crate) fn retry_stuck(&self) {
        if self.stuck_for() != Some(Duration::ZERO) {
            return;
        }
        let mut state = self.state.borrow_mut();
        state.stuck_at = None;
        for zone in state.zones.unstick() {
            if let Some(own) = state.zones.own_mut(zone) {
                own.tried = false;
            }
        }
    }

    /// Rests until the keeper is woken, or stuck zones are to be tried again.
    pub(crate) async fn rest(&self, woken: impl Future<Output = ()>) {
        match self.stuck_for() {
            None => woken.await,
            Some(pause) => {
                select(pin!(woken), pin!(self.rt.sleep(pause))).await;
            }
        }
    }
}
