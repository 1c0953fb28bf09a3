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
        profile.cache.streams_writes |= self.streams_writes && may_lose_turns(profile);
        if let Some(Moved { constant, by }) = self.moved {
            constant.scale(profile, by);
        }
    }
}

/// True if nobody knows whether such a drive loses a turn at each write in sequence.
pub(crate) fn may_lose_turns(profile: &Profile) -> bool {
    matches!(profile.kind, Kind::Cmr | Kind::HmSmr) && !profile.cache.write_cache
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
