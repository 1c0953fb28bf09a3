//! Closing an array so that the next opening needs no recovery.
//!
//! # Invariants
//! - CLOSE-1: closing waits for nothing that a caller has to poll for: only for tasks of the engine, which end.
//! - CLOSE-2: what was begun and may be found on the drives (versions whose end was written, deletions) is ended before the
//!   index is closed: else this opening and a later recovery would differ. So are digests: a set with a part of one would
//!   count as torn.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::format::BufferName;
use crate::index::{Change, Moment};

/// Counts tasks that have to end before the index is closed. (CLOSE-2)
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

    async fn none(&self) {
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

impl Engine {
    fn moment(&self, generation: u64) -> Moment {
        Moment { array: self.array, generation }
    }

    /// Leaves an index that was clean as clean as it was.
    fn close_as_it_was(&self) -> Result<()> {
        let Some(index) = self.take_index() else { return Err(Error::stopped()) };
        match self.opened_clean.get() {
            Some(generation) => index.close_clean(self.moment(generation)).map_err(Error::index),
            None => Ok(()),
        }
    }

    /// Ends what is under way, closes the index, and says so in a superblock.
    pub(crate) async fn close(self: &Rc<Self>) -> Result<()> {
        self.running()?;
        if !self.options.background && !self.options.read_only {
            // Nothing did it meanwhile, and the next opening finds a clean array. (EXAM-2)
            if let Err(error) = self.scrub_suspects().await {
                tracing::warn!(%error, "what a power cut tore is mended by the next scrub");
            }
        }
        let buffer = self.buffer.borrow().clone();
        if let Some(buffer) = buffer.as_ref().filter(|_| !self.options.read_only)
            && let Err(error) = self.flush(buffer, 0).await
        {
            tracing::warn!(%error, "what is buffered stays in the buffer's files");
        }
        // From here on nothing starts. No lock is kept while another is waited for: whoever holds one ends soon.
        self.stopped.set(true);
        self.allocator.end();
        self.space.notify_waiters();
        for flights in self.allocator.look(|open| open.flights.clone()) {
            flights.drained().await;
        }
        self.busy.none().await;
        self.cleaners.none().await;
        drop(self.snapshotting.lock().await);
        // Either may have closed a set.
        self.busy.none().await;
        // The next opening goes on there.
        self.allocator.look(|open| open.set.ends_before(open.next));
        self.lost.notify_waiters();
        let given_up: Vec<Change> = self
            .puts
            .borrow()
            .values()
            .filter(|progress| !progress.overtaken.replace(true))
            .map(|progress| Change::RemoveVersion { name: progress.name().clone(), version: progress.version })
            .collect();
        self.enter(&given_up)?;
        if self.options.read_only {
            return self.close_as_it_was();
        }
        if let Some(buffer) = buffer {
            // The next opening has it from the buffer's files again (BUF-4).
            let left: Vec<Change> = buffer.left();
            self.enter(&left)?;
            // What is in its files is in segments, too, or not needed.
            if left.is_empty() {
                self.named_buffer.set(BufferName::default());
            }
        }
        let generation = self.generation.get() + 1;
        let Some(index) = self.take_index() else { return Err(Error::stopped()) };
        index.close_clean(self.moment(generation)).map_err(Error::index)?;
        self.write_superblock(Some(generation)).await
    }
}
