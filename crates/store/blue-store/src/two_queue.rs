//! A cache that scans do not empty: 2Q. (Johnson and Shasha, 1994; dissertation, section 4.4.2, "Cache".)
//!
//! New things enter a short queue and leave it in order, however often they are used; its leavers are remembered by name for a while, and one
//! that comes again in that time enters the long queue, in which the least recently used one leaves. So a thing that is used once displaces
//! none that is used often.
//!
//! **Owns** names, order and weights. **Knows nothing of** the things.
//!
//! # Invariants
//! - BLU-CACHE-1: things weigh together no more than the limit, unless they may not leave.

use std::collections::BTreeMap;

/// A thing may leave the cache.
pub(crate) trait MayLeave {
    fn may_leave(&self) -> bool {
        true
    }
}

impl MayLeave for bytes::Bytes {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Short,
    Long,
}

struct Entry<V> {
    value: V,
    weight: u64,
    queue: Queue,
    tick: u64,
}

/// Things by name.
pub(crate) struct TwoQueue<K, V> {
    limit: u64,
    entries: BTreeMap<K, Entry<V>>,
    short: BTreeMap<u64, K>,
    long: BTreeMap<u64, K>,
    short_weight: u64,
    long_weight: u64,
    /// Leavers of the short queue, with their weights.
    ghosts: BTreeMap<K, (u64, u64)>,
    ghost_order: BTreeMap<u64, K>,
    ghost_weight: u64,
    tick: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl<K: Ord + Clone, V: MayLeave> TwoQueue<K, V> {
    /// An empty cache for things that weigh `limit` together.
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            entries: BTreeMap::new(),
            short: BTreeMap::new(),
            long: BTreeMap::new(),
            short_weight: 0,
            long_weight: 0,
            ghosts: BTreeMap::new(),
            ghost_order: BTreeMap::new(),
            ghost_weight: 0,
            tick: 0,
            hits: 0,
            misses: 0,
        }
    }

    /// Weight of all things.
    pub(crate) fn weight(&self) -> u64 {
        self.short_weight + self.long_weight
    }

    /// A thing, which counts as used.
    pub(crate) fn get(&mut self, key: &K) -> Option<&V> {
        let Some(entry) = self.entries.get_mut(key) else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        if entry.queue == Queue::Long {
            self.tick += 1;
            self.long.remove(&entry.tick);
            entry.tick = self.tick;
            self.long.insert(self.tick, key.clone());
        }
        Some(&entry.value)
    }

    /// A thing, which does not count as used.
    pub(crate) fn peek(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Adds a thing, and lets others leave.
    pub(crate) fn insert(&mut self, key: K, value: V, weight: u64) {
        self.remove(&key);
        self.tick += 1;
        let known = self.ghosts.remove(&key);
        if let Some((tick, weight)) = known {
            self.ghost_order.remove(&tick);
            self.ghost_weight -= weight;
        }
        let queue = if known.is_some() { Queue::Long } else { Queue::Short };
        self.enter(key, Entry { value, weight, queue, tick: self.tick });
        self.trim();
    }

    fn enter(&mut self, key: K, entry: Entry<V>) {
        let (order, weight) = match entry.queue {
            Queue::Short => (&mut self.short, &mut self.short_weight),
            Queue::Long => (&mut self.long, &mut self.long_weight),
        };
        order.insert(entry.tick, key.clone());
        *weight += entry.weight;
        self.entries.insert(key, entry);
    }

    /// Takes a thing out.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        let (order, weight) = match entry.queue {
            Queue::Short => (&mut self.short, &mut self.short_weight),
            Queue::Long => (&mut self.long, &mut self.long_weight),
        };
        order.remove(&entry.tick);
        *weight -= entry.weight;
        Some(entry.value)
    }

    /// Another weight of a thing.
    pub(crate) fn weigh(&mut self, key: &K, weight: u64) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let sum = if entry.queue == Queue::Short { &mut self.short_weight } else { &mut self.long_weight };
        *sum = *sum + weight - entry.weight;
        entry.weight = weight;
        self.trim();
    }

    /// Lets things leave until the rest is light enough. (BLU-CACHE-1)
    pub(crate) fn trim(&mut self) {
        // Those that may not leave go behind all others of their queue, once.
        let mut tries = self.entries.len();
        while self.weight() > self.limit && tries > 0 {
            tries -= 1;
            let short = self.short_weight > self.limit / 4 || self.long.is_empty();
            let order = if short { &self.short } else { &self.long };
            let Some(key) = order.first_key_value().map(|(_, key)| key.clone()) else { break };
            let leaves = self.entries.get(&key).is_none_or(|entry| entry.value.may_leave());
            let weight = self.entries.get(&key).map_or(0, |entry| entry.weight);
            self.tick += 1;
            if leaves {
                self.remove(&key);
                if short {
                    self.remember(key, weight);
                }
                continue;
            }
            let (queue, tick) = (if short { Queue::Short } else { Queue::Long }, self.tick);
            if let Some(value) = self.remove(&key) {
                self.enter(key, Entry { value, weight, queue, tick });
            }
        }
    }

    fn remember(&mut self, key: K, weight: u64) {
        self.ghost_order.insert(self.tick, key.clone());
        self.ghosts.insert(key, (self.tick, weight));
        self.ghost_weight += weight;
        while self.ghost_weight > self.limit / 2 {
            let Some((_, key)) = self.ghost_order.pop_first() else { break };
            self.ghost_weight -= self.ghosts.remove(&key).map_or(0, |(_, weight)| weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use shingle_sim::{Random, seeds};

    use super::*;

    fn cache(limit: u64) -> TwoQueue<u64, Bytes> {
        TwoQueue::new(limit)
    }

    #[test]
    fn a_scan_displaces_nothing_that_is_used_often() {
        let mut cache = cache(100);
        for round in 0..4 {
            for key in 0..40 {
                if cache.get(&key).is_none() {
                    cache.insert(key, Bytes::new(), 1);
                }
                // Others in between push it out of the short queue.
                cache.insert(1000 + round * 100 + key, Bytes::new(), 1);
            }
        }
        for key in 10_000..20_000 {
            cache.insert(key, Bytes::new(), 1);
        }
        let kept = (0..40).filter(|key| cache.peek(key).is_some()).count();
        assert!(kept >= 38, "only {kept} of 40 are left after a scan");
        assert!(cache.weight() <= 100);
    }

    /// BLU-CACHE-1: against a model of names and weights.
    #[test]
    fn weights_and_queues_agree() {
        for seed in seeds(20) {
            let mut random = Random::new(seed);
            let mut cache = cache(50);
            for _ in 0..2000 {
                let key = random.below(60);
                match random.below(8) {
                    0..=3 => cache.insert(key, Bytes::from(key.to_le_bytes().to_vec()), 1 + key % 7),
                    4 => drop(cache.remove(&key)),
                    5 => cache.weigh(&key, 1 + key % 3),
                    _ => {
                        let found = cache.get(&key).cloned();
                        assert!(found.is_none_or(|found| found[..] == key.to_le_bytes()), "seed {seed}");
                    }
                }
                let sum: u64 = cache.entries.values().map(|entry| entry.weight).sum();
                assert_eq!(cache.weight(), sum, "seed {seed}");
                assert!(sum <= cache.limit, "seed {seed}");
                assert_eq!(cache.short.len() + cache.long.len(), cache.entries.len(), "seed {seed}");
                assert_eq!(cache.ghosts.len(), cache.ghost_order.len(), "seed {seed}");
                assert!(cache.ghosts.keys().all(|key| cache.peek(key).is_none()), "seed {seed}");
            }
        }
    }

    struct Held(bool);

    impl MayLeave for Held {
        fn may_leave(&self) -> bool {
            !self.0
        }
    }

    #[test]
    fn those_that_may_not_leave_stay() {
        let mut cache = TwoQueue::new(10);
        for key in 0..20 {
            cache.insert(key, Held(key % 2 == 0), 1);
        }
        assert_eq!((cache.weight(), (0..20).filter(|key| cache.peek(key).is_some()).count()), (10, 10));
        assert!((0..20).step_by(2).all(|key| cache.peek(&key).is_some()));
    }
}
