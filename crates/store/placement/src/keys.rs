//! One change of a key at a time.

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::named::{InUse, Named};

type Key = (String, String);

/// A lock for each key that is being changed: a change that waits for its site holds up no other key (PL-PLC-6). First come, first served.
/// A task that holds one takes no other.
#[derive(Default)]
pub(crate) struct KeyLocks(Named<Key, Mutex<()>>);

/// The turn of one who changes a key.
pub(crate) struct KeyTurn<'a> {
    _held: OwnedMutexGuard<()>,
    // After the guard: nobody gets another lock of that key before this one is free.
    _of: InUse<'a, Key, Mutex<()>>,
}

impl KeyLocks {
    /// Waits until nobody changes that key.
    pub(crate) async fn take(&self, bucket: &str, key: &str) -> KeyTurn<'_> {
        let of = self.0.of((bucket.to_owned(), key.to_owned()));
        KeyTurn { _held: of.share().lock_owned().await, _of: of }
    }
}
