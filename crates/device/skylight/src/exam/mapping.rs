//! Test 12: has a band a fixed place, or does cleaning give it a new one? (Dissertation, section 2.4.10.)
//!
//! A read of a block right after one in another band takes the way of the arm and the angle between both. Such times of some
//! pairs are a fingerprint of the band's place. It stays the same where cleaning puts the band back, and changes where not: by
//! more than that of two looks at the same place (rank test). A new place may by chance lie at the old one's angle, so that one band that has
//! moved and one that seems not to have call for more of them.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::exam::bands::{Band, Forcing, fill};
use crate::exam::native::{is_native, mark};
use crate::exam::turn::Turn;
use crate::session::{Done, Session};
use crate::stats::{CONFIDENCE, median, rank_test};
use crate::target::MIB;

/// Pairs of a fingerprint.
pub(crate) const PAIRS: u64 = 24;

/// Bands examined, and the most where these do not agree.
const BANDS: usize = 3;
const BANDS_MAX: usize = 8;

/// Bands that have moved from which on the mapping is dynamic.
const MOVED: usize = 2;

/// Waits for a band's cleaning, each twice as long as the one before.
const WAITS: u32 = 3;

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

/// Differences of two fingerprints, on the circle of a turn.
fn differences(one: &[f64], other: &[f64], turn: &Turn) -> Vec<f64> {
    let apart = |(one, other): (&f64, &f64)| {
        let apart = (one - other).rem_euclid(turn.turn_ms);
        apart.min(turn.turn_ms - apart)
    };
    one.iter().zip(other).map(apart).collect()
}

/// Median difference of two fingerprints.
pub(crate) fn difference(one: &[f64], other: &[f64], turn: &Turn) -> f64 {
    median(&differences(one, other, turn))
}

/// Examines some bands from a known one on.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(session: &mut Session<'_>, turn: &Turn, forcing: Forcing, band: Band) -> Done<MappingFound> {
    let mut found = MappingFound {
        mapping: Answer::cannot_tell("the band that was found is too small for pairs, or too near to the drive's end"),
        pairs_ms: [Vec::new(), Vec::new()],
        moved_ms: Vec::new(),
    };
    if band.blocks < 4 * MIB || band.start + 2 * BANDS_MAX as u64 * band.blocks > session.blocks() {
        return Ok(found);
    }
    let mut moved = 0;
    for number in 0..BANDS_MAX {
        // A band apart, so that none is another's reference.
        let start = band.start + 2 * number as u64 * band.blocks;
        let [before, again, after] = match moved_by(session, turn, forcing, Band { start, ..band })? {
            Ok(looks) => looks,
            Err(reason) => {
                found.mapping = Answer::cannot_tell(reason);
                return Ok(found);
            }
        };
        let (still, now) = (differences(&before, &again, turn), differences(&before, &after, turn));
        let has_moved = median(&now) > turn.tolerance_ms() && rank_test(&still, &now) < 1.0 - CONFIDENCE;
        moved += usize::from(has_moved);
        found.moved_ms.push(median(&now));
        if number == 0 {
            found.pairs_ms = [before, after];
        }
        if number + 1 >= BANDS && (moved == 0 || moved >= MOVED) {
            break;
        }
    }
    found.mapping = decide(moved, found.moved_ms.len(), turn);
    Ok(found)
}

/// A band that is put back never moves. One that is put elsewhere seems not to have moved if it is at the old angle, within the
/// tolerance either way.
fn decide(moved: usize, bands: usize, turn: &Turn) -> Answer<Mapping> {
    let by_chance = (2.0 * turn.tolerance_ms() / turn.turn_ms).powi(bands as i32);
    match moved {
        0 if by_chance < 1.0 - CONFIDENCE => Answer::tested(Mapping::Static),
        0 => Answer::cannot_tell("no band has moved, but times of this drive vary too much to tell"),
        _ if moved >= MOVED => Answer::tested(Mapping::Dynamic),
        _ => Answer::cannot_tell(format!("{moved} of {bands} bands have moved")),
    }
}

/// Fingerprints of a band: two before it is cleaned, and one after. The inner error is the reason why there is none.
fn moved_by(
    session: &mut Session<'_>,
    turn: &Turn,
    forcing: Forcing,
    band: Band,
) -> Done<Result<[Vec<f64>; 3], &'static str>> {
    let (reference, at, step) = (band.start - MIB, band.start + MIB, (band.blocks - 3 * MIB) / PAIRS);
    let before = fingerprint(session, reference, at, step)?;
    let again = fingerprint(session, reference, at, step)?;
    if difference(&before, &again, turn) > turn.tolerance_ms() {
        return Ok(Err("reads of the same pairs take different times"));
    }
    mark(session, &[at])?;
    for wait in 0..WAITS {
        match forcing {
            Forcing::Pause(pace) => session.pause(pace.quiet_ms + 6.0 * f64::from(1 << wait) * pace.band_ms)?,
            Forcing::Fill => drop(fill(session, band.start)?),
        }
        if is_native(session, turn, at)? {
            return Ok(Ok([before, again, fingerprint(session, reference, at, step)?]));
        }
    }
    Ok(Err("the band was not cleaned"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_that_seems_to_have_stayed_does_not_outweigh_two_that_moved() {
        let turn = |spread_ms| Turn {
            turn_ms: 10.0,
            block_ms: 0.02,
            spread_ms,
            track_change_ms: 0.6,
            track_blocks: Some(470),
        };
        let told = |moved, bands, spread_ms| decide(moved, bands, &turn(spread_ms)).value().copied();
        assert_eq!(told(0, 3, 0.01), Some(Mapping::Static));
        assert_eq!([told(2, 3, 0.01), told(3, 3, 0.01), told(2, 8, 0.01)], [Some(Mapping::Dynamic); 3]);
        assert_eq!(told(1, 8, 0.01), None, "one may be an accident of measuring");
        assert_eq!(told(0, 3, 0.5), None, "a tolerance of a third of a turn tells nothing");
    }
}
