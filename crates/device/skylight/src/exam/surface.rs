//! Test 14: sequential rate by position, and the steps in it, which are recording zones. (Dissertation, section 2.4.12.)

use serde::{Deserialize, Serialize};

use crate::session::{Done, Session};
use crate::stats::median;
use crate::target::{Access, MIB};

/// Positions.
const POSITIONS: u64 = 129;

/// MiB read at each.
const READ: u64 = 16;

/// Reads outstanding, so that no turn is lost between them.
const DEPTH: usize = 4;

/// Share of the rate from which on a difference of neighbours is a step.
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
}

/// Rate of a sequential read at a place, in MB/s.
///
/// # Errors
/// As [`Session::run`].
pub fn rate(session: &mut Session<'_>, at: u64) -> Done<f64> {
    let reads: Vec<Access> = (0..=READ).map(|number| Access::read(at + number * MIB, MIB)).collect();
    let taken = session.run(DEPTH, &reads)?;
    let (first, last) = (taken[0].ended, taken[READ as usize].ended);
    Ok((READ << 20) as f64 / (last.saturating_sub(first).max(1) as f64 / 1e3))
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
    let steps = smooth.windows(2).filter(|two| (two[1] / two[0] - 1.0).abs() > STEP).count();
    let (first_mb_s, last_mb_s) = (median(&rates[..3]), median(&rates[rates.len() - 3..]));
    Ok(SurfaceFound { profile, first_mb_s, last_mb_s, zones: steps as u64 + 1 })
}
