//! Versions whose puts failed, and that may be on the drives or in the buffer all the same.
//!
//! Drives execute commands that they do not answer, a record is durable before the superblock that has to follow it, and the index may refuse
//! what is on the drives. Nothing in the index tells of such a version; the next opening may find it.
//!
//! # Invariants
//! - AS-PUT-3: a deletion that is acknowledged after such a put has a tombstone that is newer than it, or than a version that replaced it.
//!   `a_deletion_after_a_put_that_may_have_landed_is_final`. Puts of which no write began are none of them: an array that takes none for a
//!   while fills nothing. `puts_that_wrote_nothing_are_not_kept_in_mind`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};

use bytes::Bytes;

use crate::error::ErrorKind;
use crate::format::Tombstone;
use crate::types::Version;

/// Names that are kept. Behind them any name counts as one of theirs: deletions of what is not there cost a tombstone each.
const KEPT_MOST: usize = 65_536;

/// Versions that may be there, the newest of each name.
#[derive(Default)]
pub(crate) struct Unsure {
    versions: RefCell<BTreeMap<Bytes, Version>>,
    /// There were more of them than are kept.
    any: Cell<bool>,
}

impl Unsure {
    /// A put of that version failed, of which an opening may find all.
    pub(crate) fn failed(&self, name: &Bytes, version: Version, why: ErrorKind) {
        // Of what was refused nothing was written, or a durable superblock says that it does not count. (AS-WRITE-3)
        if matches!(why, ErrorKind::NoSpace | ErrorKind::Invalid) {
            return;
        }
        let mut versions = self.versions.borrow_mut();
        if versions.len() >= KEPT_MOST && !versions.contains_key(name) {
            self.any.set(true);
            return;
        }
        let newest = versions.entry(name.clone()).or_default();
        *newest = version.max(*newest);
    }

    /// A version of that name may be there, whatever the index says.
    pub(crate) fn may_be_there(&self, name: &Bytes) -> bool {
        self.any.get() || self.versions.borrow().contains_key(name)
    }

    /// Names that begin with `prefix` and of which versions may be there. `None` if any name may be one.
    pub(crate) fn with_prefix(&self, prefix: &[u8]) -> Option<Vec<Bytes>> {
        if self.any.get() {
            return None;
        }
        let versions = self.versions.borrow();
        let behind = versions.range::<[u8], _>((Included(prefix), Unbounded));
        Some(behind.map(|(name, _)| name.clone()).take_while(|name| name.starts_with(prefix)).collect())
    }

    /// These tombstones are durable.
    pub(crate) fn buried(&self, tombstones: &[Tombstone]) {
        tombstones.iter().for_each(|Tombstone { name, version }| self.replaced(name, *version));
    }

    /// That version, or its tombstone, is durable: older ones count no more, whoever finds them.
    pub(crate) fn replaced(&self, name: &Bytes, version: Version) {
        let mut versions = self.versions.borrow_mut();
        if versions.get(name).is_some_and(|newest| *newest <= version) {
            versions.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Bytes {
        number.to_string().into()
    }

    #[test]
    fn a_version_is_forgotten_with_a_tombstone_that_is_newer() {
        let unsure = Unsure::default();
        unsure.failed(&name(1), Version(5), ErrorKind::Device);
        unsure.failed(&name(1), Version(3), ErrorKind::Index);
        unsure.failed(&name(2), Version(5), ErrorKind::NoSpace);
        assert!(unsure.may_be_there(&name(1)) && !unsure.may_be_there(&name(2)));
        let tombstone = |version| [Tombstone { name: name(1), version: Version(version) }];
        unsure.buried(&tombstone(4));
        assert!(unsure.may_be_there(&name(1)));
        unsure.buried(&tombstone(6));
        assert!(!unsure.may_be_there(&name(1)));
    }

    #[test]
    fn of_too_many_any_name_may_be_one() {
        let unsure = Unsure::default();
        for number in 0..=KEPT_MOST {
            assert!(!unsure.may_be_there(&name(KEPT_MOST + 1)));
            assert!(unsure.with_prefix(b"x").is_some());
            unsure.failed(&name(number), Version(1), ErrorKind::Device);
        }
        assert!(unsure.may_be_there(&name(KEPT_MOST + 1)));
        assert_eq!(unsure.with_prefix(b"x"), None);
    }

    #[test]
    fn names_are_found_by_their_beginning() {
        let unsure = Unsure::default();
        for name in ["a", "b", "b1", "b2", "c"] {
            unsure.failed(&name.into(), Version(1), ErrorKind::Device);
        }
        assert_eq!(unsure.with_prefix(b"b").unwrap(), ["b", "b1", "b2"]);
        assert_eq!(unsure.with_prefix(b"d").unwrap(), [""; 0]);
    }
}
