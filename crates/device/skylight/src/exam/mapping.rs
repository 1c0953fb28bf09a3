//! Test 12: has a band a fixed place, or does cleaning give it a new one? (Dissertation, section 2.4.10.)
//!
//! A read of a block right after one in another band takes the way of the arm and the angle between both. Such times of some
//! pairs are a fingerprint of the band's place. It stays the same where cleaning puts the band back, and changes where not.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::exam::bands::{Band, Forcing, fill};
use crate::exam::native::{is_native, mark};
use crate::exam::turn::Turn;
use crate::session::{Done, Session};
use crate::stats::median;
use crate::target::MIB;

/// Pairs of a fingerprint.
pub(crate) const PAIRS: u64 = 24;

/// Bands examined.
const BANDS: u64 = 3;

/// Type of mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// Bands have fixed places.
    Static,
    /// Cleaning puts a band in a new place.
    Dynamic,
}

/// Outcome of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MappingFound {
    /// The type.
    pub mapping: Answer<Mapping>,
    /// Times of the first band's pairs before and after, in milliseconds.
    pub pairs_ms: [Vec<f64>; 2],
    /// Median difference of each band's fingerprints, in milliseconds.
    pub moved_ms: Vec<f64>,
}

/// Times of pairs: a block of the region before the band, and one in it.
///
/// # Errors
/// As [`Session::run`].
pub(crate) fn fingerprint(session: &mut Session<'_>, reference: u64, at: u64, step: u64) -> Done<Vec<f64>> {
    let pairs = (0..PAIRS).flat_map(|number| [reference + 3 * number, at + step * number]);
    let taken = session.read_each(pairs)?;
    Ok(taken.chunks(2).map(|two| (two[1].ended - two[0].ended) as f64 / 1e6).collect())
}

/// Median difference of two fingerprints, on the circle of a turn.
pub(crate) fn difference(one: &[f64], other: &[f64], turn: &Turn) -> f64 {
    let apart = |(one, other): (&f64, &f64)| {
        let apart = (one - other).rem_euclid(turn.turn_ms);
        apart.min(turn.turn_ms - apart)
    };
    median(&one.iter().zip(other).map(apart).collect::<Vec<f64>>())
}

/// Examines some bands from a known one on.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(session: &mut Session<'_>, turn: &Turn, forcing: Forcing, band: Band) -> Done<MappingFound> {
    let (mut pairs_ms, mut moved_ms) = ([Vec::new(), Vec::new()], Vec::new());
    if band.blocks < 4 * MIB || band.start + 2 * BANDS * band.blocks > session.blocks() {
        let mapping =
            Answer::cannot_tell("the band that was found is too small for pairs, or too near to the drive's end");
        return Ok(MappingFound { mapping, pairs_ms, moved_ms });
    }
    for number in 0..BANDS {
        // A band apart, so that none is another's reference.
        let start = band.start + 2 * number * band.blocks;
        let (reference, at) = (start - MIB, start + MIB);
        let step = (band.blocks - 3 * MIB) / PAIRS;
        let before = fingerprint(session, reference, at, step)?;
        let again = fingerprint(session, reference, at, step)?;
        if difference(&before, &again, turn) > turn.tolerance_ms() {
            let mapping = Answer::cannot_tell("reads of the same pairs take different times");
            return Ok(MappingFound { mapping, pairs_ms, moved_ms });
        }
        mark(session, &[at])?;
        match forcing {
            Forcing::Pause(pace) => session.pause(pace.quiet_ms + 6.0 * pace.band_ms)?,
            Forcing::Fill => drop(fill(session, start)?),
        }
        if !is_native(session, turn, at)? {
            let mapping = Answer::cannot_tell("the band was not cleaned");
            return Ok(MappingFound { mapping, pairs_ms, moved_ms });
        }
        let after = fingerprint(session, reference, at, step)?;
        moved_ms.push(difference(&before, &after, turn));
        if number == 0 {
            pairs_ms = [before, after];
        }
    }
    let moved = moved_ms.iter().filter(|moved| **moved > turn.tolerance_ms()).count();
    let mapping = match moved {
        0 => Answer::known(Mapping::Static),
        _ if moved == moved_ms.len() => Answer::known(Mapping::Dynamic),
        _ => Answer::cannot_tell(format!("{moved} of {BANDS} bands have moved")),
    };
    Ok(MappingFound { mapping, pairs_ms, moved_ms })
}
