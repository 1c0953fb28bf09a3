//! Orders operations on the same key, and keeps buckets from vanishing under their objects.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// A lock for each key in use. First come, first served.
#[derive(Default)]
pub struct Locks {
    map: RefCell<BTreeMap<Vec<u8>, Arc<RwLock<()>>>>,
}

/// A held lock.
pub struct Guard {
    locks: Rc<Locks>,
    key: Vec<u8>,
    held: Option<Held>,
}

#[expect(dead_code, reason = "guards are held, not read")]
enum Held {
    Shared(OwnedRwLockReadGuard<()>),
    Exclusive(OwnedRwLockWriteGuard<()>),
}

impl Locks {
    fn of(&self, key: &[u8]) -> Arc<RwLock<()>> {
        self.map.borrow_mut().entry(key.to_vec()).or_default().clone()
    }

    /// Waits until nobody has the key exclusively.
    pub async fn shared(self: &Rc<Self>, key: Vec<u8>) -> Guard {
        // The guard exists before the wait, so that a caller who gives up leaves nothing behind.
        let mut guard = Guard { locks: self.clone(), key, held: None };
        let lock = self.of(&guard.key);
        guard.held = Some(Held::Shared(lock.read_owned().await));
        guard
    }

    /// Waits until nobody has the key.
    pub async fn exclusive(self: &Rc<Self>, key: Vec<u8>) -> Guard {
        let mut guard = Guard { locks: self.clone(), key, held: None };
        let lock = self.of(&guard.key);
        guard.held = Some(Held::Exclusive(lock.write_owned().await));
        guard
    }

    #[cfg(test)]
    fn keys(&self) -> usize {
        self.map.borrow().len()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.held = None;
        let mut map = self.locks.map.borrow_mut();
        // Every waiter has a share in the lock: the last one out removes it.
        if map.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            map.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_held_by_one_at_a_time_and_forgotten_after() {
        crate::real::run(|runtime| async move {
            let locks = Rc::new(Locks::default());
            let inside = Rc::new(std::cell::Cell::new(0));
            let tasks: Vec<_> = (0..8)
                .map(|number| {
                    let (locks, inside, runtime) = (locks.clone(), inside.clone(), runtime.clone());
                    let work = runtime.clone();
                    work.spawn(async move {
                        let _guard = locks.exclusive(vec![number % 2]).await;
                        inside.set(inside.get() + 1);
                        assert!(inside.get() <= 2, "two keys, so at most two inside");
                        runtime.yield_now().await;
                        inside.set(inside.get() - 1);
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(locks.keys(), 0);
            let first = locks.shared(vec![9]).await;
            let second = locks.shared(vec![9]).await;
            drop(first);
            assert_eq!(locks.keys(), 1);
            drop(second);
            assert_eq!(locks.keys(), 0);
        })
        .unwrap();
    }
}
