//! Closing an array so that the next opening needs no recovery.

use std::rc::Rc;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::Change;

impl Engine {
    /// Leaves an index that was clean as clean as it was.
    fn close_as_it_was(&self) -> Result<()> {
        let Some(index) = self.take_index() else { return Err(Error::stopped()) };
        match self.opened_clean.get() {
            Some(generation) => index.close_clean(generation).map_err(Error::index),
            None => Ok(()),
        }
    }

    /// Ends what is under way, closes the index, and says so in a superblock.
    pub(crate) async fn close(self: &Rc<Self>) -> Result<()> {
        self.running()?;
        // From here on nothing starts. No lock is kept while another is waited for: whoever holds one ends soon.
        self.stopped.set(true);
        self.space.notify_waiters();
        for stream in &self.streams {
            let open = stream.lock().await;
            if let Some(open) = open.as_ref() {
                open.flights.drained().await;
            }
        }
        drop(self.collecting.lock().await);
        drop(self.snapshotting.lock().await);
        self.lost.notify_waiters();
        drop(self.membership.lock().await);
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
        let generation = self.generation.get() + 1;
        let Some(index) = self.take_index() else { return Err(Error::stopped()) };
        index.close_clean(generation).map_err(Error::index)?;
        self.write_superblock(Some(generation)).await
    }
}
