//! The keys as they were when a table was begun, read in pieces while batches go on changing them.
//!
//! Keys that are still to be written are kept as they were when a batch changes them; pieces show those in place of the present ones. So a
//! table is that of one moment, though no step goes through more than a piece, and nothing is copied that nobody changes.
//!
//! **Owns** old values of keys that are still to be read. **Knows nothing of** files and batches.
//!
//! # Invariants
//! - BLU-LOG-4: pieces together hold each key that was there at the begin, with the value that it had, and no other.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::super::Change;

/// Bytes that the look at a key counts for, besides its own.
const LOOK: usize = 32;

/// Keys as they were.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// Keys before this one were read.
    from: Bytes,
    /// Keys that were changed since, with the values that they had.
    before: BTreeMap<Bytes, Option<Bytes>>,
}

impl Snapshot {
    /// A key has another value from now on, or none; `old` is the one that it had.
    pub(super) fn note(&mut self, key: &Bytes, old: Option<&Bytes>) {
        if *key >= self.from && !self.before.contains_key(key) {
            self.before.insert(key.clone(), old.cloned());
        }
    }

    /// The next keys, about so many bytes of them, out of what the map is now; and whether these are the last ones. (BLU-LOG-4)
    pub(super) fn piece(&mut self, map: &BTreeMap<Bytes, Bytes>, bytes: usize) -> (Vec<Change>, bool) {
        let mut now = map.range::<Bytes, _>(&self.from..).peekable();
        let mut before = self.before.range::<Bytes, _>(&self.from..).peekable();
        let (mut piece, mut seen) = (Vec::new(), 0);
        let end = loop {
            let keys = [now.peek().map(|(key, _)| *key), before.peek().map(|(key, _)| *key)];
            let Some(key) = keys.into_iter().flatten().min() else { break None };
            if seen >= bytes {
                break Some(key.clone());
            }
            let present = now.next_if(|(other, _)| *other == key).map(|(_, value)| value);
            let value = match before.next_if(|(other, _)| *other == key) {
                Some((_, value)) => value.as_ref(),
                None => present,
            };
            seen += LOOK + key.len() + value.map_or(0, Bytes::len);
            piece.extend(value.map(|value| Change::Put(key.clone(), value.clone())));
        };
        let is_last = end.is_none();
        match end {
            Some(end) => {
                self.before = self.before.split_off(&end);
                self.from = end;
            }
            None => self.before.clear(),
        }
        (piece, is_last)
    }
}

#[cfg(test)]
mod tests {
    use shingle_sim::{Random, seeds};

    use super::super::Map;
    use super::*;

    /// BLU-LOG-4.
    #[test]
    fn pieces_are_those_of_the_begin_whatever_changes_between() {
        let mut changed = 0;
        for seed in seeds(200) {
            let mut random = Random::new(seed);
            let key = |random: &mut Random| Bytes::from(format!("{:02}", random.below(60)));
            let mut map: Map = (0..random.below(60)).map(|_| (key(&mut random), Bytes::from_static(b"old"))).collect();
            let (begin, mut snapshot, mut found) = (map.clone(), Snapshot::default(), Map::new());
            loop {
                let (piece, is_last) = snapshot.piece(&map, 1 + random.below(200) as usize);
                for change in piece {
                    let Change::Put(key, value) = change else { panic!("seed {seed}: {change:?}") };
                    assert!(found.insert(key, value).is_none(), "seed {seed}: a key is there twice");
                }
                if is_last {
                    break;
                }
                for _ in 0..random.below(8) {
                    let key = key(&mut random);
                    let old = match random.chance(0.5) {
                        true => map.insert(key.clone(), random.bytes(3).into()),
                        false => map.remove(&key),
                    };
                    snapshot.note(&key, old.as_ref());
                    changed += 1;
                }
            }
            assert_eq!(found, begin, "seed {seed}");
        }
        assert!(changed > 500 || std::env::var_os("SHINGLE_SEED").is_some(), "only {changed} changes");
    }
}
