//! Changes to the index: each call is one write transaction (AS-IX-1).

use std::ops::RangeInclusive;

use bytes::Bytes;
use redb::{ReadableTable, Table};
use shingle_runtime::Work;

use super::Index;
use super::error::IndexResult;
use super::read::newest_complete;
use super::tables::{
    COMPLETE, CompleteKey, PARTS, PLACE_LENGTH, PartKey, PartsKey, complete_value, newest_first, place_from_bytes,
    place_to_bytes, version_of,
};
use crate::types::{Completion, PartPlace, Version};

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A part was written. With a completion it is the version's last; `place.last` must agree.
    Put { key: PartKey, place: PartPlace, completion: Option<Completion> },
    /// A part was found by recovery, which goes through sets in any order: put, unless the entry has the same stamp or a
    /// newer one. (SMORE, section IV-A, rule 3.) Changes before this one in the same call count.
    Recover { key: PartKey, place: PartPlace, completion: Option<Completion> },
    /// GC copied a part: its entry becomes `place`, if it is there and still has the stamp of the segment that was
    /// copied.
    Move { key: PartKey, from_stamp: u64, place: PartPlace },
    /// This version is gone.
    RemoveVersion { name: Bytes, version: Version },
    /// This version and all before it are gone.
    RemoveUpTo { name: Bytes, version: Version },
    /// All versions before this one are gone.
    RemoveOlder { name: Bytes, version: Version },
}

/// Result of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The places that no entry has any more: removed, replaced or moved from.
    pub(crate) freed: Vec<PartPlace>,
    /// For each change, whether it did something: `Move` and `Recover` whether the entry now has the new place, a
    /// removal whether there was anything to remove.
    pub(crate) done: Vec<bool>,
}

type Parts<'a> = Table<'a, PartsKey, &'static [u8; PLACE_LENGTH]>;
type Complete<'a> = Table<'a, CompleteKey, &'static [u8]>;

/// The tables, and what was done to them so far.
struct Applier<'a> {
    parts: Parts<'a>,
    complete: Complete<'a>,
    objects: i64,
    applied: Applied,
}

impl Index {
    /// Applies `changes` in their order, all or none. Nothing is synced.
    ///
    /// # Errors
    /// If the tree cannot be written: nothing was applied, and the index should be given up.
    pub(crate) fn apply(&self, changes: &[Change]) -> IndexResult<Applied> {
        #[cfg(test)]
        if self.refuses.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(super::IndexError::Malformed("a test wants it so"));
        }
        let transaction = self.begin()?;
        let applier = Applier {
            parts: transaction.open_table(PARTS)?,
            complete: transaction.open_table(COMPLETE)?,
            objects: 0,
            applied: Applied::default(),
        };
        let (applied, objects) = applier.apply(changes)?;
        transaction.commit()?;
        self.count_objects(objects);
        self.worked(Work::Change, changes.len() as u64);
        Ok(applied)
    }
}

impl Applier<'_> {
    fn apply(mut self, changes: &[Change]) -> IndexResult<(Applied, i64)> {
        for change in changes {
            let done = match change {
                Change::Put { key, place, completion } => self.put(key, place, completion.as_ref())?,
                Change::Recover { key, place, completion } => self.recover(key, place, completion.as_ref())?,
                Change::Move { key, from_stamp, place } => self.relocate(key, *from_stamp, place)?,
                Change::RemoveVersion { name, version } => self.remove(name, version.0..=version.0)?,
                Change::RemoveUpTo { name, version } => self.remove(name, 0..=version.0)?,
                Change::RemoveOlder { name, version } => match version.0.checked_sub(1) {
                    Some(last) => self.remove(name, 0..=last)?,
                    None => false,
                },
            };
            self.applied.done.push(done);
        }
        Ok((self.applied, self.objects))
    }

    fn put(&mut self, key: &PartKey, place: &PartPlace, completion: Option<&Completion>) -> IndexResult<bool> {
        debug_assert_eq!(place.last, completion.is_some(), "a last part completes its version, no other does");
        let place = PartPlace { last: completion.is_some(), ..*place };
        let was_last = self.replace(key, &place)?;
        match completion {
            Some(completion) => self.set_complete(key, completion)?,
            None if was_last => self.unset_complete(&key.name, key.version..=key.version)?,
            None => {}
        }
        Ok(true)
    }

    fn recover(&mut self, key: &PartKey, place: &PartPlace, completion: Option<&Completion>) -> IndexResult<bool> {
        if self.place(key)?.is_some_and(|found| found.stamp >= place.stamp) {
            return Ok(false);
        }
        self.put(key, place, completion)
    }

    fn relocate(&mut self, key: &PartKey, from_stamp: u64, place: &PartPlace) -> IndexResult<bool> {
        match self.place(key)? {
            Some(found) if found.stamp == from_stamp => {
                self.replace(key, &PartPlace { last: found.last, ..*place })?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn place(&self, key: &PartKey) -> IndexResult<Option<PartPlace>> {
        let found = self.parts.get((&*key.name, key.version.0, key.offset))?;
        Ok(found.map(|place| place_from_bytes(place.value())))
    }

    /// Says whether the entry was the version's last part.
    fn replace(&mut self, key: &PartKey, place: &PartPlace) -> IndexResult<bool> {
        let old = self.parts.insert((&*key.name, key.version.0, key.offset), &place_to_bytes(place))?;
        let old = old.map(|old| place_from_bytes(old.value()));
        self.applied.freed.extend(old);
        Ok(old.is_some_and(|old| old.last))
    }

    fn remove(&mut self, name: &[u8], versions: RangeInclusive<u64>) -> IndexResult<bool> {
        let range = (name, *versions.start(), 0)..=(name, *versions.end(), u64::MAX);
        let before = self.applied.freed.len();
        let mut was_complete = false;
        for entry in self.parts.extract_from_if(range, |_, _| true)? {
            let place = place_from_bytes(entry?.1.value());
            was_complete |= place.last;
            self.applied.freed.push(place);
        }
        if was_complete {
            self.unset_complete(name, Version(*versions.start())..=Version(*versions.end()))?;
        }
        Ok(self.applied.freed.len() > before)
    }

    fn set_complete(&mut self, key: &PartKey, completion: &Completion) -> IndexResult<()> {
        let new = newest_complete(&self.complete, &key.name)?.is_none();
        let value = complete_value(completion.size, &completion.attributes);
        self.complete.insert((&*key.name, newest_first(key.version)), value.as_slice())?;
        self.objects += i64::from(new);
        Ok(())
    }

    fn unset_complete(&mut self, name: &[u8], versions: RangeInclusive<Version>) -> IndexResult<()> {
        let range = (name, newest_first(*versions.end()))..=(name, newest_first(*versions.start()));
        let mut removed = false;
        for entry in self.complete.extract_from_if(range, |_, _| true)? {
            debug_assert!(versions.contains(&version_of(entry?.0.value().1)), "the range is the versions'");
            removed = true;
        }
        if removed && newest_complete(&self.complete, name)?.is_none() {
            self.objects -= 1;
        }
        Ok(())
    }
}
