//! Cleaning: the live pages of a victim go to another row, a part at a time, and the victim is erased.

use std::ops::Range;

/// A row that is being cleaned, and its present step.
#[derive(Clone, Debug)]
pub(super) struct Cleaning {
    pub(super) victim: u32,
    pub(super) step: Step,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// These places are read.
    Reads(Vec<u32>),
    /// Copies of them are written: from, and to.
    Writes(Vec<(u32, u32)>),
    Erases,
}

/// Places in order, as ranges.
pub(super) fn ranges(places: impl Iterator<Item = u32>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for place in places.map(u64::from) {
        match ranges.last_mut().filter(|last| last.end == place) {
            Some(last) => last.end += 1,
            None => ranges.push(place..place + 1),
        }
    }
    ranges
}
