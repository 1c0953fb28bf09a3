//! Places that a check found damaged, until it knows whose they are.

use std::collections::{BTreeMap, BTreeSet};

use crate::records::Location;

/// Bytes that cannot be read.
#[derive(Default)]
pub(super) struct Hurt {
    /// Stretches of chunks, by file and ordinal.
    places: BTreeMap<(u64, u32), Vec<(u64, u64)>>,
    /// Blobs of which something is missing.
    blobs: BTreeSet<u64>,
}

impl Hurt {
    pub(super) fn place(&mut self, file: u64, ordinal: u32, from: u64, to: u64) {
        self.places.entry((file, ordinal)).or_default().push((from, to));
    }

    pub(super) fn blob(&mut self, blob: u64) {
        self.blobs.insert(blob);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.blobs.is_empty()
    }

    pub(super) fn hits(&self, location: &Location) -> bool {
        let stretches = self.places.get(&(location.file, location.ordinal));
        stretches.is_some_and(|all| all.iter().any(|(from, to)| *from < location.end() && location.offset < *to))
    }

    pub(super) fn has_blobs(&self) -> bool {
        !self.blobs.is_empty()
    }

    pub(super) fn has_blob(&self, blob: u64) -> bool {
        self.blobs.contains(&blob)
    }
}
