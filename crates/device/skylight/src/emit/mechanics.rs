//! Arm and platters of an emitted profile.

use shingle_drive_model::{Mechanics as Arm, Profile};

use crate::exam::mechanics::{Mechanics, examine};
use crate::exam::surface;
use crate::exam::turn::{self, Turn};
use crate::findings::Findings;
use crate::session::{Done, Session, Unwatched};
use crate::stats::median;
use crate::target::{Host, Modelled, Target};

/// Rounds of calibration.
const ROUNDS: usize = 3;

/// Positions of the rates that are compared.
const RATES: u64 = 5;

pub(super) fn of(turn: &Turn, arm: &Mechanics) -> Arm {
    let mut made = Arm {
        rpm: (60_000.0 / turn.turn_ms).round() as u32,
        heads: 8,
        settle_ms: 0.0,
        average_seek_ms: 0.0,
        full_seek_ms: 0.0,
        write_settle_ms: arm.write_settle_ms.unwrap_or(0.4),
        head_switch_ms: 0.0,
    };
    set_seeks(&mut made, arm.settle_ms, arm.average_seek_ms, arm.full_seek_ms);
    made
}

/// Takes these seeks, or the nearest ones that a seek curve can have: its root and linear parts are neither negative.
fn set_seeks(arm: &mut Arm, settle_ms: f64, average_ms: f64, full_ms: f64) {
    arm.settle_ms = settle_ms.min(average_ms * 0.9).max(0.1);
    arm.full_seek_ms = full_ms.max(average_ms + 0.1);
    let rise = arm.full_seek_ms - arm.settle_ms;
    arm.average_seek_ms = average_ms.clamp(arm.settle_ms + rise * 0.334, arm.settle_ms + rise * 0.533);
    arm.head_switch_ms = 1.0_f64.min(arm.settle_ms);
}

/// The profile whose changes of tracks, sequential rates and seeks are the measured ones.
pub(super) fn calibrated(profile: Profile, findings: &Findings) -> Profile {
    with_seeks(with_rates(with_tracks(profile, findings), findings), findings)
}

/// The profile whose changes of tracks look as the drive's do: a microsecond less can cost each sequential write a turn.
fn with_tracks(mut profile: Profile, findings: &Findings) -> Profile {
    let Some(wanted) = findings.turn().filter(|turn| turn.track_change_ms > 0.0) else { return profile };
    for _ in 0..ROUNDS {
        let Some(seen) = examined(&profile, findings.seed, turn::of_drive) else { return profile };
        let Some(seen) = seen.value().filter(|turn| turn.track_change_ms > 0.0) else { return profile };
        let Some(recording) = &mut profile.recording else { return profile };
        recording.skew_ms = (recording.skew_ms + wanted.track_change_ms - seen.track_change_ms).max(0.0);
    }
    profile
}

/// The profile whose arm shows the same seeks in the same examination: between random blocks they are shorter than between
/// random tracks, since outer tracks have more blocks.
fn with_seeks(mut profile: Profile, findings: &Findings) -> Profile {
    let (Some(wanted), Some(turn)) = (findings.mechanics, findings.turn()) else { return profile };
    let (mut settle, mut average, mut full) = (wanted.settle_ms, wanted.average_seek_ms, wanted.full_seek_ms);
    for _ in 0..ROUNDS {
        let examine = |session: &mut Session<'_>| examine(session, turn);
        let Some(seen) = examined(&profile, findings.seed, examine) else { return profile };
        settle += wanted.settle_ms - seen.settle_ms;
        average += wanted.average_seek_ms - seen.average_seek_ms;
        full += wanted.full_seek_ms - seen.full_seek_ms;
        if let Some(arm) = &mut profile.mechanics {
            set_seeks(arm, settle, average, full);
        }
    }
    profile
}

/// Outcome of an examination of a modelled drive.
fn examined<T>(profile: &Profile, seed: u64, examine: impl FnOnce(&mut Session<'_>) -> Done<T>) -> Option<T> {
    let mut drive = Modelled::new(profile, Host::default())?;
    let mut unwatched = Unwatched;
    examine(&mut Session::new(&mut drive, &mut unwatched, seed).ok()?).ok()
}

/// The profile whose sequential rates at the host's first and last addresses are the measured ones: a cache at the outer
/// diameter shifts them.
fn with_rates(mut profile: Profile, findings: &Findings) -> Profile {
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
