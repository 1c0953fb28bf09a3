//! Wakes of the tasks that work in the background. Each task waits on its own, and looks at the state when it wakes.

use tokio::sync::Notify;

/// One wake for each task.
#[derive(Default)]
pub(crate) struct Wakes {
    /// The task that opens, closes and resets zones.
    pub(crate) keeper: Notify,
    /// The task that moves landed bytes.
    pub(crate) mover: Notify,
    pub(crate) gc: Notify,
    pub(crate) checkpoint: Notify,
    pub(crate) marks: Notify,
    /// The task that refuses callers while the host is full.
    pub(crate) host: Notify,
    /// Callers that wait until the store is closed.
    pub(crate) closed: Notify,
}

impl Wakes {
    /// Wakes every task: the store has stopped.
    pub(crate) fn all(&self) {
        let Self { keeper, mover, gc, checkpoint, marks, host, closed: _ } = self;
        [keeper, mover, host, gc, checkpoint, marks].into_iter().for_each(Notify::notify_one);
    }
}
