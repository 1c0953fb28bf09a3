//! Assumed constants of drives: those that nobody publishes and nothing is fitted to.
//!
//! # Invariants
//! - LAB-CONST-1: a drive whose constant moves still has every published figure that calibration fits: where one depends on the
//!   constant, the fit is made again.
//! - LAB-CONST-2: a drive whose constant moves is still one that a profile may describe.

mod disk;
mod inside;
mod named;

use shingle_drive_model::{Figure, Profile};

pub use self::named::Constant;
use self::named::{published, times, whole};

impl Constant {
    /// Multiplies it, if it is assumed of that drive; returns whether it is.
    pub fn scale(self, profile: &mut Profile, by: f64) -> bool {
        disk::scale(self, profile, by) || inside::scale(self, profile, by) || self.scale_any(profile, by)
    }

    /// Constants that drives of every kind have.
    fn scale_any(self, profile: &mut Profile, by: f64) -> bool {
        let translates = profile.translation.is_some();
        match self {
            Self::Overhead => times(&mut profile.queue.overhead_us, by),
            Self::Starvation if profile.mechanics.is_some() => times(&mut profile.queue.starvation_ms, by),
            Self::Interface => times(&mut profile.queue.interface_mb_s, by),
            Self::WriteCache if profile.cache.write_cache || translates => {
                whole(&mut profile.cache.write_cache_mib, by)
            }
            Self::ReadAhead => whole(&mut profile.cache.read_ahead_mib, by),
            Self::ReadSegments => whole(&mut profile.cache.read_segments, by),
            Self::ZoneCommands if published(profile, Figure::ZoneOpen).is_none() => {
                let commands = &mut profile.zones;
                let all = [&mut commands.open_ms, &mut commands.close_ms, &mut commands.erase_ms];
                all.map(|time| times(time, by)).contains(&true)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use shingle_drive_model::{Command, Drive, Op};
    use shingle_sim::Random;

    use super::*;

    fn moved(name: &str, constant: Constant, by: f64) -> Option<Profile> {
        let mut profile = Profile::named(name).unwrap();
        constant.scale(&mut profile, by).then_some(profile)
    }

    /// LAB-CONST-2.
    #[test]
    fn a_constant_that_moved_still_describes_a_drive() {
        for before in Profile::built_in().unwrap() {
            for constant in Constant::all() {
                for by in [0.5, 1.5] {
                    let Some(profile) = moved(&before.name, constant, by) else { continue };
                    assert_ne!(profile, before, "{}: {constant:?}", before.name);
                    let text = shingle_skylight::emit::toml_of(&profile).unwrap();
                    let parsed = Profile::parse(&text);
                    assert!(parsed.is_ok(), "{}: {constant:?} by {by}: {parsed:?}", before.name);
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
            ("st20000nm001j", Constant::Rates),
            ("ha10", Constant::InnerRate),
            ("ha10", Constant::FullSeek),
            ("zns-1tb", Constant::Settle),
            ("st5000as0011", Constant::Quiet),
            ("st5000as0011", Constant::ReadAhead),
            ("emulated-smr-1", Constant::BandSize),
            ("emulated-smr-3", Constant::SpareBands),
        ] {
            assert!(moved(name, constant, 0.5).is_none(), "{name}: {constant:?}");
        }
        for (name, constant) in [
            ("ha10", Constant::ZoneCommands),
            ("ha10", Constant::Seeks),
            ("zns-1tb", Constant::Overhead),
            ("st5000as0011", Constant::Settle),
            ("st5000as0011", Constant::Rates),
            ("st5000as0011", Constant::Scratch),
            ("wd40nmzw", Constant::BandSize),
            ("emulated-smr-3", Constant::Quiet),
            ("ssd-3840", Constant::EraseBlock),
        ] {
            assert!(moved(name, constant, 0.5).is_some(), "{name}: {constant:?}");
        }
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
