//! Appends that fail: those of a chunk that finds no zone, and all of them where the store stops.
//!
//! # Invariants
//! - CS-APP-6: an append that may be on the drive is answered `Device` or `Stopped`, never an error that says that nothing was
//!   written. `an_append_that_may_be_on_the_drive_is_not_refused_for_want_of_space`.

use std::rc::Rc;

use shingle_zoned::{DeviceError, DeviceErrorKind};

use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::index::Handle;
use crate::state::StoreState;

impl Engine {
    /// Stops the store, and fails every append that waits.
    pub(crate) fn stop(self: &Rc<Self>, why: &str) {
        let mut state = self.state.borrow_mut();
        state.stopped.get_or_insert_with(|| why.to_owned());
        self.unland_all(&mut state);
        let handles: Vec<Handle> = state.open.keys().copied().collect();
        for handle in handles {
            self.fail_appends(&mut state, handle, ErrorKind::Stopped, why);
        }
        self.wakes.all();
        self.wake_for_log();
    }

    /// Stops the store if a command found its drive gone.
    pub(crate) fn stop_if_gone(self: &Rc<Self>, error: &DeviceError) {
        if matches!(error.kind, DeviceErrorKind::Gone) {
            self.stop(&error.to_string());
        }
    }

    /// Fails all of a chunk's appends that have no zone. If any of them may have reached the drive, the chunk is
    /// sealed at its last durable byte, so that what it left there can never be taken for later data; and unless the store has
    /// stopped that is a failure of the drive, whatever `kind` says, for callers must not take them for absent (CS-APP-6).
    pub(crate) fn fail_appends(self: &Rc<Self>, state: &mut StoreState, handle: Handle, kind: ErrorKind, why: &str) {
        let Some((id, birth)) = state.chunks.get(handle).map(|chunk| (chunk.id, chunk.birth)) else { return };
        if state.open.get(&handle).is_none_or(|open| open.queue.is_empty()) {
            return;
        }
        // Records that were to move stay in their landing zone, for good unless they go anyway.
        let kept = !state.deletions.hides(id, handle) && state.stopped.is_none();
        if kept {
            self.adopt(state, handle);
        } else {
            self.cancel_moves(state, handle);
        }
        let Some(open) = state.open.get_mut(&handle) else { return };
        let failed = std::mem::take(&mut open.queue);
        let Some(first) = failed.front() else { return self.note_drained(state, handle) };
        open.end = first.offset;
        let tried = failed.iter().any(|pending| pending.tries > 0);
        let kind = if tried && kind != ErrorKind::Stopped { ErrorKind::Device } else { kind };
        for pending in failed {
            open.footprint = open.footprint.saturating_sub(pending.blocks);
            for waiter in pending.waiters {
                let _ = waiter.reply.send(Err(Error::new(kind, why).of(id)));
            }
        }
        if tried && !std::mem::replace(&mut open.sealing.needed, true) {
            self.rt.spawn(self.clone().seal_at_last(handle, birth));
        }
        self.note_drained(state, handle);
    }
}
