//! An array's way from its opening to its end, and the tasks that its end waits for. (AS-CLOSE-2)

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::error::{Error, Result};

/// Counts tasks that have to end before the index is closed. (AS-CLOSE-2)
#[derive(Clone, Default)]
pub(crate) struct Busy(Rc<BusyTasks>);

#[derive(Default)]
struct BusyTasks {
    count: Cell<usize>,
    ended: Notify,
}

/// A task, until this is dropped.
pub(crate) struct BusyTask(Busy);

impl Busy {
    pub(crate) fn begin(&self) -> BusyTask {
        self.0.count.set(self.0.count.get() + 1);
        BusyTask(self.clone())
    }

    pub(crate) async fn none(&self) {
        loop {
            let ended = self.0.ended.notified();
            if self.0.count.get() == 0 {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for BusyTask {
    fn drop(&mut self) {
        let tasks = &self.0.0;
        tasks.count.set(tasks.count.get() - 1);
        tasks.ended.notify_waiters();
    }
}

/// Progress of an array on that way.
#[derive(Default)]
pub(crate) struct Lifecycle {
    /// It is open for writing: drives that fail are written down.
    pub(crate) serving: Cell<bool>,
    /// No work is begun any more.
    pub(crate) stopped: Cell<bool>,
    /// The index refused a change that is on the drives. Nothing is written from then on: it would go by an index that lacks that. The
    /// next opening builds another one. (AS-IX-5)
    pub(crate) index_lacks: Cell<bool>,
    /// Work that closing it waits for.
    pub(crate) busy: Busy,
    /// Generation of the clean close that left this index.
    pub(crate) opened_clean: Cell<Option<u64>>,
}

impl Lifecycle {
    /// # Errors
    /// `Stopped` once the array ends.
    pub(crate) fn running(&self) -> Result<()> {
        if self.stopped.get() { Err(Error::stopped()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    /// AS-CLOSE-2.
    #[test]
    fn the_end_waits_for_all_tasks_also_for_those_begun_meanwhile() {
        let busy = Busy::default();
        let first = busy.begin();
        let mut none = pin!(busy.none());
        assert!(none.as_mut().now_or_never().is_none());
        let second = busy.begin();
        drop(first);
        assert!(none.as_mut().now_or_never().is_none());
        drop(second);
        assert!(none.as_mut().now_or_never().is_some());
    }

    #[test]
    fn an_array_that_ends_begins_no_work() {
        let lifecycle = Lifecycle::default();
        assert!(lifecycle.running().is_ok());
        lifecycle.stopped.set(true);
        assert_eq!(lifecycle.running().unwrap_err().kind, crate::ErrorKind::Stopped);
    }
}
