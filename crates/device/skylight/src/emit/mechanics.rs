//! Arm and platters of an emitted profile.

use shingle_drive_model::{Mechanics as Arm, Profile};

use crate::exam::mechanics::Mechanics;
use crate::exam::surface;
use crate::exam::turn::Turn;
use crate::findings::Findings;
use crate::session::{Session, Unwatched};
use crate::stats::median;
use crate::target::{Host, Modelled, Target};

/// Rounds of calibration.
const ROUNDS: usize = 3;

/// Positions of the rates that are compared.
const RATES: u64 = 5;

pub(super) fn of(turn: &Turn, arm: &Mechanics) -> Arm {
    let settle_ms = arm.settle_ms.min(arm.average_seek_ms * 0.9);
    // The seek curve's root and linear parts are neither negative: the average is within these bounds.
    let full_seek_ms = arm.full_seek_ms.max(arm.average_seek_ms + 0.1);
    let rise = full_seek_ms - settle_ms;
    let average_seek_ms = arm.average_seek_ms.clamp(settle_ms + rise * 0.334, settle_ms + rise * 0.533);
    Arm {
        rpm: (60_000.0 / turn.turn_ms).round() as u32,
        heads: 8,
        settle_ms,
        average_seek_ms,
        full_seek_ms,
        write_settle_ms: 0.4,
        head_switch_ms: 1.0_f64.min(settle_ms),
    }
}

/// The profile whose sequential rates at the host's first and last addresses are the measured ones: a cache at the outer
/// diameter shifts them.
pub(super) fn calibrated(mut profile: Profile, findings: &Findings) -> Profile {
    let Some(surface) = &findings.surface else { return profile };
    for _ in 0..ROUNDS {
        let Some((first, last)) = rates(&profile) else { return profile };
        let Some(recording) = &mut profile.recording else { return profile };
        recording.outer_mb_s *= surface.first_mb_s / first;
        recording.inner_mb_s = (recording.inner_mb_s * surface.last_mb_s / last).min(recording.outer_mb_s);
    }
    profile
}

/// Rates at a modelled drive's first and last addresses, in MB/s.
fn rates(profile: &Profile) -> Option<(f64, f64)> {
    let mut drive = Modelled::new(profile, Host::default())?;
    let blocks = drive.blocks();
    let mut unwatched = Unwatched;
    let mut session = Session::new(&mut drive, &mut unwatched, 1).ok()?;
    let mut of = |at: fn(u64, u64) -> u64| -> Option<f64> {
        let rates: Vec<f64> =
            (0..RATES).map(|number| surface::rate(&mut session, at(blocks, number))).collect::<Result<_, _>>().ok()?;
        Some(median(&rates))
    };
    let first = of(|blocks, number| blocks / 256 * number)?;
    let last = of(|blocks, number| blocks - blocks / 256 * number - 20 * 256)?;
    Some((first, last))
}
