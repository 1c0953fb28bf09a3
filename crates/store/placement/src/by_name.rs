//! Things that belong to a name each, as long as somebody uses them.
//!
//! # Invariants
//! - PL-NAME-1: names share nothing: callers who wait for one, if need be for ever, keep nobody from another.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// A `T` for each name that is in use.
pub(crate) struct ByName<T>(Mutex<BTreeMap<String, Shared<T>>>);

struct Shared<T> {
    users: usize,
    thing: Arc<T>,
}

/// The thing of a name. With its last user it goes.
pub(crate) struct Used<'a, T> {
    all: &'a ByName<T>,
    name: String,
    thing: Arc<T>,
}

/// One user of a name at a time.
pub(crate) struct Turn<'a> {
    // Given back before the name is.
    _turn: OwnedMutexGuard<()>,
    _used: Used<'a, AsyncMutex<()>>,
}

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> ByName<T> {
    fn names(&self) -> MutexGuard<'_, BTreeMap<String, Shared<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default> ByName<T> {
    /// The thing of `name`, which all present users share.
    pub(crate) fn of(&self, name: &str) -> Used<'_, T> {
        let mut names = self.names();
        let shared = names.entry(name.to_owned()).or_insert_with(|| Shared { users: 0, thing: Arc::default() });
        shared.users += 1;
        Used { all: self, name: name.to_owned(), thing: shared.thing.clone() }
    }
}

impl ByName<AsyncMutex<()>> {
    /// Waits until nobody has the turn of `name`.
    pub(crate) async fn turn(&self, name: &str) -> Turn<'_> {
        let used = self.of(name);
        Turn { _turn: used.thing.clone().lock_owned().await, _used: used }
    }
}

impl<T> Deref for Used<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.thing
    }
}

impl<T> Drop for Used<'_, T> {
    fn drop(&mut self) {
        let mut names = self.all.names();
        if let Some(shared) = names.get_mut(&self.name) {
            shared.users -= 1;
            if shared.users == 0 {
                names.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// PL-NAME-1.
    #[test]
    fn a_name_is_kept_for_those_who_use_it_and_for_nobody_else() {
        let turns = ByName::<AsyncMutex<()>>::default();
        let first = turns.turn("a").now_or_never().unwrap();
        let mut second = Box::pin(turns.turn("a"));
        assert!(second.as_mut().now_or_never().is_none());
        let others: Vec<_> = (0..5000).map(|name| turns.turn(&name.to_string()).now_or_never().unwrap()).collect();
        assert_eq!(turns.names().len(), 5001);
        drop(others);
        // One who goes away while it waits leaves the name to the others.
        assert!(Box::pin(turns.turn("a")).as_mut().now_or_never().is_none());
        drop(first);
        assert!(turns.turn("a").now_or_never().is_none(), "the second is first in line");
        drop(second.now_or_never().unwrap());
        assert!(turns.names().is_empty());
    }
}
