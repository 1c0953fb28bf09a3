//! Use of the drive's zones: superblock, metadata, data; and how many of them may be open.
//!
//! # Invariants
//! - BLU-LIMIT-1: shares of metadata and data in the drive's limits are together no more than the limits.

use std::ops::Range;

use shingle_base::ZoneId;
use shingle_zoned::{Geometry, Share};

use crate::error::{BlueError, BlueResult};
use crate::format::superblock::Superblock;
use crate::format::{VERSION, superzones};
use crate::options::{FormatOptions, Metadata};

/// The fewest zones of metadata that files on zones take.
const META_MIN: u32 = 21;

/// Zones that the metadata may have open, of a drive that allows many.
const META_OPEN: u32 = 8;

/// The fewest of them: those that files on zones need.
const META_OPEN_MIN: u32 = 5;

/// The fewest data zones: one for new data, one for copies, two that stay free, and one.
const DATA_MIN: u32 = 5;

/// The fewest open data zones: one for new data, one for copies, one that is being left.
const DATA_OPEN_MIN: u32 = 3;

/// Lanes for new data, one for each lifetime.
const LANES_MAX: u32 = 5;

/// A write of fewer bytes is deferred: on a disk, and on an SSD. (Dissertation, section 4.4.2.)
const SMALL: [u32; 2] = [64 << 10, 16 << 10];

/// Use of a drive's zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Zones of superblocks. (BLU-SB-1)
    pub(crate) superzones: Range<u32>,
    pub(crate) meta_zones: Range<u32>,
    pub(crate) data_zones: Range<u32>,
    pub(crate) meta_share: Share,
    pub(crate) data_share: Share,
    /// Blocks that can be written in a zone.
    pub(crate) zone_blocks: u32,
    /// Lanes for new data. (BLU-LIMIT-1)
    pub(crate) lanes: u32,
    /// A write of fewer bytes is deferred.
    pub(crate) small: u32,
    pub(crate) metadata: Metadata,
}

impl Layout {
    /// The layout of a new store on a drive.
    ///
    /// # Errors
    /// `Invalid` if the drive is too small, or allows too few open zones.
    pub(crate) fn choose(geometry: &Geometry, options: &FormatOptions) -> BlueResult<(Self, Superblock)> {
        let sequential = geometry.zone_count.saturating_sub(geometry.conventional_zones);
        let meta_open = limit(geometry).map_or(0, |limit| META_OPEN.min(limit.saturating_sub(DATA_OPEN_MIN)));
        let ssd = geometry.active_zones_max.is_some();
        let block = Superblock {
            zone_size: geometry.zone_size.0,
            capacity: geometry.zone_capacity.0,
            zone_count: geometry.zone_count,
            meta_zones: options.meta_zones.unwrap_or_else(|| META_MIN.max(sequential / 50)),
            meta_open,
            small: options.small_bytes.unwrap_or(SMALL[usize::from(ssd)]),
            metadata: options.metadata,
        };
        Ok((Self::of(geometry, &block, VERSION)?, block))
    }

    /// The layout that a superblock of a version tells.
    ///
    /// # Errors
    /// `Invalid` if it is of another drive, or one that cannot be used.
    pub(crate) fn of(geometry: &Geometry, block: &Superblock, version: u32) -> BlueResult<Self> {
        let made = (block.zone_size, block.capacity, block.zone_count);
        let found = (geometry.zone_size.0, geometry.zone_capacity.0, geometry.zone_count);
        if made != found {
            return Err(BlueError::invalid(format!(
                "the store was made on a drive of {} zones of {} and {} blocks; this one has {}, {} and {}",
                made.2, made.0, made.1, found.2, found.0, found.1
            )));
        }
        let first = geometry.conventional_zones;
        let supers = superzones(version);
        let data = first.checked_add(supers).and_then(|first| first.checked_add(block.meta_zones));
        let Some(data) = data.filter(|data| data.saturating_add(DATA_MIN) <= geometry.zone_count) else {
            let needed = u64::from(block.meta_zones) + u64::from(supers);
            let text = format!("the drive has too few sequential zones: {needed} and {DATA_MIN} for data");
            return Err(BlueError::invalid(text));
        };
        if !(16..=1 << 30).contains(&block.capacity) {
            return Err(BlueError::invalid("the drive's zones are smaller than 64 KiB or larger than 4 TiB"));
        }
        let limit = limit(geometry);
        let data_open = limit.map(|limit| limit.saturating_sub(block.meta_open));
        if data_open.is_some_and(|open| open < DATA_OPEN_MIN || block.meta_open < META_OPEN_MIN) {
            let least = META_OPEN_MIN + DATA_OPEN_MIN;
            return Err(BlueError::invalid(format!(
                "the drive allows too few open or active zones: {least} are needed"
            )));
        }
        let share = |part: Option<u32>| Share {
            open_zones_max: geometry.open_zones_max.and(part),
            active_zones_max: geometry.active_zones_max.and(part),
        };
        Ok(Self {
            superzones: first..first + supers,
            meta_zones: first + supers..data,
            data_zones: data..geometry.zone_count,
            meta_share: share(limit.map(|_| block.meta_open)),
            data_share: share(data_open),
            zone_blocks: block.capacity as u32,
            // One is left to copies, and one to a zone that a lane has left and the drive has open still.
            lanes: data_open.map_or(LANES_MAX, |open| (open - 2).min(LANES_MAX)),
            small: block.small,
            metadata: block.metadata,
        })
    }
}

impl Layout {
    /// The first zone of superblocks, which is the first of the store.
    pub(crate) fn superzone(&self) -> ZoneId {
        ZoneId(self.superzones.start)
    }
}

fn limit(geometry: &Geometry) -> Option<u32> {
    [geometry.open_zones_max, geometry.active_zones_max].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use shingle_base::Blocks;

    use super::*;
    use crate::error::BlueErrorKind;

    /// BLU-LIMIT-1.
    #[test]
    fn shares_fit_the_limits() {
        for open in [8, 9, 12, 128] {
            let geometry = Geometry::zns(Blocks(65_536), Blocks(65_000), 2000, open, open);
            let (layout, block) = Layout::choose(&geometry, &FormatOptions::default()).unwrap();
            let (meta, data) =
                (layout.meta_share.active_zones_max.unwrap(), layout.data_share.active_zones_max.unwrap());
            assert!(meta + data <= open && layout.lanes + 2 <= data, "{layout:?}");
            assert_eq!(Layout::of(&geometry, &block, VERSION).unwrap(), layout);
            let older = Layout::of(&geometry, &block, 2).unwrap();
            assert_eq!((older.superzones, older.meta_zones.start), (0..1, 1));
            assert_eq!((layout.superzones.clone(), layout.meta_zones.start), (0..2, 2));
            assert_eq!((layout.small, layout.meta_zones.len()), (16 << 10, 40));
        }
        let refused = |geometry: Geometry| Layout::choose(&geometry, &FormatOptions::default()).unwrap_err().kind;
        assert_eq!(refused(Geometry::zns(Blocks(64), Blocks(60), 40, 7, 7)), BlueErrorKind::Invalid);
        assert_eq!(refused(Geometry::hm_smr(Blocks(64), 26, 0, 128)), BlueErrorKind::Invalid);
    }
}
