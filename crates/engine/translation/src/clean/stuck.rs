//! Zones that cannot be emptied because some of what lives in them cannot be read: when they are tried again.
//!
//! **Owns** the pauses. **Knows nothing of** the reading.
//!
//! # Invariants
//! - TL-CLEAN-1: sectors that can be read again give room again, while writers wait within [`PAUSE_WITHOUT_ROOM`].
//!   (`zones_that_can_be_read_again_give_room_again`)

use std::time::Duration;

use shingle_base::ZoneId;

use crate::engine::Engine;
use crate::state::State;

/// Pause between two tries: a disk may take seconds for each block, and other reads wait meanwhile.
const PAUSE: Duration = Duration::from_secs(600);

/// The pause while writers wait for room.
const PAUSE_WITHOUT_ROOM: Duration = Duration::from_secs(15);

impl Engine {
    /// Some of what lives in a zone cannot be read.
    pub(super) fn note_stuck(&self, state: &mut State, zone: ZoneId) {
        state.stuck_at = Some(self.rt.now());
        state.zones.note_stuck(zone);
    }

    /// Time until stuck zones are tried again; `None` if there are none.
    pub(crate) fn stuck_for(&self) -> Option<Duration> {
        let state = self.state.borrow();
        let pause = if state.writers_wait() { PAUSE_WITHOUT_ROOM } else { PAUSE };
        let passed = self.rt.now().since(state.stuck_at?);
        Some(pause.saturating_sub(passed))
    }

    /// Makes stuck zones ones like others, once their pause is over.
    pub(crate) fn retry_stuck(&self) {
        if self.stuck_for() == Some(Duration::ZERO) {
            let mut state = self.state.borrow_mut();
            state.stuck_at = None;
            state.zones.unstick();
        }
    }
}
