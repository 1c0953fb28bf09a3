//! Keys of a bucket that go from site to site, as listings see them. (PL-PLC-4)
//!
//! A key that moves is on both sites for a while. A listing asks the sites at different moments: it misses the key only if the
//! old copy goes after the listing began, and before it ended. So those removals are counted; a listing that one of them fell
//! into is made again, while no other begins.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Removals of old copies.
#[derive(Default)]
pub(crate) struct Moves {
    begun: AtomicU64,
    going: RwLock<()>,
}

impl Moves {
    /// From here on, until it is dropped, an old copy is removed; the new one is there.
    pub(crate) async fn begin(&self) -> RwLockReadGuard<'_, ()> {
        let going = self.going.read().await;
        self.begun.fetch_add(1, Ordering::SeqCst);
        going
    }

    /// Removals that have begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// Waits for those under way; until it is dropped none begins.
    pub(crate) async fn pause(&self) -> RwLockWriteGuard<'_, ()> {
        self.going.write().await
    }
}
