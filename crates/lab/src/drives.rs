//! Modelled drives to run things on.

use std::rc::Rc;
use std::time::Duration;

use shingle_base::Blocks;
use shingle_drive_model::{Drive, Kind, Profile};
use shingle_runtime::Runtime;
use shingle_sim::SimDevice;
use shingle_zoned::{Geometry, MemoryDevice};

use crate::experiment::LabError;

/// Blocks of a MiB.
const MIB: u64 = 256;

/// A drive of an experiment: a profile, and how much of it.
#[derive(Clone, Debug)]
pub struct LabDrive {
    /// Its constants.
    pub profile: Profile,
    /// Only every so-manieth zone is there.
    pub every: u32,
    /// Zones at most.
    pub zones_max: u32,
}

impl LabDrive {
    /// A whole drive.
    ///
    /// # Errors
    /// There is no such profile.
    pub fn new(profile: &str) -> Result<Self, LabError> {
        let profile = Profile::named(profile).map_err(|error| LabError(error.0))?;
        Ok(Self { profile, every: 1, zones_max: u32::MAX })
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

    /// Its shape.
    pub fn geometry(&self) -> Geometry {
        let shape = &self.profile.shape;
        let zone_size = Blocks(u64::from(shape.zone_mib) * MIB);
        let zone_count = (shape.zones / self.every).min(self.zones_max).max(1);
        let conventional = match self.profile.kind {
            Kind::Cmr => zone_count,
            _ => (shape.conventional_zones / self.every).min(zone_count),
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
            revolution: self.profile.mechanics.map(|arm| Duration::from_nanos(60_000_000_000 / u64::from(arm.rpm))),
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
        let device = SimDevice::without_power_cuts(rt, medium);
        device.set_drive(Drive::new(&self.profile, self.every));
        Rc::new(device)
    }
}
