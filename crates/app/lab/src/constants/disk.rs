//! Constants of arms and platters.

use shingle_drive_model::{Figure, Mechanics, Profile, Recording};

use super::named::{Constant, published, times, whole};

/// Multiplies a constant of a disk, if it is one and is assumed of that drive; returns whether it is.
pub(super) fn scale(constant: Constant, profile: &mut Profile, by: f64) -> bool {
    let fitted = published(profile, Figure::RandomReadIops)
        .map(|published| f64::from(published.zones.unwrap_or(profile.shape.zones)) / f64::from(profile.shape.zones));
    let mean_rate = published(profile, Figure::SequentialReadMean).is_some();
    let outer_rate = published(profile, Figure::SequentialReadOuter).is_some();
    let (Some(arm), Some(recording)) = (&mut profile.mechanics, &mut profile.recording) else { return false };
    match (constant, fitted) {
        (Constant::Settle, Some(share)) => refit(arm, recording, share, |arm| arm.settle_ms *= by),
        (Constant::Settle, None) => arm.settle_ms *= by,
        (Constant::FullSeek, Some(share)) => refit(arm, recording, share, |arm| arm.full_seek_ms *= by),
        (Constant::Seeks, None) => {
            for seek in [&mut arm.settle_ms, &mut arm.average_seek_ms, &mut arm.full_seek_ms] {
                *seek *= by;
            }
        }
        (Constant::WriteSettle, _) => return times(&mut arm.write_settle_ms, by),
        (Constant::HeadSwitch, _) => return times(&mut arm.head_switch_ms, by),
        (Constant::Heads, _) => return whole(&mut arm.heads, by),
        (Constant::InnerRate, _) if !mean_rate => {
            recording.inner_mb_s = (recording.inner_mb_s * by).min(recording.outer_mb_s);
        }
        (Constant::Rates, _) if !mean_rate && !outer_rate => {
            recording.outer_mb_s *= by;
            recording.inner_mb_s *= by;
        }
        (Constant::Bands, _) => return whole(&mut recording.bands, by),
        (Constant::RunLength, _) => return whole(&mut recording.run_mib, by),
        (Constant::Skew, _) => return times(&mut recording.skew_ms, by),
        _ => return false,
    }
    true
}

/// Means of the root of a distance and of a distance, over pairs of places drawn from that share of a drive's stroke, in strokes.
fn means(stroke: f64) -> (f64, f64) {
    (8.0 / 15.0 * stroke.sqrt(), stroke / 3.0)
}

/// The part of the stroke over which that share of a drive's data lies, from the outer diameter on; tracks get shorter with the radius.
fn stroke_of(share: f64, recording: &Recording) -> f64 {
    let (outer, fall) = (recording.outer_mb_s, recording.outer_mb_s - recording.inner_mb_s);
    let wanted = share * (outer - fall / 2.0);
    if fall <= 0.0 {
        return share;
    }
    (outer - (outer * outer - 2.0 * fall * wanted).max(0.0).sqrt()) / fall
}

/// Changes a seek curve, and gives it the mean seek that makes the mean over the first `share` of the drive what it was (LAB-CONST-1),
/// or the nearest one that an arm can have.
fn refit(arm: &mut Mechanics, recording: &Recording, share: f64, change: impl FnOnce(&mut Mechanics)) {
    let (root_mean, linear_mean) = means(stroke_of(share, recording));
    let (whole_root, whole_linear) = means(1.0);
    let root_of = |arm: &Mechanics| {
        let rise = arm.full_seek_ms - arm.settle_ms;
        (arm.average_seek_ms - arm.settle_ms - rise * whole_linear) / (whole_root - whole_linear)
    };
    let (root, rise) = (root_of(arm), arm.full_seek_ms - arm.settle_ms);
    let mean = arm.settle_ms + root * root_mean + (rise - root) * linear_mean;
    change(arm);
    arm.full_seek_ms = arm.full_seek_ms.max(arm.settle_ms);
    let rise = arm.full_seek_ms - arm.settle_ms;
    let root = (mean - arm.settle_ms - rise * linear_mean) / (root_mean - linear_mean);
    // A curve that falls with the distance is no arm's.
    let root = root.clamp(0.0, 1.99 * rise);
    arm.average_seek_ms = arm.settle_ms + root * whole_root + (rise - root) * whole_linear;
}
