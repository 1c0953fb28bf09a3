//! The zoned twin of a drive that translates inside: the same arm, platters and queue, and zones in place of the translation.
//!
//! FSTL measures both on one drive (ST8000AS022), as host-aware and as drive-managed (section V). So a difference between a layer in
//! the host and one in the drive is that of the layers.

use shingle_drive_model::{Kind, Profile, Zones};

/// Conventional zones: published of the ST8000AS022, the first 64 zones of 256 MiB (FSTL, section V-A).
const CONVENTIONAL_ZONES: u32 = 64;

/// Zones open at once: assumed, what other host-managed disks have.
const OPEN_ZONES_MAX: u32 = 128;

/// Zone commands: assumed, as of the ST20000NM001J (SMRstore, section 2.2).
const ZONE_COMMANDS: Zones = Zones { open_ms: 20.0, close_ms: 24.0, erase_ms: 22.0 };

/// The host-managed twin of a drive.
pub fn zoned_twin(managed: &Profile) -> Profile {
    let mut twin = managed.clone();
    twin.name = format!("{}-zoned", managed.name);
    twin.model = format!("{}, as a host-managed drive", managed.model);
    twin.kind = Kind::HmSmr;
    twin.translation = None;
    twin.flash = None;
    twin.shape.conventional_zones = CONVENTIONAL_ZONES.min(twin.shape.zones);
    twin.shape.open_zones_max = Some(OPEN_ZONES_MAX);
    twin.zones = ZONE_COMMANDS;
    twin.published.clear();
    twin
}

/// The conventional twin of a zoned disk: the same arm, platters, tracks and queue, and writes anywhere. The dissertation's drives of both
/// kinds are "similar mechanically" (section 5.5.1); a difference between stores on the twins is that of the stores.
pub fn conventional_twin(zoned: &Profile) -> Profile {
    let mut twin = zoned.clone();
    twin.name = format!("{}-cmr", zoned.name);
    twin.model = format!("{}, as a conventional drive", zoned.model);
    twin.kind = Kind::Cmr;
    twin.shape.conventional_zones = twin.shape.zones;
    twin.shape.open_zones_max = None;
    twin.shape.active_zones_max = None;
    twin.zones = Zones { open_ms: 0.0, close_ms: 0.0, erase_ms: 0.0 };
    twin.published.clear();
    twin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twin_has_the_mechanics_of_its_drive_and_is_one_that_a_profile_may_describe() {
        let managed = Profile::named("st8000as0002").unwrap();
        let twin = zoned_twin(&managed);
        assert_eq!(
            (twin.mechanics, &twin.recording, twin.queue),
            (managed.mechanics, &managed.recording, managed.queue)
        );
        assert_eq!((twin.kind, twin.shape.conventional_zones), (Kind::HmSmr, 64));
        assert_eq!(Profile::parse(&toml_of(&twin)).map(|parsed| parsed.name), Ok("st8000as0002-zoned".to_owned()));
    }

    /// The profile in the form in which users write them.
    fn toml_of(profile: &Profile) -> String {
        let text = include_str!("../../../../device/drive-model/profiles/st8000as0002.toml");
        let (head, rest) = text.split_once("[translation]").unwrap();
        let (_, tail) = rest.split_once("[queue]").unwrap();
        let head = head.replace("dm-smr", "hm-smr").replace("st8000as0002", &profile.name);
        let head = head.replace("conventional_zones = 29807", "conventional_zones = 64\nopen_zones_max = 128");
        format!("{head}[queue]{tail}")
    }
}
