//! Forgetting the segments of blobs that nobody needs, a few at a time, and what readers and writers still hold.

use std::rc::Rc;

use crate::engine::Core;
use crate::files::pins::Release;
use crate::indexer::{Command, Effect};

/// Segments forgotten in one step.
const STEP: usize = 1000;

impl Core {
    /// Takes note of what was let go.
    pub(crate) fn release(&self, release: Release) {
        match release {
            Release::File => self.changed.notify_waiters(),
            Release::Blobs(blobs) => {
                let mut pins = self.blob_pins.borrow_mut();
                for blob in blobs {
                    match pins.get_mut(&blob) {
                        Some(count) if *count > 1 => *count -= 1,
                        _ => drop(pins.remove(&blob)),
                    }
                }
                self.purge_wanted.notify_one();
            }
            Release::Writer { blob, sent } => {
                let over = self.writers.borrow_mut().given_up(blob, sent);
                self.abandon_if(over, blob);
            }
        }
    }

    /// A segment of a blob has arrived, or failed to.
    pub(crate) fn segment_ended(&self, blob: u64) {
        let over = self.writers.borrow_mut().segment_ended(blob);
        self.abandon_if(over, blob);
    }

    /// The blob was committed: its writer cannot give it up any more.
    pub(crate) fn writer_done(&self, blob: u64) {
        self.writers.borrow_mut().committed(blob);
    }

    /// A blob that was given up is garbage once its writing is over.
    fn abandon_if(&self, over: bool, blob: u64) {
        if over {
            self.submit_ahead(vec![Command::Abandon { blob }]);
        }
    }

    /// Forgets segments of dead blobs until the engine closes.
    pub(crate) async fn run_purge(self: Rc<Self>) {
        loop {
            let wanted = self.purge_wanted.notified();
            if self.closing.get() || self.working().is_err() {
                return;
            }
            if !self.purge_all().await {
                wanted.await;
            }
        }
    }

    /// Forgets the segments of all dead blobs that no reader has open; whether it forgot any.
    pub(crate) async fn purge_all(&self) -> bool {
        let dead: Vec<u64> = {
            let pins = self.blob_pins.borrow();
            self.dead_blobs.borrow().iter().copied().filter(|blob| !pins.contains_key(blob)).collect()
        };
        let mut any = false;
        for blob in dead {
            // A reader may open it between two steps only if it was opened before: dead blobs are not found any more.
            while let Ok(effects) = self.submit(vec![Command::Purge { blob, limit: STEP }]).await {
                any = true;
                if effects.first() != Some(&Effect::More(true)) {
                    self.dead_blobs.borrow_mut().remove(&blob);
                    break;
                }
                if self.blob_pins.borrow().contains_key(&blob) {
                    break;
                }
            }
            if self.working().is_err() {
                return false;
            }
        }
        any
    }
}
