//! Places of those who write large objects: each stands for memory, so there are few.
//!
//! A writer with a place that hardly brings any bytes would keep all others from writing: one that is slower than any
//! link, over a while, ends as soon as another waits. Time in which the drives, or other calls, are waited for does not
//! count.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::errors::gone;
use crate::options::Options;

/// The places of an array.
pub(crate) struct Places {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// Time that a writer has in any case.
    grace: Duration,
    /// Bytes a second that it has to bring from then on.
    rate_min: u64,
}

/// Somebody waits, until this is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Places {
    pub(crate) fn new(options: &Options) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(options.writers_max.max(1))),
            waiting: AtomicUsize::new(0),
            grace: options.writer_grace,
            rate_min: options.writer_rate_min,
        })
    }

    /// Waits for a place.
    pub(crate) async fn take(&self) -> StoreResult<OwnedSemaphorePermit> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        let place = self.free.clone().acquire_owned().await;
        place.map_err(|_| gone(shingle_runtime::owner::Gone))
    }

    /// Refuses to go on with a writer that brought so many bytes in so much time of its own, if somebody waits.
    pub(crate) fn may_go_on(&self, bytes: u64, idle: Duration) -> StoreResult<()> {
        let due = idle.saturating_sub(self.grace).as_secs_f64() * self.rate_min as f64;
        if self.waiting.load(Ordering::Relaxed) == 0 || bytes as f64 >= due {
            return Ok(());
        }
        let message = "it comes too slowly, and others wait for its place: send it again, faster or later";
        Err(StoreError::new(StoreErrorKind::Busy, message))
    }
}
