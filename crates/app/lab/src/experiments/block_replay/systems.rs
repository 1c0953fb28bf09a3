//! Systems that blocks are replayed on: one drive of each kind of mapping, as new.

use shingle_drive_model::{Jitter, Profile};
use shingle_runtime::Runtime;

use crate::context::Context;
use crate::error::LabError;
use crate::rig::blocks::DriveBlocks;
use crate::rig::host::Host;

/// A drive of a name that says how it maps blocks.
#[derive(Clone, Debug)]
pub(super) struct System {
    pub(super) name: String,
    profile: Profile,
}

/// Names and profiles.
const DRIVES: [(&str, &str); 8] = [
    ("conventional", "st4000nc001"),
    (MEDIA_CACHE, "st5000as0011"),
    (MEDIA_CACHE_8TB, "st8000as0002"),
    ("set-associative", "emulated-smr-1"),
    ("set-associative, flash cache", "emulated-smr-2"),
    ("fully associative", "emulated-smr-3"),
    ("mixed cleaning", "wd40nmzw"),
    ("SSD", "ssd-3840"),
];

/// The drive that Skylight took apart.
pub(super) const MEDIA_CACHE: &str = "media cache";

/// The larger one of its kind, which FSTL compares with.
pub(super) const MEDIA_CACHE_8TB: &str = "media cache, 8 TB";

/// Deviations of drives of one batch, where the profile has none.
const JITTER: Jitter = Jitter { seed: 0, spindle_ppm: 200, wander_us: 5, completion_us: 2.0 };

/// All systems, and the user's own drive if it takes blocks in any order.
pub(super) fn all(context: &Context) -> Result<Vec<System>, LabError> {
    let mut systems = Vec::new();
    for (name, profile) in DRIVES {
        let judged = [MEDIA_CACHE, MEDIA_CACHE_8TB].contains(&name);
        let profile = if judged { context.profile(profile) } else { context.shown_profile(profile) }?;
        systems.push(System { name: name.to_owned(), profile });
    }
    if let Some(own) = context.drive.as_ref().filter(|profile| !profile.kind.is_zoned()) {
        systems.push(System { name: format!("{} (your own)", own.name), profile: context.shown(own.clone()) });
    }
    Ok(systems)
}

impl System {
    /// A fresh drive of the batch, behind a host, with its volatile cache on or off.
    pub(super) fn blocks(
        &self,
        rt: &Runtime,
        host: Host,
        seed: u64,
        write_cache: bool,
    ) -> Result<DriveBlocks, LabError> {
        let mut profile = self.profile.clone();
        profile.jitter = profile.jitter.or(Some(JITTER)).map(|jitter| Jitter { seed, ..jitter });
        let blocks = DriveBlocks::of_profile(rt, &profile, host)?;
        // A drive that has no such cache has none on.
        let _ = blocks.set_write_cache(write_cache);
        Ok(blocks)
    }

    /// Bytes that it has.
    pub(super) fn size_bytes(&self) -> u64 {
        shingle_drive_model::Drive::new(&self.profile, 1).blocks() * 4096
    }
}
