//! The index against a model, and what the tests share.

mod clean;
mod snapshots;

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use shingle_sim::{Random, seeds};

use super::{Applied, Change, Index, Moment, Object, PartKey};
use crate::types::{Completion, PartPlace, SetId, Version};
use shingle_base::StoreId;

pub(super) fn name(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(super) fn moment(generation: u64) -> Moment {
    Moment { array: StoreId(3), generation }
}

pub(super) fn key(text: &str, version: u64, offset: u64) -> PartKey {
    PartKey { name: name(text), version: Version(version), offset }
}

pub(super) fn place(stamp: u64, length: u32, last: bool) -> PartPlace {
    let (set, block) = (SetId(stamp as u32 % 7), stamp as u32 % 1000);
    PartPlace { set, block, stamp, segment_length: length + 9, at: 9, length, last }
}

pub(super) fn completion(size: u64) -> Completion {
    Completion { size, attributes: Bytes::from(format!("attributes of {size}")) }
}

pub(super) fn put(text: &str, version: u64, offset: u64, stamp: u64) -> Change {
    Change::Put { key: key(text, version, offset), place: place(stamp, 10, false), completion: None }
}

pub(super) fn put_last(text: &str, version: u64, offset: u64, stamp: u64) -> Change {
    let completion = Some(completion(offset + 10));
    Change::Put { key: key(text, version, offset), place: place(stamp, 10, true), completion }
}

/// A folder that goes away.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("shingle-array-index-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The index in its plainest form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    parts: BTreeMap<PartKey, PartPlace>,
    complete: BTreeMap<(Bytes, Version), Completion>,
}

impl Model {
    pub(super) fn apply(&mut self, changes: &[Change]) -> Applied {
        let mut applied = Applied::default();
        for change in changes {
            let done = self.change(change, &mut applied.freed);
            applied.done.push(done);
        }
        applied
    }

    fn change(&mut self, change: &Change, freed: &mut Vec<PartPlace>) -> bool {
        match change {
            Change::Put { key, place, completion } => {
                let old = self.parts.insert(key.clone(), *place);
                let version = (key.name.clone(), key.version);
                match completion {
                    Some(completion) => drop(self.complete.insert(version, completion.clone())),
                    None if old.is_some_and(|old| old.last) => drop(self.complete.remove(&version)),
                    None => {}
                }
                freed.extend(old);
                true
            }
            Change::Recover { key, place, completion } => {
                if self.parts.get(key).is_some_and(|found| found.stamp >= place.stamp) {
                    return false;
                }
                let (key, place, completion) = (key.clone(), *place, completion.clone());
                self.change(&Change::Put { key, place, completion }, freed)
            }
            Change::Move { key, from_stamp, place } => match self.parts.get_mut(key) {
                Some(found) if found.stamp == *from_stamp => {
                    freed.push(*found);
                    *found = PartPlace { last: found.last, ..*place };
                    true
                }
                _ => false,
            },
            Change::RemoveVersion { name, version } => self.remove(name, |at| at == *version, freed),
            Change::RemoveUpTo { name, version } => self.remove(name, |at| at <= *version, freed),
            Change::RemoveOlder { name, version } => self.remove(name, |at| at < *version, freed),
        }
    }

    fn remove(&mut self, name: &Bytes, gone: impl Fn(Version) -> bool, freed: &mut Vec<PartPlace>) -> bool {
        let before = freed.len();
        self.parts.retain(|key, place| {
            let goes = key.name == *name && gone(key.version);
            freed.extend(goes.then_some(*place));
            !goes
        });
        self.complete.retain(|(at, version), _| at != name || !gone(*version));
        freed.len() > before
    }

    fn newest(&self, name: &Bytes) -> Option<Object> {
        let mut versions = self.complete.range((name.clone(), Version(0))..=(name.clone(), Version(u64::MAX)));
        versions.next_back().map(|((_, version), completion)| Object {
            version: *version,
            size: completion.size,
            attributes: completion.attributes.clone(),
        })
    }

    fn list(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Vec<(Bytes, Object)> {
        let mut names: Vec<_> = self.complete.keys().map(|(name, _)| name.clone()).collect();
        names.dedup();
        let wanted = |name: &Bytes| name.starts_with(prefix) && after.is_none_or(|after| &name[..] > after);
        let found = names.into_iter().filter(wanted).take(limit);
        found.map(|name| (name.clone(), self.newest(&name).unwrap())).collect()
    }

    /// Every question of the index gets the model's answer.
    pub(super) fn check(&self, index: &Index, about: &str) {
        let mut parts = BTreeMap::new();
        let add = |name: &[u8], version, offset, place: &PartPlace| {
            parts.insert(PartKey { name: Bytes::copy_from_slice(name), version, offset }, *place);
        };
        index.for_each_part(add).unwrap();
        assert!(parts == self.parts, "{about}: parts");
        assert_eq!(index.parts_count().unwrap(), self.parts.len() as u64, "{about}");

        let listed = self.list(b"", None, usize::MAX);
        assert_eq!(index.list(b"", None, usize::MAX).unwrap(), listed, "{about}");
        assert_eq!(index.objects(), listed.len() as u64, "{about}");
        assert_eq!(index.counted_objects().unwrap(), listed.len() as u64, "{about}");

        let mut versions: BTreeMap<Bytes, Vec<(Version, bool)>> = BTreeMap::new();
        for key in self.parts.keys() {
            let complete = self.complete.contains_key(&(key.name.clone(), key.version));
            let found = versions.entry(key.name.clone()).or_default();
            if found.last().is_none_or(|(last, _)| *last != key.version) {
                found.push((key.version, complete));
            }
        }
        for (name, versions) in versions {
            assert_eq!(index.versions(&name).unwrap(), versions, "{about}: versions of {name:?}");
            assert_eq!(index.object(&name).unwrap(), self.newest(&name), "{about}: {name:?}");
            for (version, _) in versions {
                let all = self.parts.iter().filter(|(key, _)| key.name == name && key.version == version);
                let all: Vec<_> = all.map(|(key, place)| (key.offset, *place)).collect();
                for from in [0, 1, 10, 15, 20, 35, u64::MAX] {
                    let holds = |(offset, place): &&(u64, PartPlace)| {
                        *offset >= from || offset + u64::from(place.length) > from
                    };
                    let expected: Vec<_> = all.iter().filter(holds).copied().take(3).collect();
                    assert_eq!(
                        index.parts(&name, version, from, 3).unwrap(),
                        expected,
                        "{about}: {name:?} from {from}"
                    );
                }
            }
        }
        assert_eq!(index.object(b"no such name").unwrap(), None, "{about}");
        assert_eq!(index.versions(b"no such name").unwrap(), [], "{about}");
    }
}

/// One of a few names; some begin with others, and some hold zeros and the highest bytes.
fn any_name(random: &mut Random) -> Bytes {
    const NAMES: [&[u8]; 9] =
        [b"a", b"a\0", b"a\0b", b"a/1", b"a/1\xff", b"a/2", b"\xff", b"\xff\xff", b"bucket/a key that is rather long"];
    Bytes::from_static(NAMES[random.below(NAMES.len() as u64) as usize])
}

pub(super) fn any_change(random: &mut Random, stamp: u64) -> Change {
    let name = any_name(random);
    // The first and the last version there can be are among them.
    let version = Version([0, 1, 2, 3, 1 << 60, u64::MAX][random.below(6) as usize]);
    let key = PartKey { name: name.clone(), version, offset: random.below(4) * 10 };
    // Of each version only one part can be the last.
    let last = key.offset == 30;
    let place = place(stamp, 10, last);
    let completion = last.then(|| completion(stamp));
    match random.below(20) {
        0..=9 => Change::Put { key, place, completion },
        10..=12 => Change::Recover { key, place: PartPlace { stamp: random.below(stamp + 1), ..place }, completion },
        13..=16 => Change::Move { key, from_stamp: stamp.saturating_sub(random.below(40)), place },
        17 => Change::RemoveVersion { name, version },
        18 => Change::RemoveUpTo { name, version },
        _ => Change::RemoveOlder { name, version },
    }
}

/// AS-IX-1 and AS-IX-2. (AS-CLEAN-1)
#[test]
fn agrees_with_a_model() {
    for seed in seeds(30) {
        let mut random = Random::new(seed);
        let (index, mut model) = (Index::memory().unwrap(), Model::default());
        let mut stamp = 0;
        for step in 0..120 {
            let count = random.below(8);
            let changes: Vec<_> = (0..count)
                .map(|_| {
                    stamp += 1;
                    any_change(&mut random, stamp)
                })
                .collect();
            let about = format!("seed {seed}, step {step}");
            assert_eq!(index.apply(&changes).unwrap(), model.apply(&changes), "{about}: {changes:?}");
            if step % 10 == 9 {
                model.check(&index, &about);
                let (prefix, after) = (any_name(&mut random), any_name(&mut random));
                let prefix = &prefix[..random.below(prefix.len() as u64 + 1) as usize];
                for after in [None, Some(&after[..])] {
                    let found = index.list(prefix, after, 2).unwrap();
                    assert_eq!(found, model.list(prefix, after, 2), "{about}: {prefix:?} after {after:?}");
                }
            }
        }
    }
}

#[test]
fn an_older_complete_version_comes_back() {
    let index = Index::memory().unwrap();
    index.apply(&[put_last("a", 1, 0, 1), put("a", 2, 0, 2), put_last("a", 2, 10, 3), put("a", 3, 0, 4)]).unwrap();
    assert_eq!(index.object(b"a").unwrap().unwrap().version, Version(2));
    assert_eq!(index.versions(b"a").unwrap(), [(Version(1), true), (Version(2), true), (Version(3), false)]);
    let removed = index.apply(&[Change::RemoveVersion { name: name("a"), version: Version(2) }]).unwrap();
    assert_eq!(removed.freed, [place(2, 10, false), place(3, 10, true)]);
    let object = index.object(b"a").unwrap().unwrap();
    assert_eq!((object.version, object.size, &object.attributes[..]), (Version(1), 10, &b"attributes of 10"[..]));
    index.apply(&[Change::RemoveUpTo { name: name("a"), version: Version(2) }]).unwrap();
    assert_eq!((index.object(b"a").unwrap(), index.objects()), (None, 0));
}

#[test]
fn a_place_keeps_all_its_bytes() {
    let index = Index::memory().unwrap();
    let place = PartPlace {
        set: SetId(0x0403_0201),
        block: 0x0807_0605,
        stamp: 0x100f_0e0d_0c0b_0a09,
        segment_length: 0x1413_1211,
        at: 0x1817_1615,
        length: 0x1c1b_1a19,
        last: true,
    };
    let bytes = super::tables::place_to_bytes(&place);
    assert_eq!(bytes[..28], (1..=28).collect::<Vec<u8>>());
    index.apply(&[Change::Put { key: key("a", 5, 7), place, completion: Some(completion(7)) }]).unwrap();
    assert_eq!(index.part(b"a", Version(5), 7).unwrap(), Some(place));
    assert_eq!(index.part(b"a", Version(5), 8).unwrap(), None);
}
