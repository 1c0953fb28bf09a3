//! Tasks of a thread that wait while it works.

use std::cell::{Cell, RefCell};

use shingle_runtime::Instant;

/// A task, by its slot and by its own number: a slot is used again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub(crate) slot: usize,
    pub(crate) number: u64,
}

/// The part of a thread that its tasks share.
#[derive(Default)]
pub(crate) struct Lane {
    /// When its work is done.
    free_at: Cell<Instant>,
    /// Tasks that could run if it were.
    waiting: RefCell<Vec<TaskId>>,
}

impl Lane {
    pub(crate) fn free_at(&self) -> Instant {
        self.free_at.get()
    }

    /// It has work until then.
    pub(crate) fn works_until(&self, at: Instant) {
        self.free_at.set(at);
    }

    /// Puts a task off. True if it is the first one, so that nobody takes it back yet.
    pub(crate) fn put_off(&self, id: TaskId) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        waiting.push(id);
        waiting.len() == 1
    }

    pub(crate) fn take_waiting(&self) -> Vec<TaskId> {
        self.waiting.take()
    }
}
