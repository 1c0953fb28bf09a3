//! Changes of drives: suppositions of a run that are other than in their profiles.

use shingle_drive_model::{Kind, Profile};

use crate::constants::Constant;

/// A constant of all drives, and its factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    /// The constant.
    pub constant: Constant,
    /// Its factor.
    pub by: f64,
}

/// Suppositions of a run about its drives, beside their profiles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    /// Drives without a write cache lose no turn at a write in sequence.
    pub streams_writes: bool,
    /// Drives of which a paper does not say whether their volatile cache was on have it on.
    pub cache_on: bool,
    /// An assumed constant is another one.
    pub moved: Option<Moved>,
}

impl Change {
    /// Makes the change in a profile.
    pub fn make(&self, profile: &mut Profile) {
        self.stream(profile);
        if let Some(Moved { constant, by }) = self.moved {
            constant.scale(profile, by);
        }
    }

    /// The twin of a drive, with the change: a constant of the drive moves before the twin is made of it, so that both have the same one
    /// (and the same fit, which a twin's profile does not name), and one of the twin alone afterwards.
    pub fn make_twin(&self, drive: &Profile, twin: impl FnOnce(&Profile) -> Profile) -> Profile {
        let mut drive = drive.clone();
        let of_drive = self.moved.is_some_and(|Moved { constant, by }| constant.scale(&mut drive, by));
        let mut twin = twin(&drive);
        self.stream(&mut twin);
        if let Some(Moved { constant: constant @ Constant::ZoneCommands, by }) = self.moved.filter(|_| !of_drive) {
            constant.scale(&mut twin, by);
        }
        twin
    }

    fn stream(&self, profile: &mut Profile) {
        profile.cache.streams_writes |= self.streams_writes && may_lose_turns(profile);
    }
}

/// True if nobody knows whether such a drive loses a turn at each write in sequence.
pub(crate) fn may_lose_turns(profile: &Profile) -> bool {
    matches!(profile.kind, Kind::Cmr | Kind::HmSmr) && !profile.cache.write_cache
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::twin::{conventional_twin, zoned_twin};

    #[test]
    fn only_drives_without_a_write_cache_are_supposed_to_stream() {
        let change = Change { streams_writes: true, ..Change::default() };
        let streams = |name: &str| {
            let mut profile = Profile::named(name).unwrap();
            change.make(&mut profile);
            profile.cache.streams_writes
        };
        assert!(streams("st20000nm001j") && streams("st16000nm001g"));
        assert!(!streams("ha10"), "it has a write cache");
        assert!(!streams("zns-1tb"), "it does not turn");
    }
    /// A goal over a store on the twin is one over a store, whichever constant moves.
    #[test]
    fn a_twin_has_the_moved_constants_of_its_drive() {
        let of = |name: &str, constant: Constant, twin: fn(&Profile) -> Profile| {
            let drive = Profile::named(name).unwrap();
            let change = Change { moved: Some(Moved { constant, by: 1.5 }), streams_writes: true, ..Change::default() };
            let mut moved = drive.clone();
            change.make(&mut moved);
            (moved, change.make_twin(&drive, twin))
        };
        for constant in [Constant::Settle, Constant::FullSeek, Constant::Skew, Constant::Overhead] {
            let (drive, twin) = of("st20000nm001j", constant, conventional_twin);
            assert_ne!(drive, Profile::named("st20000nm001j").unwrap());
            assert_eq!((drive.mechanics, &drive.recording, drive.queue), (twin.mechanics, &twin.recording, twin.queue));
            assert!(twin.cache.streams_writes);
        }
        let (drive, twin) = of("st8000as0002", Constant::Seeks, zoned_twin);
        assert_eq!(drive.mechanics, twin.mechanics);
        let (_, twin) = of("st8000as0002", Constant::ZoneCommands, zoned_twin);
        assert_eq!(twin.zones.open_ms, 30.0, "they are the twin's own");
    }
}
