//! Forgetting the segments of blobs that nobody needs, a few at a time, and what readers and writers still hold.

use std::rc::Rc;

use tokio::sync::mpsc;

use crate::engine::Core;
use crate::indexer::{Command, Effect};
use crate::pins::Release;

/// Segments forgotten in one step.
const STEP: usize = 1000;

/// A blob that is being written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriterState {
    /// Segments that have arrived, or failed to.
    ended: u32,
    /// The writer has given it up, having sent so many.
    given_up: Option<u32>,
}

/// A writer's hold on its blob. Dropped, it gives the blob up; a commit that succeeds, or may have, keeps it.
#[derive(Debug)]
pub(crate) struct BlobHold {
    blob: u64,
    pub(crate) sent: u32,
    releases: Option<mpsc::UnboundedSender<Release>>,
}

impl BlobHold {
    pub(crate) fn new(blob: u64, releases: mpsc::UnboundedSender<Release>) -> Self {
        Self { blob, sent: 0, releases: Some(releases) }
    }

    /// The blob is not this writer's to give up any more.
    pub(crate) fn keep(mut self) {
        self.releases = None;
    }
}

impl Drop for BlobHold {
    fn drop(&mut self) {
        if let Some(releases) = self.releases.take() {
            // The engine may have stopped; the blob is then given up at the next start.
            let _ = releases.send(Release::Writer { blob: self.blob, sent: self.sent });
        }
    }
}

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
                self.writers.borrow_mut().entry(blob).or_default().given_up = Some(sent);
                self.settle_writer(blob);
            }
        }
    }

    /// A segment of a blob has arrived, or failed to.
    pub(crate) fn segment_ended(&self, blob: u64) {
        self.writers.borrow_mut().entry(blob).or_default().ended += 1;
        self.settle_writer(blob);
    }

    /// The blob was committed: its writer cannot give it up any more.
    pub(crate) fn writer_done(&self, blob: u64) {
        self.writers.borrow_mut().remove(&blob);
    }

    /// A blob that was given up is garbage once none of its segments can still arrive.
    fn settle_writer(&self, blob: u64) {
        let mut writers = self.writers.borrow_mut();
        let over = writers.get(&blob).is_some_and(|writer| writer.given_up.is_some_and(|sent| writer.ended >= sent));
        if over {
            writers.remove(&blob);
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
