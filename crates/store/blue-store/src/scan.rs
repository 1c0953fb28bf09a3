//! Ranges of the metadata page by page, and sums of what was seen in them: for those who go through all of the metadata, which need not
//! fit in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};

use bytes::Bytes;

use crate::engine::Engine;
use crate::error::BlueResult;
use crate::format::key::Key;
use crate::kv::Order;

/// Keys of a page.
const PAGE: usize = 1024;

/// Keys of a range with their values, in order.
pub(crate) struct Pages<'e> {
    engine: &'e Engine,
    from: Bytes,
    to: Bytes,
    page: std::vec::IntoIter<(Bytes, Bytes)>,
    ended: bool,
}

impl Engine {
    /// Goes through the keys from the first on and before the second.
    pub(crate) fn pages(&self, (from, to): (Key, Key)) -> Pages<'_> {
        Pages { engine: self, from: from.into(), to: to.into(), page: Vec::new().into_iter(), ended: false }
    }
}

impl Pages<'_> {
    pub(crate) async fn next(&mut self) -> BlueResult<Option<(Bytes, Bytes)>> {
        if let Some(pair) = self.page.next() {
            return Ok(Some(pair));
        }
        if self.ended {
            return Ok(None);
        }
        let page = self.engine.kv.scan(self.from.clone()..self.to.clone(), Order::Forward, PAGE).await?;
        match page.last() {
            Some((last, _)) if page.len() == PAGE => self.from = [&last[..], &[0]].concat().into(),
            _ => self.ended = true,
        }
        self.page = page.into_iter();
        Ok(self.page.next())
    }
}

/// A set of numbers most of which follow each other: about a bit for each.
#[derive(Debug, Default)]
pub(crate) struct Numbers(BTreeMap<u64, u64>);

impl Numbers {
    /// Adds a number. False if it was there.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        let word = self.0.entry(number / 64).or_default();
        let before = std::mem::replace(word, *word | 1 << (number % 64));
        before != *word
    }

    pub(crate) fn contains(&self, number: &u64) -> bool {
        self.0.get(&(number / 64)).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

/// Two sets of keys for each zone, by their sums: of those that have to be there, less those that are. Sets that differ have the same sum
/// once in 2^64 times.
#[derive(Debug, Default)]
pub(crate) struct Prints(BTreeMap<u32, (u64, u64)>);

impl Prints {
    fn change(&mut self, zone: u32, key: &[u8], change: impl Fn(u64, u64) -> u64) {
        let mut hasher = DefaultHasher::new();
        hasher.write(key);
        let (count, sum) = self.0.entry(zone).or_default();
        (*count, *sum) = (change(*count, 1), change(*sum, hasher.finish()));
    }

    /// A key of a zone has to be there.
    pub(crate) fn expect(&mut self, zone: u32, key: &[u8]) {
        self.change(zone, key, u64::wrapping_add);
    }

    /// A key of a zone is there.
    pub(crate) fn find(&mut self, zone: u32, key: &[u8]) {
        self.change(zone, key, u64::wrapping_sub);
    }

    /// Zones whose sets differ.
    pub(crate) fn differ(&self) -> BTreeSet<u32> {
        self.0.iter().filter(|(_, sums)| **sums != (0, 0)).map(|(zone, _)| *zone).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_there_once() {
        let mut numbers = Numbers::default();
        for number in [0, 63, 64, u64::MAX] {
            assert!(!numbers.contains(&number));
            assert!(numbers.insert(number) && !numbers.insert(number) && numbers.contains(&number));
        }
        assert!(!numbers.contains(&1) && !numbers.contains(&65));
    }

    #[test]
    fn sets_in_any_order_agree_and_others_do_not() {
        let mut prints = Prints::default();
        for key in ["a", "b", "c"] {
            prints.expect(1, key.as_bytes());
            prints.expect(2, key.as_bytes());
        }
        for key in ["c", "a", "b"] {
            prints.find(1, key.as_bytes());
        }
        for key in ["c", "a", "d"] {
            prints.find(2, key.as_bytes());
        }
        prints.find(3, b"a");
        assert_eq!(prints.differ(), [2, 3].into_iter().collect());
    }
}
