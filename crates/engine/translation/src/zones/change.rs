//! Changes of frontiers' zones: who takes or leaves one keeps others from it, and has its place among those that the drive allows.
//!
//! **Owns** the mark of a change. **Knows nothing of** its steps.

use std::rc::Rc;

use crate::engine::Engine;
use crate::state::State;
use crate::write::Own;

/// A frontier's zone is being taken; or it was left, and the drive has it active still. Its stream takes no zone meanwhile (TL-LIMIT-1), unless it
/// left a full one. A volume that closes waits for all. (TL-CLOSE-2)
pub(super) struct Change {
    engine: Rc<Engine>,
    stream: u8,
    count: fn(&mut Own) -> &mut u32,
}

impl Change {
    /// Begins a change in the step in which it is decided.
    pub(super) fn begin(engine: &Rc<Engine>, state: &mut State, stream: u8) -> Self {
        Self::counted(engine, state, stream, |own| &mut own.changes)
    }

    /// A full zone is being left.
    pub(super) fn leave_full(engine: &Rc<Engine>, state: &mut State, stream: u8) -> Self {
        Self::counted(engine, state, stream, |own| &mut own.leaving)
    }

    fn counted(engine: &Rc<Engine>, state: &mut State, stream: u8, count: fn(&mut Own) -> &mut u32) -> Self {
        *count(&mut state.frontiers[usize::from(stream)].own) += 1;
        Self { engine: engine.clone(), stream, count }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        *(self.count)(&mut self.engine.state.borrow_mut().frontiers[usize::from(self.stream)].own) -= 1;
        self.engine.wakes.room.notify_waiters();
        self.engine.wakes.idle.notify_waiters();
    }
}
