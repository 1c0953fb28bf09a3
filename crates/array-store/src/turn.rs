//! Turns: one writer at a time appends, up to a number of segments, so that an object's segments lie together.
//! (SMORE, section V-D.)

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

/// Who may append. First come, first served.
#[derive(Default)]
pub(crate) struct Turns(Arc<Mutex<()>>);

/// A turn, until it is dropped.
pub(crate) struct Turn {
    _guard: OwnedMutexGuard<()>,
    left: u32,
}

impl Turns {
    /// Waits for a turn of `segments`.
    pub(crate) async fn take(&self, segments: u32) -> Turn {
        Turn { _guard: self.0.clone().lock_owned().await, left: segments }
    }
}

impl Turn {
    /// Counts a segment; whether the turn goes on.
    pub(crate) fn spend(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }
}
