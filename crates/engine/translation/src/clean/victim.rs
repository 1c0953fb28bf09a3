//! The zone that is cleaned next.

use shingle_base::ZoneId;

use crate::engine::Engine;
use crate::state::State;
use crate::zones::Zone;

impl Engine {
    /// The closed zone of which copying wins most room; `None` if it wins none.
    pub(crate) fn victim(&self, state: &State) -> Option<ZoneId> {
        // A zone with as many may be full of copies that are packed as well as they can be. (TL-SIZE-1)
        let packed = u64::from(self.drive.layout.shape.scattered_sectors());
        let wins = |zone: &Zone| zone.live < packed;
        let candidates = state.zones.candidates().filter(|(_, zone)| wins(zone));
        candidates.min_by_key(|(_, zone)| zone.live).map(|(id, _)| id)
    }
}
