//! Test 14: sequential rate by position, and the steps in it, which are recording zones. (Dissertation, section 2.4.12.)

use serde::{Deserialize, Serialize};

use crate::session::{Done, Session, intervals};
use crate::stats::median;
use crate::target::{Access, MIB};

/// Positions.
const POSITIONS: u64 = 385;

/// MiB read at each.
const READ: u64 = 16;

/// MiB read at the first and at the last addresses.
const ENDS: u64 = 192;

/// Reads outstanding, so that no turn is lost between them.
const DEPTH: usize = 4;

/// Reads in order whose single times are kept.
const SEQUENCE: u64 = 1024;

/// Blocks of each of them.
pub const SEQUENCE_BLOCKS: u64 = 32;

/// Share of a stretch's rate from which on a difference from it is a step.
const STEP: f64 = 0.009;

/// Sequential rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SurfaceFound {
    /// Share of the drive before each position, and the rate there in MB/s.
    pub profile: Vec<(f64, f64)>,
    /// Rate at the first and at the last addresses, in MB/s.
    pub first_mb_s: f64,
    /// The latter.
    pub last_mb_s: f64,
    /// Stretches of equal rate: recording zones, as far as the positions tell them apart.
    pub zones: u64,
    /// Milliseconds from each of [`SEQUENCE_BLOCKS`] read in order to the next: longer where the track changes, and still longer
    /// where the head does.
    #[serde(default)]
    pub sequence_ms: Vec<f64>,
}

/// Rate of a sequential read at a place, in MB/s.
///
/// # Errors
/// As [`Session::run`].
pub fn rate(session: &mut Session<'_>, at: u64) -> Done<f64> {
    rate_over(session, at, READ)
}

/// The same over so many MiB.
///
/// # Errors
/// As [`Session::run`].
pub(crate) fn rate_over(session: &mut Session<'_>, at: u64, mib: u64) -> Done<f64> {
    let reads: Vec<Access> = (0..=mib).map(|number| Access::read(at + number * MIB, MIB)).collect();
    let ends: Vec<u64> = session.run(DEPTH, &reads)?.iter().map(|taken| taken.ended).collect();
    let took = ends.iter().max().unwrap_or(&0).saturating_sub(ends.first().copied().unwrap_or(0));
    Ok((mib << 20) as f64 / (took.max(1) as f64 / 1e3))
}

/// Rates at the first and at the last addresses, over so many tracks that one change of them more or less is nothing.
///
/// # Errors
/// As [`Session::run`].
pub(crate) fn ends(session: &mut Session<'_>) -> Done<(f64, f64)> {
    let last = session.blocks().saturating_sub((ENDS + 1) * MIB);
    Ok((rate_over(session, 0, ENDS.min(last / MIB))?, rate_over(session, last, ENDS)?))
}

/// Examines the rates.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(session: &mut Session<'_>) -> Done<SurfaceFound> {
    let end = session.blocks().saturating_sub((READ + 1) * MIB);
    let mut profile = Vec::new();
    for number in 0..POSITIONS {
        let at = (end as f64 / (POSITIONS - 1) as f64 * number as f64) as u64;
        profile.push((at as f64 / session.blocks() as f64, rate(session, at)?));
    }
    let rates: Vec<f64> = profile.iter().map(|entry| entry.1).collect();
    // Of three neighbours the middle one, so that a single disturbed read is no step.
    let smooth: Vec<f64> = rates.windows(3).map(median).collect();
    let steps = steps(&smooth);
    let (first_mb_s, last_mb_s) = ends(session)?;
    let sequence_ms = sequence(session)?;
    Ok(SurfaceFound { profile, first_mb_s, last_mb_s, zones: steps + 1, sequence_ms })
}

/// Steps from one stretch of equal rate to the next: one that lies amid a position is none of two.
fn steps(rates: &[f64]) -> u64 {
    let (mut steps, mut level) = (0, f64::NAN);
    for &rate in rates {
        if (rate / level - 1.0).abs() > STEP {
            steps += 1;
        }
        if level.is_nan() || (rate / level - 1.0).abs() > STEP {
            level = rate;
        }
    }
    steps
}

/// Times of some tracks in order, from 3/8 of the drive on, where no cache is expected.
fn sequence(session: &mut Session<'_>) -> Done<Vec<f64>> {
    let at = session.blocks() / 8 * 3;
    let end = session.blocks().min(at + SEQUENCE * SEQUENCE_BLOCKS);
    let reads: Vec<Access> =
        (at..end).step_by(SEQUENCE_BLOCKS as usize).map(|at| Access::read(at, SEQUENCE_BLOCKS)).collect();
    let reads = reads.get(..reads.len().saturating_sub(1)).unwrap_or_default();
    Ok(intervals(&session.run(DEPTH, reads)?))
}
