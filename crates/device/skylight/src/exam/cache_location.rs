//! Test 2: where on the platters is the persistent cache? (Dissertation, section 2.4.4.)
//!
//! Every second block of a region is written, and the region is read block by block (from its end, where no look-ahead helps): half of the blocks come from the cache, so
//! that each read costs a way of the arm to the cache or back. Repetitions in regions at low, middle and high addresses give
//! means that a rank test compares; a difference counts from a twelfth on, which is more than several caches near their data show.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::session::{Done, Session, latencies};
use crate::stats::{CONFIDENCE, mean, median, rank_test};

/// Blocks written of each region: every second one.
const WRITTEN: u64 = 512;

/// Blocks of a region.
pub(crate) const REGION: u64 = 2 * WRITTEN;

/// Regions at each of low, middle and high addresses.
const REPEATS: u64 = 11;

/// Factor from which on means differ.
const DIFFERS_FROM: f64 = 1.08;

/// Factor up to which all three are the same.
const SAME_UP_TO: f64 = 1.25;

/// Place of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheLocation {
    /// One cache at the outer diameter.
    Outer,
    /// One cache at the inner diameter.
    Inner,
    /// One cache at the middle.
    Middle,
    /// Several caches near their data.
    Several,
}

/// Outcome of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheLocationFound {
    /// The place.
    pub location: Answer<CacheLocation>,
    /// Mean latency of each repetition at low, middle and high addresses, in milliseconds.
    pub means_ms: [Vec<f64>; 3],
    /// Latencies of one repetition at each, in milliseconds.
    pub latencies_ms: [Vec<f64>; 3],
}

/// Writes every second block of the region at `at`.
///
/// # Errors
/// As [`Session::run`].
pub(crate) fn fragment(session: &mut Session<'_>, at: u64) -> Done<()> {
    let places: Vec<u64> = (0..WRITTEN).map(|number| at + 2 * number).collect();
    session.write(31, 1, &places)?;
    Ok(())
}

/// Examines the place.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(session: &mut Session<'_>) -> Done<CacheLocationFound> {
    let blocks = session.blocks();
    let (mut means_ms, mut latencies_ms): ([Vec<f64>; 3], [Vec<f64>; 3]) = Default::default();
    for repeat in 0..REPEATS {
        for place in 0..3u64 {
            // Within the first, middle and last percent.
            let shift = blocks / 100 * repeat / REPEATS;
            let at = [shift, blocks / 2 - blocks / 200 + shift, blocks - REGION - shift][place as usize];
            fragment(session, at)?;
            let taken = latencies(&session.read_each((0..REGION).rev().map(|number| at + number))?);
            means_ms[place as usize].push(mean(&taken));
            if repeat == 0 {
                latencies_ms[place as usize] = taken;
            }
        }
    }
    Ok(CacheLocationFound { location: decide(&means_ms), means_ms, latencies_ms })
}

fn decide([low, middle, high]: &[Vec<f64>; 3]) -> Answer<CacheLocation> {
    let above = |one: &[f64], other: &[f64]| {
        median(one) > DIFFERS_FROM * median(other) && rank_test(one, other) < 1.0 - CONFIDENCE
    };
    let medians = [median(low), median(middle), median(high)];
    let (least, most) =
        (medians.iter().copied().fold(f64::MAX, f64::min), medians.iter().copied().fold(f64::MIN, f64::max));
    if above(middle, low) && above(high, middle) {
        Answer::tested(CacheLocation::Outer)
    } else if above(low, middle) && above(middle, high) {
        Answer::tested(CacheLocation::Inner)
    } else if above(low, middle) && above(high, middle) {
        Answer::tested(CacheLocation::Middle)
    } else if most <= SAME_UP_TO * least {
        Answer::tested(CacheLocation::Several)
    } else {
        let [low, middle, high] = medians;
        Answer::cannot_tell(format!(
            "fragmented reads take {low:.1}, {middle:.1} and {high:.1} ms at low, middle and high addresses, which fits no place"
        ))
    }
}
