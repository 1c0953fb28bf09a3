//! Systems that blocks are replayed on: one drive of each kind of mapping, as new, and a volume on a zoned one.

use shingle_drive_model::Profile;

use crate::context::Context;
use crate::error::LabError;
use crate::rig::system::System;
use crate::rig::twin::zoned_twin;

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

/// A volume on the zoned twin of that drive.
const VOLUME: &str = "volume, 8 TB";

/// All systems, and the user's own drive if it takes blocks in any order.
pub(super) fn all(context: &Context) -> Result<Vec<System>, LabError> {
    let mut systems = Vec::new();
    for (name, profile) in DRIVES {
        let judged = [MEDIA_CACHE, MEDIA_CACHE_8TB].contains(&name);
        let profile = Profile::named(profile).map_err(|error| LabError(error.0))?;
        if name == MEDIA_CACHE_8TB {
            let twin = context.without_verdicts(|| context.twin(&profile, zoned_twin));
            systems.push(System::volume(VOLUME, twin));
        }
        let drive = if judged { context.used(profile) } else { context.shown(profile) };
        systems.push(System::drive(name, drive));
    }
    if let Some(own) = context.drive.as_ref().filter(|profile| !profile.kind.is_zoned()) {
        systems.push(System::drive(&format!("{} (your own)", own.name), context.shown(own.clone())));
    }
    Ok(systems)
}
