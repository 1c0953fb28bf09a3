//! Resets of garbage zones.
//!
//! **Knows nothing of** when a zone is to be reset: the keeper does, and is the only one to ask.
//!
//! # Invariants
//! - CS-ZONE-6: a zone that the drive does not call read-only or offline is not out of use because a command in it failed. One
//!   that cannot be reset for now is no garbage, which others would wait for, until it is tried again.
//!   `a_reset_that_fails_for_a_while_costs_no_zone`.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use shingle_base::ZoneId;
use shingle_zoned::{DeviceError, DeviceErrorKind, ZoneOp};

use crate::drive::HOST_PAUSE;
use crate::engine::Engine;
use crate::error::{Result, read_error};
use crate::format::JournalEntry;
use crate::types::ZoneStatus;
use crate::zones::Rest;

/// Resets of a zone one after the other: an error may be a passing one.
const TRIES_MAX: u32 = 4;

/// Pause between these.
const AGAIN: Duration = Duration::from_millis(10);

/// Rest of a zone that could not be reset, while others are.
const REST: Duration = Duration::from_secs(10);

impl Engine {
    /// Resets a garbage zone (CS-ZONE-2): the journal first, so that recovery never takes what it holds for alive, and
    /// knows where it went (CS-MARK-5).
    pub(super) async fn reset_zone(self: &Rc<Self>, zone: ZoneId) -> Result<()> {
        self.journal_room().await?;
        let (marked, journaled) = {
            let mut state = self.state.borrow_mut();
            let marked = self.mark_moved(&mut state);
            let epoch = state.zones.get(zone).epoch;
            (marked, self.journal(JournalEntry::Reset { zone, epoch }, self.sequence.next()))
        };
        join_all(marked).await.into_iter().collect::<Result<()>>()?;
        journaled.await?;
        let reset = self.reset_patiently(zone).await;
        if let Err((_, error)) = &reset {
            self.stop_if_gone(error);
        }
        let mut state = self.state.borrow_mut();
        state.counters.resets += 1;
        let Err((status, error)) = reset else {
            state.leases.ended(zone);
            state.zones.set_status(zone, ZoneStatus::Free);
            let slot = state.zones.get_mut(zone);
            (slot.written, slot.indexed_to, slot.marked_to, slot.live, slot.longest) = (0, 0, 0, 0, 0);
            slot.given_up_at = 0;
            return Ok(());
        };
        // All in it is dead still, and later openings go by that (CS-ZONE-5).
        state.leases.end(zone);
        state.zones.set_status(zone, status);
        if status == ZoneStatus::Closed {
            state.zones.get_mut(zone).resting = Some(Rest::Reset);
            let engine = self.clone();
            self.rt.spawn_detached(async move {
                engine.rt.sleep(REST).await;
                engine.end_rest(zone);
            });
        }
        Err(read_error(error))
    }

    /// A zone that could not be reset is garbage again, as any other.
    fn end_rest(&self, zone: ZoneId) {
        let mut state = self.state.borrow_mut();
        state.zones.get_mut(zone).resting = None;
        state.zones.note_garbage(zone);
        self.wakes.keeper.notify_one();
    }

    /// Has the drive reset a zone: in a few tries, and not while the host is full. Also tells what became of a zone that it did not reset.
    async fn reset_patiently(self: &Rc<Self>, zone: ZoneId) -> std::result::Result<(), (ZoneStatus, DeviceError)> {
        let mut tries = 1;
        loop {
            let Err(error) = self.drive.dev.manage(zone, ZoneOp::Reset).await else { return Ok(()) };
            if self.state.borrow().stopped.is_some() || matches!(error.kind, DeviceErrorKind::Gone) {
                return Err((ZoneStatus::Closed, error));
            }
            if error.kind.is_host_full() {
                self.note_host_full(zone, &error);
                self.refuse_waiting();
                self.rt.sleep(HOST_PAUSE).await;
                continue;
            }
            let status = self.status_after_error(zone, &error).await;
            if tries == TRIES_MAX || status != ZoneStatus::Closed {
                return Err((status, error));
            }
            tries += 1;
            self.rt.sleep(AGAIN).await;
        }
    }
}
