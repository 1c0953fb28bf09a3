//! The interface of controllers: programs that decide what is cleaned, where copies go, and how writes are divided. (FSTL, section
//! III-B.)
//!
//! The volume is safe without one and with any: a controller that dies, hangs or errs costs time, and no data.
//!
//! **Owns** the checks of commands. **Knows nothing of** policies.
//!
//! # Invariants
//! - TL-CTL-1: no command of a controller changes what a reader sees, or makes a zone be reset in which something lives.
//! - TL-CTL-2: a command names zones with their generation; if that is over, it does nothing and says so.
//! - TL-CTL-3: writers wait for a controller at most [`PATIENCE`](crate::room::PATIENCE); then the volume cleans by itself.

mod commands;
mod events;
mod view;

use std::rc::Rc;
use std::time::Duration;

use crate::engine::Engine;
use crate::room::PATIENCE;
use crate::state::Attached;

pub use events::Event;
pub use view::{Shape as ControlShape, ZoneName, ZoneUse, ZoneView};

/// A controller's handle to its volume. Cheap to clone; stays on the volume's thread.
#[derive(Clone)]
pub struct Control {
    engine: Rc<Engine>,
}

impl Control {
    /// Takes the place of the volume's own cleaner.
    pub(crate) fn attach(engine: &Rc<Engine>) -> Self {
        engine.state.borrow_mut().attached = Some(Attached::default());
        Self { engine: engine.clone() }
    }

    /// Gives cleaning back to the volume.
    pub fn detach(self) {
        self.engine.state.borrow_mut().attached = None;
        self.engine.keeper.wake();
    }

    fn note_command(&self) {
        if let Some(attached) = &mut self.engine.state.borrow_mut().attached {
            attached.commands += 1;
        }
    }
}

impl Engine {
    /// Time until the volume has to clean by itself, though a controller should; `None` if that is not to be.
    pub(crate) fn takes_over_in(&self) -> Option<Duration> {
        let state = self.state.borrow();
        let Some(attached) = state.attached.as_ref().filter(|_| !state.reclaim) else { return Some(Duration::ZERO) };
        let since = state.waiting_since?;
        let waited = self.rt.now().since(since);
        // One that has given no command since the volume last had to clean by itself is dead.
        let dead = attached.taken_over == Some(attached.commands);
        Some(if dead { Duration::ZERO } else { PATIENCE.saturating_sub(waited) })
    }

    /// The volume cleans by itself.
    pub(crate) fn take_over(&self) {
        let state = &mut *self.state.borrow_mut();
        if let Some(attached) = state.attached.as_mut().filter(|_| !state.reclaim) {
            attached.taken_over = Some(attached.commands);
        }
    }
}
