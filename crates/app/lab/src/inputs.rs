//! Inputs of a run beside its seed and scale: drives, hosts and options, as its JSON names them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use shingle_drive_model::Profile;

use crate::change;
use crate::constants::Constant;
use crate::rig::host::Host;

/// The program that makes a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Program {
    /// The commit that it was built from; `+` behind it says that there were changes beside it. None if that is not known.
    pub commit: Option<String>,
    /// A number of its sources, which tells them from all others.
    pub build: Option<String>,
}

/// Inputs of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Inputs {
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Hash of each profile, by the drive's name: it changes with any constant.
    pub drives: BTreeMap<String, String>,
    /// The kernels that stores ran on.
    pub hosts: BTreeMap<String, HostInput>,
    /// Options of each configuration, by its name.
    pub options: BTreeMap<String, String>,
    /// A drive that rows are of has no write cache, so that it may lose a turn at a write.
    #[serde(skip)]
    pub(crate) may_lose_turns: bool,
    /// Constants that are assumed of drives that rows are of.
    #[serde(skip)]
    pub(crate) assumed: BTreeSet<Constant>,
}

/// A kernel between a store and its drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HostInput {
    /// Longer commands are cut.
    pub command_max_bytes: u64,
    /// One write at a time is outstanding in a sequential zone.
    pub zone_lock: bool,
    /// Commands that it has outstanding at a drive, at most; null: as many as the drive takes.
    pub queue_max: Option<u32>,
}

impl Inputs {
    pub(crate) fn drive(&mut self, profile: &Profile) {
        let how = if profile.cache.streams_writes { " (loses no turn)" } else { "" };
        self.drives.insert(format!("{}{how}", profile.name), hash(profile));
        self.may_lose_turns |= change::may_lose_turns(profile);
    }

    /// Notes the assumed constants of a drive as it is before a run changes it.
    pub(crate) fn assume(&mut self, profile: &Profile) {
        self.assumed.extend(Constant::all().filter(|constant| constant.scale(&mut profile.clone(), 1.0)));
    }

    /// Takes in those of another run.
    pub(crate) fn join(&mut self, other: Self) {
        self.seeds.extend(other.seeds);
        self.seeds.sort_unstable();
        self.seeds.dedup();
        self.drives.extend(other.drives);
        self.hosts.extend(other.hosts);
        self.options.extend(other.options);
        self.may_lose_turns |= other.may_lose_turns;
        self.assumed.extend(other.assumed);
    }

    pub(crate) fn host(&mut self, host: Host) {
        let input = HostInput {
            command_max_bytes: host.command_max.bytes(),
            zone_lock: host.zone_lock,
            queue_max: host.queue_max,
        };
        self.hosts.insert(host.name.to_owned(), input);
    }

    pub(crate) fn options(&mut self, name: &str, options: &dyn fmt::Debug) {
        self.options.insert(name.to_owned(), format!("{options:?}"));
    }
}

/// FNV-1a of a profile's constants, published figures included.
fn hash(profile: &Profile) -> String {
    let text = serde_json::to_string(profile).unwrap_or_default();
    let take = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, take))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_that_changes_changes_the_hash() {
        let mut profile = Profile::named("st20000nm001j").unwrap();
        let before = hash(&profile);
        assert_eq!(before, hash(&Profile::named("st20000nm001j").unwrap()));
        profile.queue.overhead_us += 1.0;
        assert_ne!(before, hash(&profile));
    }
}
