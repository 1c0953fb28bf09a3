//! Places that a check found damaged, until it knows whose they are.

use std::collections::{BTreeMap, BTreeSet};

use super::problems::Problem;
use crate::records::Location;

/// Begin, end and problem of damaged bytes.
type Stretch = (u64, u64, Problem);

/// Bytes that cannot be read.
#[derive(Default)]
pub(super) struct Hurt {
    /// Stretches of chunks, by file and ordinal.
    places: BTreeMap<(u64, u32), Vec<Stretch>>,
    /// Blobs of which something is missing.
    blobs: BTreeMap<u64, BTreeSet<Problem>>,
}

impl Hurt {
    pub(super) fn place(&mut self, (file, ordinal): (u64, u32), (from, to): (u64, u64), problem: Problem) {
        self.places.entry((file, ordinal)).or_default().push((from, to, problem));
    }

    pub(super) fn blob(&mut self, blob: u64, problems: impl IntoIterator<Item = Problem>) {
        self.blobs.entry(blob).or_default().extend(problems);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.blobs.is_empty()
    }

    /// The problems of a stretch; none if it is well.
    pub(super) fn at(&self, location: &Location) -> BTreeSet<Problem> {
        let stretches = self.places.get(&(location.file, location.ordinal));
        let hits = |(from, to, _): &&Stretch| *from < location.end() && location.offset < *to;
        stretches.into_iter().flatten().filter(hits).map(|(.., problem)| *problem).collect()
    }

    pub(super) fn has_blobs(&self) -> bool {
        !self.blobs.is_empty()
    }

    /// The problems of a blob; none if it is well.
    pub(super) fn of_blob(&self, blob: u64) -> BTreeSet<Problem> {
        self.blobs.get(&blob).cloned().unwrap_or_default()
    }
}
