//! The zone that is cleaned next.

use shingle_base::ZoneId;

use crate::engine::Engine;
use crate::state::State;
use crate::write::{COPIES, STREAMS};
use crate::zones::Zone;

impl Engine {
    /// Copying what lives in a zone wins room, once nobody writes it.
    fn wins(&self, zone: &Zone) -> bool {
        // A zone with as many may be full of copies that are packed as well as they can be. (TL-SIZE-1)
        zone.live < u64::from(self.drive.layout.shape.scattered_sectors())
    }

    /// The closed zone of which copying wins most room; `None` if it wins none.
    pub(crate) fn victim(&self, state: &State) -> Option<ZoneId> {
        let candidates = state.zones.candidates().filter(|(_, zone)| self.wins(zone));
        candidates.min_by_key(|(_, zone)| zone.live).map(|(id, _)| id)
    }

    /// Frontiers whose zones would be victims if they were closed. The cleaner's own is none: it fills up as it cleans.
    fn open_victims<'s>(&'s self, state: &'s State) -> impl Iterator<Item = (u8, ZoneId, u64)> + 's {
        (0..STREAMS).filter(|&stream| stream != COPIES).filter_map(|stream| {
            let id = state.frontiers[usize::from(stream)].zone?;
            let zone = state.zones.get(id).filter(|zone| self.wins(zone) && !zone.stuck)?;
            Some((stream, id, zone.live))
        })
    }

    /// The stream that has nothing to write, and whose zone would be the best victim if it were closed. (TL-SIZE-1)
    pub(crate) fn idle_victim(&self, state: &State) -> Option<(u8, ZoneId)> {
        let idle = self.open_victims(state).filter(|(stream, ..)| state.is_idle(*stream));
        idle.min_by_key(|(_, _, live)| *live).map(|(stream, zone, _)| (stream, zone))
    }

    /// A zone that is written now will be a victim: when it is full, or its stream has nothing more to write.
    pub(crate) fn has_busy_victim(&self, state: &State) -> bool {
        self.open_victims(state).any(|(stream, ..)| !state.is_idle(stream))
    }
}
