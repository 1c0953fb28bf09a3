//! Keys that go from site to site, as listings see them. (PL-PLC-4)
//!
//! A key that moves is on both sites for a while. A listing asks the sites at different moments: it misses the key only if the
//! old copy goes after the listing began, and before it ended. So those removals are counted, for each bucket; a listing that one of them
//! fell into is made again, while no other begins in its bucket. Buckets know nothing of each other's: a removal that a site does not
//! answer holds up no listing of another (PL-PLC-6).

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::named::{InUse, Named};

/// Removals of old copies, by bucket.
#[derive(Default)]
pub(crate) struct Moves(Named<String, BucketMoves>);

/// Removals of old copies in a bucket. They are counted as long as somebody has this.
#[derive(Default)]
pub(crate) struct BucketMoves {
    begun: AtomicU64,
    going: RwLock<()>,
}

impl Moves {
    /// Those of a bucket.
    pub(crate) fn of(&self, bucket: &str) -> InUse<'_, String, BucketMoves> {
        self.0.of(bucket.to_owned())
    }
}

impl BucketMoves {
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
