//! Division of a drive: superzone, metazones, data zones. (SMRstore, section 5.2.)
//!
//! Conventional zones come first on a drive and are left alone, as in the paper (section 7): the store is strictly
//! log-structured and has no use for them.

use std::ops::Range;

use shingle_base::ZoneId;
use shingle_zoned::Geometry;

use crate::error::{Error, ErrorKind, Result};

/// The fewest metazones: one that is written, one that is recycled, and one in reserve, twice over.
pub const METAZONES_MIN: u32 = 6;

/// The fewest data zones a store can work with: one a stream, one kept for GC, and two to move between.
pub const DATA_ZONES_MIN: u32 = 6;

/// The partitions of a drive. All are fixed when it is formatted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The first sequential zone, which begins the store.
    pub superzone: ZoneId,
    /// Checkpoints and journal.
    pub metazones: Range<u32>,
    /// Records of chunks.
    pub data_zones: Range<u32>,
}

impl Layout {
    /// The layout of a drive with `metazones` metazones.
    ///
    /// # Errors
    /// `Format` if the drive has too few zones.
    pub fn new(geometry: &Geometry, metazones: u32) -> Result<Self> {
        let superzone = geometry.conventional_zones;
        let first_data = superzone.saturating_add(1).saturating_add(metazones);
        let data_zones = geometry.zone_count.saturating_sub(first_data);
        if metazones < METAZONES_MIN || data_zones < DATA_ZONES_MIN {
            return Err(Error::new(
                ErrorKind::Format,
                format!(
                    "the drive has {} sequential zones; with {metazones} metazones a chunk store needs at least {} \
                     ({METAZONES_MIN} or more of them metazones)",
                    geometry.zone_count.saturating_sub(superzone),
                    1 + metazones.max(METAZONES_MIN) + DATA_ZONES_MIN,
                ),
            ));
        }
        Ok(Self {
            superzone: ZoneId(superzone),
            metazones: superzone + 1..first_data,
            data_zones: first_data..geometry.zone_count,
        })
    }

    /// The number of metazones for a drive: 400 of 74,508 zones, as the paper has it, with a floor.
    pub fn default_metazones(geometry: &Geometry) -> u32 {
        let zones = u64::from(geometry.zone_count);
        ((zones * 400).div_ceil(74_508) as u32).max(METAZONES_MIN)
    }

    /// True if `zone` is a data zone.
    pub fn is_data(&self, zone: ZoneId) -> bool {
        self.data_zones.contains(&zone.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_base::Blocks;

    #[test]
    fn a_full_drive_has_the_papers_layout() {
        let geometry = Geometry::hm_smr(Blocks(65_536), 74_508, 800, 128);
        let layout = Layout::new(&geometry, Layout::default_metazones(&geometry)).unwrap();
        assert_eq!(layout.superzone, ZoneId(800));
        assert_eq!(layout.metazones, 801..1201);
        assert_eq!(layout.data_zones, 1201..74_508);
    }

    #[test]
    fn a_drive_that_is_too_small_is_refused() {
        let geometry = Geometry::hm_smr(Blocks(64), 12, 0, 8);
        assert_eq!(Layout::new(&geometry, 6).unwrap_err().kind, ErrorKind::Format);
        let geometry = Geometry::hm_smr(Blocks(64), 13, 0, 8);
        assert!(Layout::new(&geometry, 6).is_ok());
    }
}
