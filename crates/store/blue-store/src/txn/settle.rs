//! Effects of a batch that has become durable.

use shingle_base::ZoneId;

use super::batch::Settle;
use crate::engine::Engine;

impl Engine {
    /// Blocks that left zones in a batch are gone durably.
    pub(super) fn settle(&self, settle: Settle) {
        let mut state = self.state.borrow_mut();
        for zone in settle.held {
            state.zones.settle(ZoneId(zone));
            // It may be cleaned from now on. (BLU-VICTIM-1)
            state.looked.note(zone);
        }
    }
}
