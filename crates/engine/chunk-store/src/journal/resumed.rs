//! Sizes at which chunks were continued after openings: records that an earlier opening may have left behind them are
//! dead (CS-APP-5).
//!
//! **Owns** the places, of open chunks and of sealed ones, for as long as a record may be on the drive that they say is
//! dead.
//!
//! # Invariants
//! - CS-RESUME-1: the journal has the entry of every place here, for a checkpoint journals them again, with their own
//!   numbers. The chunk's size says too little: an old record may end before that, and yet past the place.

use std::collections::BTreeMap;

use crate::index::Handle;

/// The number of the entry, and where the chunk went on.
pub(crate) type Continuation = (u64, u32);

/// Places by chunk.
#[derive(Debug, Default)]
pub(crate) struct Resumed {
    places: BTreeMap<Handle, Vec<Continuation>>,
    count: u64,
}

impl Resumed {
    /// A chunk goes on.
    pub(crate) fn note(&mut self, chunk: Handle, place: Continuation) {
        self.places.entry(chunk).or_default().push(place);
        self.count += 1;
    }

    /// The chunk is gone.
    pub(crate) fn remove(&mut self, chunk: Handle) {
        self.count -= self.places.remove(&chunk).map_or(0, |places| places.len() as u64);
    }

    /// Forgets the places that are older than what any zone holds, whose oldest generation is `oldest`: records in a
    /// generation have higher numbers than it, and none is left for these places to say anything of.
    pub(crate) fn forget_before(&mut self, oldest: u64) {
        self.places.retain(|_, places| {
            let before = places.len();
            places.retain(|&(number, _)| number >= oldest);
            self.count -= (before - places.len()) as u64;
            !places.is_empty()
        });
    }

    /// Number of places.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// All places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, Continuation)> + '_ {
        self.places.iter().flat_map(|(&chunk, places)| places.iter().map(move |&place| (chunk, place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_kept_until_nothing_older_is_left() {
        let mut resumed = Resumed::default();
        for place in [(1, (10, 100)), (1, (20, 200)), (2, (15, 0)), (3, (30, 7))] {
            resumed.note(place.0, place.1);
        }
        resumed.forget_before(15);
        let left: Vec<_> = resumed.iter().collect();
        assert_eq!((left, resumed.count()), (vec![(1, (20, 200)), (2, (15, 0)), (3, (30, 7))], 3));
        resumed.remove(1);
        resumed.remove(9);
        resumed.forget_before(u64::MAX);
        assert_eq!((resumed.iter().count(), resumed.count()), (0, 0));
    }
}
