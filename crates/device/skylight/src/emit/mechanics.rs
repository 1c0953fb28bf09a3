//! Arm and platters of an emitted profile.

use shingle_drive_model::{Jitter, Mechanics as Arm, Profile, Translation};

use crate::exam::mechanics::{Mechanics, appended_write, examine, late, memory, queued_write};
use crate::exam::surface;
use crate::exam::turn::{self, Turn};
use crate::findings::Findings;
use crate::session::{Done, Session, Unwatched};
use crate::stats::mean;
use crate::target::{Host, Modelled};

/// Rounds of calibration.
const ROUNDS: usize = 3;

/// The mean of all but a twentieth of late completions, in their mean.
const LATE_MOST: f64 = 0.63;

/// The longest wait of writes.
const WRITE_SETTLE_MAX_MS: f64 = 3.0;

/// Surfaces that are tried, the likeliest first, and the distance of a median that is near enough.
const HEADS: [u32; 9] = [8, 6, 10, 4, 12, 7, 9, 5, 11];
const NEAR: f64 = 0.01;

pub(super) fn of(turn: &Turn, arm: &Mechanics) -> Arm {
    let mut made = Arm {
        rpm: (60_000.0 / turn.turn_ms).round() as u32,
        heads: HEADS[0],
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

/// The profile whose answers, changes of tracks, sequential rates and seeks are the measured ones.
pub(super) fn calibrated(profile: Profile, findings: &Findings) -> Profile {
    with_seeks(with_rates(with_tracks(with_answers(profile, findings), findings), findings), findings)
}

/// The profile whose reads from its memory take as long, and come as late.
fn with_answers(mut profile: Profile, findings: &Findings) -> Profile {
    let (Some(wanted), Some(turn)) = (findings.mechanics, findings.turn()) else { return profile };
    let Some(late_ms) = wanted.late_ms else { return profile };
    let jitter =
        Jitter { seed: findings.seed >> 1, spindle_ppm: 0, wander_us: 0, completion_us: late_ms * 1e3 / LATE_MOST };
    profile.jitter = Some(jitter);
    for _ in 0..ROUNDS {
        let answers = |session: &mut Session<'_>| Ok((memory(session, turn)?.0, late(session, turn)?));
        let Some((overhead_ms, Some(seen_ms))) = examined(&profile, findings.seed, answers) else { return profile };
        profile.queue.overhead_us = (profile.queue.overhead_us + (wanted.overhead_ms - overhead_ms) * 1e3).max(1.0);
        if let Some(jitter) = &mut profile.jitter {
            jitter.completion_us = (jitter.completion_us + (late_ms - seen_ms) * 1e3 / LATE_MOST).max(0.0);
        }
    }
    profile
}

/// The profile that takes as long for a write to another place: the wait of writes is set so.
pub(super) fn with_appended_writes(mut profile: Profile, findings: &Findings) -> Profile {
    let (Some(turn), Some(arm)) = (findings.turn(), findings.mechanics) else { return profile };
    let Some(wanted) = arm.appended_write_ms else { return profile };
    for _ in 0..ROUNDS {
        let examine = |session: &mut Session<'_>| appended_write(session, turn);
        let Some(Some(seen)) = examined(&profile, findings.seed, examine) else { return profile };
        let Some(arm) = &mut profile.mechanics else { return profile };
        arm.write_settle_ms = (arm.write_settle_ms + wanted - seen).clamp(0.0, WRITE_SETTLE_MAX_MS);
    }
    profile
}

/// The profile of that many surfaces whose queue of writes is as fast, of a drive with caches in its zones. Their number is not known, and times depend on it
/// by the angles alone at which these few caches lie to each other.
pub(super) fn with_queued_writes(mut profile: Profile, findings: &Findings) -> Profile {
    let Some(wanted) = findings.mechanics.and_then(|arm| arm.queued_write_ms) else { return profile };
    if !matches!(profile.translation, Some(Translation::FullyAssociative(_))) {
        return profile;
    }
    let mut best: Option<(f64, u32)> = None;
    for heads in HEADS {
        let Some(arm) = &mut profile.mechanics else { return profile };
        arm.heads = heads;
        let Some(seen) = examined(&profile, findings.seed, queued_write) else { continue };
        let off = (seen / wanted - 1.0).abs();
        if best.is_none_or(|(least, _)| off < least) {
            best = Some((off, heads));
        }
        if off < NEAR {
            break;
        }
    }
    if let (Some(arm), Some((_, heads))) = (&mut profile.mechanics, best) {
        arm.heads = heads;
    }
    profile
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
    let mut seeks = [wanted.settle_ms, wanted.average_seek_ms, wanted.full_seek_ms];
    let mut told = Vec::new();
    for round in 0..=ROUNDS {
        let examine = |session: &mut Session<'_>| examine(session, turn);
        let Some(seen) = examined(&profile, findings.seed, examine) else { return profile };
        seeks[0] += wanted.settle_ms - seen.settle_ms;
        seeks[1] += wanted.average_seek_ms - seen.average_seek_ms;
        seeks[2] += wanted.full_seek_ms - seen.full_seek_ms;
        // The first round brings them near; each one behind tells them anew, and chance is less in their mean.
        if round > 0 {
            told.push(seeks);
            seeks = [0, 1, 2].map(|which| mean(&told.iter().map(|seeks| seeks[which]).collect::<Vec<f64>>()));
        }
        if let Some(arm) = &mut profile.mechanics {
            set_seeks(arm, seeks[0], seeks[1], seeks[2]);
        }
    }
    profile
}

/// Outcome of an examination of a modelled drive.
pub(super) fn examined<T>(
    profile: &Profile,
    seed: u64,
    examine: impl FnOnce(&mut Session<'_>) -> Done<T>,
) -> Option<T> {
    let mut drive = Modelled::new(profile, Host::default())?;
    let mut unwatched = Unwatched;
    examine(&mut Session::new(&mut drive, &mut unwatched, seed).ok()?).ok()
}

/// The profile whose sequential rates at the host's first and last addresses are the measured ones: a cache at the outer
/// diameter shifts them.
fn with_rates(mut profile: Profile, findings: &Findings) -> Profile {
    let Some(surface) = &findings.surface else { return profile };
    for _ in 0..ROUNDS {
        let Some((first, last)) = examined(&profile, findings.seed, surface::ends) else { return profile };
        let Some(recording) = &mut profile.recording else { return profile };
        recording.outer_mb_s *= surface.first_mb_s / first;
        recording.inner_mb_s = (recording.inner_mb_s * surface.last_mb_s / last).min(recording.outer_mb_s);
    }
    profile
}
