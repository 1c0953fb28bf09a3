//! Assumed constants of drives: those that nobody publishes and nothing is fitted to.
//!
//! # Invariants
//! - LAB-CONST-1: a drive whose constant moves still has every published figure that calibration fits: where one depends on the
//!   constant, the fit is made again.

use shingle_drive_model::{Figure, Mechanics, Profile, Recording};

/// A constant that is assumed of some drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Constant {
    /// Seek to the next track.
    Settle,
    /// Seek over the whole stroke, where the mean is fitted.
    FullSeek,
    /// All seeks, where nothing of them is published.
    Seeks,
    /// Additional settling before a write.
    WriteSettle,
    /// Change of surface.
    HeadSwitch,
    /// Surfaces.
    Heads,
    /// Rate at the inner diameter, where no mean rate is published.
    InnerRate,
    /// Recording zones.
    Bands,
    /// Data on one surface before the next.
    RunLength,
    /// Shift of tracks.
    Skew,
    /// From a command's arrival to its work.
    Overhead,
    /// Longest time a command may be passed over.
    Starvation,
    /// Rate between host and drive.
    Interface,
    /// Data that a drive with a write cache holds.
    WriteCache,
    /// Read-ahead.
    ReadAhead,
    /// Ranges that are kept after reads.
    ReadSegments,
    /// Open, close and reset of a zone, where they are not published.
    ZoneCommands,
}

impl Constant {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Settle,
        Self::FullSeek,
        Self::Seeks,
        Self::WriteSettle,
        Self::HeadSwitch,
        Self::Heads,
        Self::InnerRate,
        Self::Bands,
        Self::RunLength,
        Self::Skew,
        Self::Overhead,
        Self::Starvation,
        Self::Interface,
        Self::WriteCache,
        Self::ReadAhead,
        Self::ReadSegments,
        Self::ZoneCommands,
    ];

    /// Its name: that of its field in a profile, if it is one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Settle => "settle_ms",
            Self::FullSeek => "full_seek_ms",
            Self::Seeks => "all seeks",
            Self::WriteSettle => "write_settle_ms",
            Self::HeadSwitch => "head_switch_ms",
            Self::Heads => "heads",
            Self::InnerRate => "inner_mb_s",
            Self::Bands => "bands",
            Self::RunLength => "run_mib",
            Self::Skew => "skew_ms",
            Self::Overhead => "overhead_us",
            Self::Starvation => "starvation_ms",
            Self::Interface => "interface_mb_s",
            Self::WriteCache => "write_cache_mib",
            Self::ReadAhead => "read_ahead_mib",
            Self::ReadSegments => "read_segments",
            Self::ZoneCommands => "zone commands",
        }
    }

    /// Multiplies it, if it is assumed of that drive; returns whether it is.
    pub fn scale(self, profile: &mut Profile, by: f64) -> bool {
        let published = |figure: Figure| profile.published.iter().find(|published| published.figure == figure);
        let fitted = published(Figure::RandomReadIops).map(|published| {
            f64::from(published.zones.unwrap_or(profile.shape.zones)) / f64::from(profile.shape.zones)
        });
        let mean_rate = published(Figure::SequentialReadMean).is_some();
        let zone_commands = published(Figure::ZoneOpen).is_some();
        let whole = |value: &mut u32| *value = (f64::from(*value) * by).round().max(1.0) as u32;
        let (Some(arm), Some(recording)) = (&mut profile.mechanics, &mut profile.recording) else { return false };
        if profile.translation.is_some() {
            return false;
        }
        match (self, fitted) {
            (Self::Settle, Some(share)) => refit(arm, recording, share, |arm| arm.settle_ms *= by),
            (Self::Settle, None) => arm.settle_ms *= by,
            (Self::FullSeek, Some(share)) => refit(arm, recording, share, |arm| arm.full_seek_ms *= by),
            (Self::FullSeek, None) | (Self::Seeks, Some(_)) => return false,
            (Self::Seeks, None) => {
                for seek in [&mut arm.settle_ms, &mut arm.average_seek_ms, &mut arm.full_seek_ms] {
                    *seek *= by;
                }
            }
            (Self::WriteSettle, _) => arm.write_settle_ms *= by,
            (Self::HeadSwitch, _) => arm.head_switch_ms *= by,
            (Self::Heads, _) => whole(&mut arm.heads),
            (Self::InnerRate, _) if mean_rate => return false,
            (Self::InnerRate, _) => recording.inner_mb_s = (recording.inner_mb_s * by).min(recording.outer_mb_s),
            (Self::Bands, _) => whole(&mut recording.bands),
            (Self::RunLength, _) => whole(&mut recording.run_mib),
            (Self::Skew, _) => recording.skew_ms *= by,
            (Self::Overhead, _) => profile.queue.overhead_us *= by,
            (Self::Starvation, _) => profile.queue.starvation_ms *= by,
            (Self::Interface, _) => profile.queue.interface_mb_s *= by,
            (Self::WriteCache, _) if !profile.cache.write_cache => return false,
            (Self::WriteCache, _) => whole(&mut profile.cache.write_cache_mib),
            (Self::ReadAhead, _) => whole(&mut profile.cache.read_ahead_mib),
            (Self::ReadSegments, _) => whole(&mut profile.cache.read_segments),
            (Self::ZoneCommands, _) if zone_commands || !profile.kind.is_zoned() => return false,
            (Self::ZoneCommands, _) => {
                for time in [&mut profile.zones.open_ms, &mut profile.zones.close_ms, &mut profile.zones.erase_ms] {
                    *time *= by;
                }
            }
        }
        true
    }
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

#[cfg(test)]
mod tests {
    use shingle_drive_model::{Command, Drive, Op, SeekCurve};
    use shingle_sim::Random;

    use super::*;

    fn moved(name: &str, constant: Constant, by: f64) -> Option<Profile> {
        let mut profile = Profile::named(name).unwrap();
        constant.scale(&mut profile, by).then_some(profile)
    }

    #[test]
    fn a_constant_that_moved_still_describes_a_drive() {
        for name in ["st20000nm001j", "st16000nm001g", "ha10", "hc650", "hsh721414al"] {
            let before = Profile::named(name).unwrap();
            for constant in Constant::ALL {
                for by in [0.5, 1.5] {
                    let Some(profile) = moved(name, constant, by) else { continue };
                    assert_ne!(profile, before, "{name}: {constant:?}");
                    let arm = profile.mechanics.unwrap();
                    let curve = SeekCurve::new(arm.settle_ms, arm.average_seek_ms, arm.full_seek_ms);
                    assert!(curve.is_sound(), "{name}: {constant:?} by {by}: {arm:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_published_or_fitted_is_not_assumed() {
        for (name, constant) in [
            ("st20000nm001j", Constant::Seeks),
            ("st20000nm001j", Constant::ZoneCommands),
            ("st20000nm001j", Constant::WriteCache),
            ("ha10", Constant::InnerRate),
            ("ha10", Constant::FullSeek),
            ("zns-1tb", Constant::Overhead),
            ("st5000as0011", Constant::Settle),
        ] {
            assert!(moved(name, constant, 0.5).is_none(), "{name}: {constant:?}");
        }
        assert!(moved("ha10", Constant::ZoneCommands, 0.5).is_some() && moved("ha10", Constant::Seeks, 0.5).is_some());
    }

    /// LAB-CONST-1: the drive is measured, in its first 6 TB.
    #[test]
    fn where_seeks_are_fitted_the_fit_outlives_another_stroke_and_settling() {
        let mean_ms = |profile: &Profile| {
            let mut drive = Drive::new(profile, 1);
            let mut number = Random::new(3);
            let (mut now, mut done) = (0, Vec::new());
            for id in 0..8000 {
                let read = Command { op: Op::Read, at: number.below(22_352 * 65_536), blocks: 1, opens: false };
                drive.submit(now, id, read);
                while done.is_empty() {
                    now = drive.next_event().unwrap();
                    drive.advance(now, &mut done);
                }
                done.clear();
            }
            now as f64 / 8000.0 / 1e6
        };
        let before = mean_ms(&Profile::named("st20000nm001j").unwrap());
        for (constant, by) in [(Constant::Settle, 0.5), (Constant::Settle, 1.5), (Constant::FullSeek, 1.5)] {
            let after = mean_ms(&moved("st20000nm001j", constant, by).unwrap());
            assert!((after / before - 1.0).abs() < 0.02, "{constant:?} by {by}: {before} and {after} ms");
        }
    }
}
