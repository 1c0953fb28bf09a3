//! One change of a key at a time.

use tokio::sync::{Mutex, MutexGuard};

/// Locks; keys share them, which costs a wait now and then. A task that holds one takes no other.
const LOCKS: usize = 1024;

/// Locks by key: one change of a key at a time.
pub(crate) struct KeyLocks(Vec<Mutex<()>>);

impl Default for KeyLocks {
    fn default() -> Self {
        Self((0..LOCKS).map(|_| Mutex::default()).collect())
    }
}

impl KeyLocks {
    /// Waits until nobody changes that key.
    pub(crate) async fn take(&self, bucket: &str, key: &str) -> Option<MutexGuard<'_, ()>> {
        // FNV-1a.
        let bytes = bucket.bytes().chain([0]).chain(key.bytes());
        let hash = bytes
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let lock = self.0.get(hash as usize % LOCKS)?;
        Some(lock.lock().await)
    }
}
