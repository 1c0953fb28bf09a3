//! Modelled drives to run things on.

use std::rc::Rc;
use std::time::Duration;

use shingle_base::Blocks;
use shingle_drive_model::{Drive, Jitter, Kind, Profile};
use shingle_runtime::Runtime;
use shingle_sim::SimDevice;
use shingle_zoned::{Geometry, MemoryDevice};

use crate::context::Context;
use crate::error::LabError;
use crate::rig::twin::conventional_twin;

/// Blocks of a MiB.
const MIB: u64 = 256;

/// The shingled drive of SMRstore's evaluation (Table 2).
const PAPER_DRIVE: &str = "st20000nm001j";

/// Zones that the papers' loads need: 6 TB, the size that the authors formatted.
const ZONES_MIN: u32 = 22_352;

/// MiB of a zone that the papers' loads need: their chunks are as long as a zone.
const ZONE_MIB: u32 = 256;

/// The profile that a user names: a file, or a built-in one.
///
/// # Errors
/// There is no such file or name, or the file describes no drive; the message names the description of the format.
pub fn profile(named: &str) -> Result<Profile, LabError> {
    let file = match std::fs::read_to_string(named) {
        Ok(text) => text,
        Err(error) => {
            return Profile::named(named).map_err(|unknown| {
                LabError(format!("`{named}` could not be read as a drive profile: {error}; and {unknown}"))
            });
        }
    };
    Profile::parse(&file).map_err(|error| {
        let why = error.0.trim_end();
        LabError(format!("`{named}` describes no drive: {why}\ndocs/drive-profiles.md describes every field"))
    })
}

/// A drive of an experiment: a profile, and the part of it that is used.
#[derive(Clone, Debug)]
pub struct LabDrive {
    /// Its constants.
    pub profile: Profile,
    /// Only every `every`-th zone is there.
    pub every: u32,
    /// Zones at most.
    pub zones_max: u32,
    /// It says how fast it turns.
    pub tells_speed: bool,
}

impl LabDrive {
    /// A whole drive.
    ///
    /// # Errors
    /// There is no such profile.
    pub fn new(profile: &str) -> Result<Self, LabError> {
        Ok(Self::of(Profile::named(profile).map_err(|error| LabError(error.0))?))
    }

    /// A whole drive of that profile.
    pub fn of(profile: Profile) -> Self {
        Self { profile, every: 1, zones_max: u32::MAX, tells_speed: true }
    }

    /// The shingled drive that an experiment's stores run on: the paper's, or the user's own in its place.
    ///
    /// # Errors
    /// The user's drive cannot carry the load; the message says which could.
    pub fn shingled(context: &Context) -> Result<Self, LabError> {
        let Some(profile) = &context.drive else { return Ok(Self::of(context.profile(PAPER_DRIVE)?)) };
        let shape = &profile.shape;
        let refused = |why: String| {
            let instead = "`shingle lab run calibrate --drive` measures drives of any kind and size";
            Err(LabError(format!("the drive `{}` cannot carry this experiment: {why}; {instead}", profile.name)))
        };
        if profile.kind != Kind::HmSmr {
            return refused(
                "it takes the place of a host-managed shingled disk, so its kind must be \"hm-smr\"".to_owned(),
            );
        }
        if shape.zone_mib != ZONE_MIB || shape.zone_capacity_mib.is_some_and(|capacity| capacity != ZONE_MIB) {
            let zone = shape.zone_capacity_mib.unwrap_or(shape.zone_mib);
            return refused(format!("the papers' chunks fill zones of {ZONE_MIB} MiB, and its zones have {zone} MiB"));
        }
        if shape.zones < ZONES_MIN {
            return refused(format!("the papers' loads need {ZONES_MIN} zones (6 TB), and it has {}", shape.zones));
        }
        Ok(Self::of(context.used(profile.clone())))
    }

    /// Its conventional twin, for stores that need a drive of that kind.
    ///
    /// # Errors
    /// As [`shingled`](Self::shingled).
    pub fn twin_of_shingled(context: &Context) -> Result<Self, LabError> {
        let profile = match &context.drive {
            Some(profile) => Self::shingled(context).map(|_| profile.clone())?,
            None => Profile::named(PAPER_DRIVE).map_err(|error| LabError(error.0))?,
        };
        Ok(Self::of(context.twin(&profile, conventional_twin)))
    }

    /// Only every `every`th zone, so that seeks stay those of the whole drive. (SMORE, section V-A.)
    #[must_use]
    pub fn every(self, every: u32) -> Self {
        Self { every, ..self }
    }

    /// Only its first `zones` zones.
    #[must_use]
    pub fn first_zones(self, zones: u32) -> Self {
        Self { zones_max: zones, ..self }
    }

    /// The same drive, which does not say how fast it turns.
    #[must_use]
    pub fn of_unknown_speed(self) -> Self {
        Self { tells_speed: false, ..self }
    }

    /// Its shape.
    pub fn geometry(&self) -> Geometry {
        let shape = &self.profile.shape;
        let zone_size = Blocks(u64::from(shape.zone_mib) * MIB);
        let zone_count = (shape.zones / self.every).min(self.zones_max).max(1);
        let conventional = match self.profile.kind.is_zoned() {
            false => zone_count,
            true => (shape.conventional_zones / self.every).min(zone_count),
        };
        Geometry {
            zone_size,
            zone_capacity: shape.zone_capacity_mib.map_or(zone_size, |mib| Blocks(u64::from(mib) * MIB)),
            zone_count,
            conventional_zones: conventional,
            open_zones_max: shape.open_zones_max,
            active_zones_max: shape.active_zones_max,
            append_max: None,
            volatile_cache: self.profile.cache.write_cache,
            keeps_payload: false,
            revolution: self
                .profile
                .mechanics
                .filter(|_| self.tells_speed)
                .map(|arm| Duration::from_nanos(60_000_000_000 / u64::from(arm.rpm))),
        }
    }

    /// A fresh drive that keeps record headers and metadata, and drops the data of chunks.
    pub fn medium(&self) -> MemoryDevice {
        MemoryDevice::metadata_only(self.geometry(), shingle_record::keep_metadata)
    }

    /// A fresh drive that keeps nothing at all.
    pub fn blank(&self) -> MemoryDevice {
        MemoryDevice::metadata_only(self.geometry(), |_| 0)
    }

    /// A device with this drive's times over `medium`.
    pub fn device(&self, rt: &Runtime, medium: MemoryDevice) -> Rc<SimDevice> {
        self.device_of_batch(0, rt, medium)
    }

    /// The same of the drive of that number.
    pub fn device_of_batch(&self, number: u64, rt: &Runtime, medium: MemoryDevice) -> Rc<SimDevice> {
        let device = SimDevice::without_power_cuts(rt, medium);
        device.set_drive(self.model(number));
        Rc::new(device)
    }

    /// The model of the drive of that number: if it has jitter, no two of a batch turn alike.
    pub fn model(&self, number: u64) -> Drive {
        let seed = |jitter: Jitter| jitter.seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let jitter = self.profile.jitter.map(|jitter| Jitter { seed: seed(jitter), ..jitter });
        Drive::new(&Profile { jitter, ..self.profile.clone() }, self.every)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::context::Scale;

    const OWN: &str = include_str!("../../../../device/drive-model/profiles/hc650.toml");

    fn on(text: &str) -> Result<LabDrive, LabError> {
        let profile = Profile::parse(text).unwrap();
        LabDrive::shingled(&Context::new(1, Scale::Quick, Rc::new(|_, _| {})).on_drive(Some(profile)))
    }

    #[test]
    fn a_drive_of_the_users_own_takes_the_place_of_the_papers() {
        let context = Context::new(1, Scale::Quick, Rc::new(|_, _| {}));
        assert_eq!(LabDrive::shingled(&context).unwrap().profile.name, PAPER_DRIVE);
        assert_eq!(on(OWN).unwrap().profile.name, "hc650");
    }

    #[test]
    fn a_drive_that_cannot_serve_is_refused_with_what_to_do() {
        let zones = OWN.lines().find(|line| line.starts_with("zones = ")).unwrap();
        let cmr = include_str!("../../../../device/drive-model/profiles/st16000nm001g.toml");
        let cases = [
            (cmr.to_owned(), "\"hm-smr\""),
            (OWN.replace("zone_mib = 256", "zone_mib = 128"), "256 MiB"),
            (OWN.replace(zones, "zones = 9000"), "6 TB"),
        ];
        for (text, expected) in cases {
            let error = on(&text).unwrap_err().0;
            assert!(error.contains(expected) && error.contains("calibrate"), "{error}");
        }
    }

    #[test]
    fn a_profile_is_a_file_or_a_name() {
        let folder = std::env::temp_dir().join(format!("shingle-profile-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        std::fs::write(path("own.toml"), OWN.replace("name = \"hc650\"", "name = \"mine\"")).unwrap();
        std::fs::write(path("bad.toml"), OWN.replace("rpm = ", "rpm = -")).unwrap();
        let (own, bad) = (profile(&path("own.toml")), profile(&path("bad.toml")));
        let missing = profile(&path("none.toml"));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(own.unwrap().name, "mine");
        assert_eq!(profile("ha10").unwrap().name, "ha10");
        let (bad, missing) = (bad.unwrap_err().0, missing.unwrap_err().0);
        assert!(bad.contains("rpm") && bad.contains("docs/drive-profiles.md"), "{bad}");
        assert!(missing.contains("none.toml") && missing.contains("st20000nm001j"), "{missing}");
    }
}
