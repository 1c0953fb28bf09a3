//! The buckets that there are: the owner changes them, and callers on any thread look.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Buckets by name, and when each was created, in nanoseconds since 1970: few, and needed in every call. Clones are the same set.
/// Nobody holds it across a step.
#[derive(Clone, Debug, Default)]
pub struct Buckets(Arc<RwLock<BTreeMap<String, u64>>>);

impl Buckets {
    /// Those that were found at opening.
    pub(crate) fn new(buckets: BTreeMap<String, u64>) -> Self {
        Self(Arc::new(RwLock::new(buckets)))
    }

    /// True if there is such a bucket now. Only its gate keeps it. (BK-LOCK-2)
    pub fn has(&self, bucket: &str) -> bool {
        self.look().contains_key(bucket)
    }

    pub(crate) fn look(&self) -> RwLockReadGuard<'_, BTreeMap<String, u64>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change(&self) -> RwLockWriteGuard<'_, BTreeMap<String, u64>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all of them out.
    pub(crate) fn take(self) -> BTreeMap<String, u64> {
        mem::take(&mut *self.change())
    }
}
