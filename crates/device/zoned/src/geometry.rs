//! The shape and limits of a device.

use std::fmt;
use std::time::Duration;

use shingle_base::{Blocks, Lba, ZoneId};

/// The shape and limits of a zoned device; fixed while it is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Distance between the starts of two zones.
    pub zone_size: Blocks,
    /// Blocks that can be written in a sequential zone; at most `zone_size` (ZNS drives often have less).
    pub zone_capacity: Blocks,
    /// Number of zones, conventional ones included.
    pub zone_count: u32,
    /// Number of conventional zones: the first of the device.
    pub conventional_zones: u32,
    /// The most zones that may be open (implicitly or explicitly) at once. `None`: no limit.
    pub open_zones_max: Option<u32>,
    /// The most zones that may be active (open or closed) at once. `None`: no limit.
    pub active_zones_max: Option<u32>,
    /// The longest zone append. `None`: no limit below the zone's.
    pub append_max: Option<Blocks>,
    /// A completed write may be lost to a power cut until the next flush.
    pub volatile_cache: bool,
    /// Written payload can be read back; `false` for a metadata-only memory device, which keeps record headers and
    /// drops payload.
    pub keeps_payload: bool,
    /// Time of one revolution, if the device is a disk and it is known: a block passes the head again after this.
    pub revolution: Option<Duration>,
}

/// The most zones of a device: 200 times those of a drive of 20 TB.
const ZONES_MAX: u32 = 1 << 24;

/// A geometry no drive can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeometryError(pub String);

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GeometryError {}

impl Geometry {
    /// An HM-SMR drive: capacity equal to size, no active limit, write cache off.
    pub fn hm_smr(zone_size: Blocks, zone_count: u32, conventional_zones: u32, open_zones_max: u32) -> Self {
        Self {
            zone_size,
            zone_capacity: zone_size,
            zone_count,
            conventional_zones,
            open_zones_max: Some(open_zones_max),
            active_zones_max: None,
            append_max: None,
            volatile_cache: false,
            keeps_payload: true,
            revolution: None,
        }
    }

    /// A ZNS SSD: no conventional zones, a capacity below the size, open and active limits, a volatile cache.
    pub fn zns(zone_size: Blocks, zone_capacity: Blocks, zone_count: u32, open_max: u32, active_max: u32) -> Self {
        Self {
            zone_size,
            zone_capacity,
            zone_count,
            conventional_zones: 0,
            open_zones_max: Some(open_max),
            active_zones_max: Some(active_max),
            append_max: None,
            volatile_cache: true,
            keeps_payload: true,
            revolution: None,
        }
    }

    /// Checks that a drive can have this shape.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub fn validate(&self) -> Result<(), GeometryError> {
        let wrong = |text: &str| Err(GeometryError(text.to_owned()));
        if self.zone_size == Blocks::ZERO || self.zone_count == 0 {
            return wrong("a device needs at least one zone of at least one block");
        }
        if self.zone_capacity == Blocks::ZERO || self.zone_capacity > self.zone_size {
            return wrong("zone capacity must be at least one block and at most the zone size");
        }
        // A header of a file is read before its device is known: it must not make us allocate without bound.
        if self.zone_count > ZONES_MAX {
            return wrong("a device has more than 16,777,216 zones");
        }
        if self.zone_size.0 > u64::from(u32::MAX) {
            return wrong("a zone is larger than 2^44 bytes");
        }
        if self.conventional_zones > self.zone_count {
            return wrong("there are more conventional zones than zones");
        }
        if self.open_zones_max == Some(0) || self.active_zones_max == Some(0) {
            return wrong("a limit of zero open or active zones leaves nothing to write to");
        }
        if let (Some(open), Some(active)) = (self.open_zones_max, self.active_zones_max)
            && open > active
        {
            return wrong("the limit on open zones exceeds the limit on active zones");
        }
        if self.append_max == Some(Blocks::ZERO) {
            return wrong("the longest zone append is zero blocks");
        }
        if self.zone_size.0.checked_mul(u64::from(self.zone_count)).is_none_or(|blocks| blocks > 1 << 48) {
            return wrong("the device is larger than 2^60 bytes");
        }
        Ok(())
    }

    /// The device's length.
    pub fn blocks(&self) -> Blocks {
        Blocks(self.zone_size.0 * u64::from(self.zone_count))
    }

    /// The first block of `zone`.
    pub fn start_of(&self, zone: ZoneId) -> Lba {
        Lba(self.zone_size.0 * u64::from(zone.0))
    }

    /// The zone that `at` lies in, or `None` past the end of the device.
    pub fn zone_of(&self, at: Lba) -> Option<ZoneId> {
        let zone = at.0 / self.zone_size.0;
        (zone < u64::from(self.zone_count)).then_some(ZoneId(zone as u32))
    }

    /// True if `zone` is conventional.
    pub fn is_conventional(&self, zone: ZoneId) -> bool {
        zone.0 < self.conventional_zones
    }

    /// Blocks that can be written in `zone`: a conventional zone has no gap at its end.
    pub fn capacity_of(&self, zone: ZoneId) -> Blocks {
        if self.is_conventional(zone) { self.zone_size } else { self.zone_capacity }
    }
}
