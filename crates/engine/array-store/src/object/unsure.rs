//! Versions whose puts failed, and that may be on the drives or in the buffer all the same.
//!
//! Drives execute commands that they do not answer, a record is durable before the superblock that has to follow it, and the index may refuse
//! what is on the drives. Nothing in the index tells of such a version; the next opening may find it.
//!
//! # Invariants
//! - AS-PUT-3: a deletion that is acknowledged after such a put has a tombstone that is newer than it, or than a version that replaced it.
//!   `a_deletion_after_a_put_that_may_have_landed_is_final`. Puts of which no write began are none of them: an array that takes none for a
//!   while fills nothing. `puts_that_wrote_nothing_are_not_kept_in_mind`.
//! - AS-PUT-4: all such names are known: 65,536 at most, and one more for each call under way. Once they are so many, a put of another name
//!   fails before its last part is written, unless tombstones for some of the others are: of what was never there before, and nobody writes.
//!   An array that works again takes puts at once. `puts_that_could_not_be_kept_in_mind_are_refused_until_tombstones_are_written`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use bytes::Bytes;
use tokio::sync::Mutex;

use crate::error::ErrorKind;
use crate::format::Tombstone;
use crate::types::Version;

/// Names that are kept.
const KEPT_MOST: usize = 65_536;

/// Versions that may be there, the newest of each name.
pub(crate) struct Unsure {
    versions: RefCell<BTreeMap<Bytes, Version>>,
    /// Names that are kept.
    pub(crate) most: Cell<usize>,
    /// The name that was looked at last, by whoever makes room.
    pub(super) last: Mutex<Bytes>,
}

impl Default for Unsure {
    fn default() -> Self {
        Self { versions: RefCell::default(), most: Cell::new(KEPT_MOST), last: Mutex::default() }
    }
}

impl Unsure {
    /// A put of that version failed, of which an opening may find all.
    pub(crate) fn failed(&self, name: &Bytes, version: Version, why: ErrorKind) {
        // Of what was refused nothing was written, or a durable superblock says that it does not count. (AS-WRITE-3)
        if matches!(why, ErrorKind::NoSpace | ErrorKind::Invalid) {
            return;
        }
        let mut versions = self.versions.borrow_mut();
        let newest = versions.entry(name.clone()).or_default();
        *newest = version.max(*newest);
    }

    /// A version of that name may be there, whatever the index says.
    pub(crate) fn may_be_there(&self, name: &Bytes) -> bool {
        self.versions.borrow().contains_key(name)
    }

    /// One more put of that name can be kept in mind, should it fail.
    pub(super) fn takes(&self, name: &Bytes) -> bool {
        let versions = self.versions.borrow();
        versions.len() < self.most.get() || versions.contains_key(name)
    }

    /// Number of those names.
    pub(super) fn count(&self) -> usize {
        self.versions.borrow().len()
    }

    /// Names that begin with `prefix` and of which versions may be there.
    pub(crate) fn with_prefix(&self, prefix: &[u8]) -> Vec<Bytes> {
        let versions = self.versions.borrow();
        let behind = versions.range::<[u8], _>((Included(prefix), Unbounded));
        behind.map(|(name, _)| name.clone()).take_while(|name| name.starts_with(prefix)).collect()
    }

    /// So many names behind `last`, and from the first on again.
    pub(super) fn behind(&self, last: &Bytes, most: usize) -> Vec<Bytes> {
        let versions = self.versions.borrow();
        let behind = versions.range::<[u8], _>((Excluded(&last[..]), Unbounded));
        let before = versions.range::<[u8], _>((Unbounded, Included(&last[..])));
        behind.chain(before).map(|(name, _)| name.clone()).take(most).collect()
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
    fn names_are_looked_at_in_turn() {
        let unsure = Unsure::default();
        unsure.most.set(3);
        for number in 1..=3 {
            assert!(unsure.takes(&name(4)));
            unsure.failed(&name(number), Version(1), ErrorKind::Device);
        }
        assert!(!unsure.takes(&name(4)) && unsure.takes(&name(2)));
        assert_eq!(unsure.behind(&name(2), 9), [name(3), name(1), name(2)]);
        assert_eq!(unsure.behind(&Bytes::new(), 2), [name(1), name(2)]);
    }

    #[test]
    fn names_are_found_by_their_beginning() {
        let unsure = Unsure::default();
        for name in ["a", "b", "b1", "b2", "c"] {
            unsure.failed(&name.into(), Version(1), ErrorKind::Device);
        }
        assert_eq!(unsure.with_prefix(b"b"), ["b", "b1", "b2"]);
        assert_eq!(unsure.with_prefix(b"d"), [""; 0]);
    }
}
