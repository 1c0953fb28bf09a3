//! Shapes of drives as people ask for them: in bytes, with the defaults of drives that exist.

use shingle_base::{BLOCK_SIZE, Blocks, ByteSize};

use crate::geometry::{Geometry, GeometryError};

/// Wanted shape of a drive. [`build`](Self::build) makes a [`Geometry`] of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeometrySpec {
    /// The drive's size; a part of a zone at its end is left out.
    pub size: ByteSize,
    /// Distance between the starts of two zones.
    pub zone_size: ByteSize,
    /// Writable part of a sequential zone. `None`: all of it.
    pub zone_capacity: Option<ByteSize>,
    /// Number of conventional zones, the first of the drive.
    pub conventional_zones: u32,
    /// Limit on open zones.
    pub open_zones_max: Option<u32>,
    /// Limit on active zones.
    pub active_zones_max: Option<u32>,
    /// The longest zone append.
    pub append_max: Option<ByteSize>,
    /// A completed write may be lost to a power cut until the next flush.
    pub volatile_cache: bool,
}

impl GeometrySpec {
    /// A host-managed SMR disk: zones of 256 MiB, about 1 % of them conventional (SMRstore, section 2.2: 800 of 74,508),
    /// at most 128 open.
    pub fn hm_smr(size: ByteSize) -> Self {
        let zone_size = ByteSize(256 << 20);
        let conventional = size.0 / zone_size.0 * 800 / 74_508;
        Self {
            size,
            zone_size,
            zone_capacity: None,
            conventional_zones: u32::try_from(conventional).unwrap_or(u32::MAX),
            open_zones_max: Some(128),
            active_zones_max: None,
            append_max: None,
            volatile_cache: false,
        }
    }

    /// A ZNS SSD: zones of 2 GiB with a capacity of 1,077 MiB, at most 14 open and active, as common drives have it.
    pub fn zns(size: ByteSize) -> Self {
        Self {
            size,
            zone_size: ByteSize(2 << 30),
            zone_capacity: Some(ByteSize(1077 << 20)),
            conventional_zones: 0,
            open_zones_max: Some(14),
            active_zones_max: Some(14),
            append_max: None,
            volatile_cache: true,
        }
    }

    /// The drive's geometry.
    ///
    /// # Errors
    /// The number that is wrong, and why.
    pub fn build(&self) -> Result<Geometry, GeometryError> {
        let zone_size = whole_blocks("zone size", self.zone_size)?;
        let zone_capacity = self.zone_capacity.map_or(Ok(zone_size), |size| whole_blocks("zone capacity", size))?;
        let append_max = self.append_max.map(|size| whole_blocks("longest append", size)).transpose()?;
        let zones = self.size.0 / self.zone_size.0.max(1);
        if zones == 0 {
            let (size, zone_size) = (self.size, self.zone_size);
            return Err(GeometryError(format!("a drive of {size} has no room for a zone of {zone_size}")));
        }
        let Ok(zone_count) = u32::try_from(zones) else {
            return Err(GeometryError(format!("{zones} zones are too many: make zones larger")));
        };
        if self.conventional_zones >= zone_count {
            return Err(GeometryError(format!(
                "of {zone_count} zones {} are to be conventional, which leaves no sequential zone",
                self.conventional_zones
            )));
        }
        let geometry = Geometry {
            zone_size,
            zone_capacity,
            zone_count,
            conventional_zones: self.conventional_zones,
            open_zones_max: self.open_zones_max,
            active_zones_max: self.active_zones_max,
            append_max,
            volatile_cache: self.volatile_cache,
            keeps_payload: true,
            revolution: None,
        };
        geometry.validate()?;
        Ok(geometry)
    }
}

fn whole_blocks(name: &str, size: ByteSize) -> Result<Blocks, GeometryError> {
    if size.0 == 0 || !size.0.is_multiple_of(BLOCK_SIZE as u64) {
        return Err(GeometryError(format!("the {name} of {size} is not a whole number of 4 KiB blocks")));
    }
    Ok(Blocks::holding(size.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_of_twenty_terabytes_is_like_the_papers() {
        let geometry = GeometrySpec::hm_smr(ByteSize(20_000_600_000_000)).build().unwrap();
        assert_eq!((geometry.zone_count, geometry.conventional_zones), (74_508, 800));
        assert_eq!(geometry.zone_size, Blocks(65_536));
        let small = GeometrySpec::hm_smr(ByteSize(1 << 30)).build().unwrap();
        assert_eq!((small.zone_count, small.conventional_zones), (4, 0));
        assert!(GeometrySpec::zns(ByteSize(1 << 40)).build().is_ok());
    }

    #[test]
    fn a_drive_that_cannot_be_is_refused_with_the_reason() {
        let spec = GeometrySpec::hm_smr(ByteSize(1 << 40));
        let wrong: [(GeometrySpec, &str); 8] = [
            (GeometrySpec { zone_size: ByteSize(5000), ..spec.clone() }, "whole number of 4 KiB blocks"),
            (GeometrySpec { zone_size: ByteSize(0), ..spec.clone() }, "zone size"),
            (GeometrySpec { size: ByteSize(4096), ..spec.clone() }, "no room for a zone"),
            (GeometrySpec { conventional_zones: 4096, ..spec.clone() }, "no sequential zone"),
            (GeometrySpec { zone_capacity: Some(ByteSize(1 << 30)), ..spec.clone() }, "at most the zone size"),
            (GeometrySpec { open_zones_max: Some(0), ..spec.clone() }, "limit of zero"),
            (GeometrySpec { active_zones_max: Some(2), ..spec.clone() }, "exceeds the limit on active"),
            (GeometrySpec { size: ByteSize(u64::MAX), zone_size: ByteSize(4096), ..spec }, "too many"),
        ];
        for (spec, reason) in wrong {
            let error = spec.build().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
