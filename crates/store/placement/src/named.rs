//! Values by name, each there while somebody uses it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many use a value, and the value.
type Used<T> = (usize, Arc<T>);

/// Values by name, made when they are first asked for.
pub(crate) struct Named<K: Ord, T>(Mutex<BTreeMap<K, Used<T>>>);

/// A value in use: all who use that name have the same one. The last of them takes it away.
pub(crate) struct InUse<'a, K: Ord, T> {
    all: &'a Named<K, T>,
    name: K,
    value: Arc<T>,
}

impl<K: Ord, T> Default for Named<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord, T> Named<K, T> {
    /// The value of that name.
    pub(crate) fn of(&self, name: K) -> InUse<'_, K, T>
    where
        K: Clone,
        T: Default,
    {
        let value = {
            let mut map = self.map();
            let (users, value) = map.entry(name.clone()).or_default();
            *users += 1;
            value.clone()
        };
        InUse { all: self, name, value }
    }

    fn map(&self) -> MutexGuard<'_, BTreeMap<K, Used<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord, T> InUse<'_, K, T> {
    /// The value, for guards of it that own it.
    pub(crate) fn share(&self) -> Arc<T> {
        self.value.clone()
    }
}

impl<K: Ord, T> Deref for InUse<'_, K, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<K: Ord, T> Drop for InUse<'_, K, T> {
    fn drop(&mut self) {
        let mut map = self.all.map();
        let Some((users, _)) = map.get_mut(&self.name) else { return };
        *users -= 1;
        if *users == 0 {
            map.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_shared_by_all_who_use_its_name_and_gone_after_them() {
        let all = Named::<u32, Mutex<u32>>::default();
        let first = all.of(1);
        *first.lock().unwrap() = 7;
        let second = all.of(1);
        drop(first);
        assert_eq!((*second.lock().unwrap(), *all.of(2).lock().unwrap()), (7, 0));
        drop(second);
        assert!(all.map().is_empty());
        assert_eq!(*all.of(1).lock().unwrap(), 0);
    }
}
