//! Turns: one writer at a time appends, up to a number of segments, so that an object's segments lie together.
//! (SMORE, section V-D.)

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Error, Result};

/// Who may append. First come, first served.
pub(crate) struct Turns(Arc<Semaphore>);

/// A turn, until it is dropped.
pub(crate) struct Turn {
    _permit: OwnedSemaphorePermit,
    left: u32,
}

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Turns {
    /// Waits for a turn of `segments`.
    ///
    /// # Errors
    /// `Stopped` once there are no more.
    pub(crate) async fn take(&self, segments: u32) -> Result<Turn> {
        let permit = self.0.clone().acquire_owned().await.map_err(|_| Error::stopped())?;
        Ok(Turn { _permit: permit, left: segments })
    }

    /// There are no more turns; who waits for one learns it. Whoever has one may keep it for ever: a caller that polls
    /// its future no more.
    pub(crate) fn end(&self) {
        self.0.close();
    }
}

impl Turn {
    /// Counts a segment; whether the turn goes on.
    pub(crate) fn spend(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }
}
