//! Closing an array so that the next opening needs no recovery.
//!
//! # Invariants
//! - AS-CLOSE-1: closing waits for nothing that a caller has to poll for: only for tasks of the engine, which end.
//! - AS-CLOSE-2: what was begun and may be found on the drives (versions whose end was written, deletions) is ended
//!   before the index is closed: else this opening and a later recovery would differ. So are digests: a set with a part
//!   of one would count as torn.
//! - AS-CLOSE-3: rebuilds, repairs, and drives that are being added or taken out end with it, between two of their writes, and
//!   resets of sets that hold nothing any more: once it returns another process may have the drives.

use std::rc::Rc;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::format::BufferName;
use crate::index::{Change, Moment};

impl Engine {
    fn moment(&self, generation: u64) -> Moment {
        Moment { array: self.array, generation }
    }

    /// Leaves an index that was clean as clean as it was.
    fn close_as_it_was(&self) -> Result<()> {
        let Some(index) = self.take_index() else { return Err(Error::stopped()) };
        match self.lifecycle.opened_clean.get() {
            Some(generation) => index.close_clean(self.moment(generation)).map_err(Error::index),
            None => Ok(()),
        }
    }

    /// Ends what is under way, closes the index, and says so in a superblock.
    pub(crate) async fn close(self: &Rc<Self>) -> Result<()> {
        self.running()?;
        if !self.options.background && !self.options.read_only {
            // Nothing did it meanwhile, and the next opening finds a clean array. (AS-EXAM-2)
            if let Err(error) = self.scrub_suspects().await {
                tracing::warn!(%error, "what a power cut tore is mended by the next scrub");
            }
        }
        let buffer = self.buffering.buffer.borrow().clone();
        if let Some(buffer) = buffer.as_ref().filter(|_| !self.options.read_only)
            && let Err(error) = self.flush(buffer, 0).await
        {
            tracing::warn!(%error, "what is buffered stays in the buffer's files");
        }
        // From here on nothing starts. No lock is kept while another is waited for: whoever holds one ends soon.
        self.lifecycle.stopped.set(true);
        self.allocator.end();
        self.space.notify_waiters();
        for flights in self.allocator.look(|open| open.flights.clone()) {
            flights.drained().await;
        }
        self.lifecycle.busy.none().await;
        self.cleaners.none().await;
        drop(self.snapshots.taking.lock().await);
        // Either may have closed a set.
        self.lifecycle.busy.none().await;
        // The next opening goes on there.
        self.allocator.look(|open| open.set.ends_before(open.next));
        self.membership.changed.notify_waiters();
        let given_up = self.puts.give_up_all().into_iter();
        let given_up = given_up.map(|(name, version)| Change::RemoveVersion { name, version });
        self.enter(&given_up.collect::<Vec<_>>())?;
        if self.options.read_only {
            return self.close_as_it_was();
        }
        if self.lifecycle.index_lacks.get() {
            // It is not left as that of an orderly end: the next opening builds another one. (AS-IX-5)
            drop(self.take_index());
            return self.writable();
        }
        if let Some(buffer) = buffer {
            // The next opening has it from the buffer's files again (AS-BUF-4).
            let left: Vec<Change> = buffer.left();
            self.enter(&left)?;
            // Objects in its files are in segments, too, or not needed.
            if left.is_empty() {
                self.buffering.named.set(BufferName::default());
            }
        }
        let generation = self.superblock.generation.get() + 1;
        let Some(index) = self.take_index() else { return Err(Error::stopped()) };
        index.close_clean(self.moment(generation)).map_err(Error::index)?;
        self.write_superblock(Some(generation)).await
    }
}
