//! Forgetting the segments of blobs that nobody needs, a few at a time, and what readers and writers still hold.

use std::rc::Rc;

use crate::engine::Core;
use crate::indexer::{Command, Effect};

/// Segments forgotten in one step.
const STEP: usize = 1000;

/// What a front end's reader or writer says when it is dropped.
#[derive(Clone, Debug)]
pub(crate) enum Release {
    /// A reader no longer needs a file.
    File(u64),
    /// A reader no longer needs blobs.
    Blobs(Vec<u64>),
    /// A writer has given up its blob.
    Writer(u64),
}

impl Core {
    /// Takes note of what was let go.
    pub(crate) fn release(&self, release: Release) {
        match release {
            Release::File(file) => {
                self.files.borrow_mut().unpin(file);
                self.changed.notify_waiters();
            }
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
            Release::Writer(blob) => {
                if let Some((_, given_up)) = self.writers.borrow_mut().get_mut(&blob) {
                    *given_up = true;
                    return;
                }
                self.submit_ahead(vec![Command::Abandon { blob }]);
            }
        }
    }

    /// A segment of `blob` is on its way; its writer's end waits for it.
    pub(crate) fn segment_begins(&self, blob: u64) {
        self.writers.borrow_mut().entry(blob).or_default().0 += 1;
    }

    /// It has arrived, or failed.
    pub(crate) fn segment_ends(&self, blob: u64) {
        let mut writers = self.writers.borrow_mut();
        let Some((under_way, given_up)) = writers.get_mut(&blob) else { return };
        *under_way = under_way.saturating_sub(1);
        if *under_way == 0 {
            let given_up = *given_up;
            writers.remove(&blob);
            if given_up {
                self.submit_ahead(vec![Command::Abandon { blob }]);
            }
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

    /// Forgets the segments of all dead blobs that no reader has open; whether there were any.
    pub(crate) async fn purge_all(&self) -> bool {
        let dead: Vec<u64> = {
            let pins = self.blob_pins.borrow();
            self.dead_blobs.borrow().iter().copied().filter(|blob| !pins.contains_key(blob)).collect()
        };
        let mut any = false;
        for blob in dead {
            any = true;
            // A reader may open it between two steps only if it was opened before: dead blobs are not found any more.
            while let Ok(effects) = self.submit(vec![Command::Purge { blob, limit: STEP }]).await {
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
