//! Use of the drive's zones: superblock, metadata log, data; and how many of them may be open.
//!
//! # Invariants
//! - ZF-LIMIT-1: zones that are written at once, the metadata log's and one that it leaves included, are no more than the drive allows.

use std::ops::Range;

use shingle_base::{Blocks, ZoneId};
use shingle_record::{META_ZONES_MIN, room_for_checkpoint, sliced_capacity};
use shingle_zoned::Geometry;

use crate::config::FormatOptions;
use crate::error::{FilesError, FilesErrorKind, FilesResult};
use crate::format::{Superblock, VERSION, superzones};

/// Blocks of a record at most, on drives with large zones: 1 MiB.
const RECORD_BLOCKS: u64 = 256;

/// The fewest data zones: one for logs, one for copies, some for files, and those that stay free.
const DATA_ZONES_MIN: u32 = 8;

/// Zones that are open for files of different lifetimes at most, on drives without limits.
const LANES_MAX: u32 = 16;

/// Zones of the drive that are open beside data zones: the metadata log's, and one that it leaves.
const OTHERS: u32 = 2;

/// The fewest open zones: those of the metadata log, one for logs, one for copies, one for all others.
const OPEN_MIN: u32 = OTHERS + 3;

/// Use of a drive's zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Zones of superblocks: each has the superblock, with two copies. (ZF-SB-1)
    pub(crate) superzones: Range<u32>,
    pub(crate) metazones: Range<u32>,
    pub(crate) data_zones: Range<u32>,
    /// Blocks that can be written in a zone.
    pub(crate) zone_blocks: u32,
    /// Bytes of a record at most.
    pub(crate) record_bytes: u32,
    /// Data zones that may be open at once. (ZF-LIMIT-1)
    pub(crate) open_max: u32,
}

fn invalid<T>(text: impl Into<std::sync::Arc<str>>) -> FilesResult<T> {
    Err(FilesError::new(FilesErrorKind::Invalid, text))
}

impl Layout {
    /// The layout of a new store on a drive.
    ///
    /// # Errors
    /// `Invalid` if the drive is too small, or allows too few open zones.
    pub(crate) fn choose(geometry: &Geometry, options: &FormatOptions) -> FilesResult<(Self, Superblock)> {
        let capacity = geometry.zone_capacity.0;
        let metazones = options.metazones.unwrap_or_else(|| metazones(geometry));
        let block = Superblock {
            zone_size: geometry.zone_size.0,
            capacity,
            zone_count: geometry.zone_count,
            metazones,
            record_blocks: RECORD_BLOCKS.min((capacity / 8).max(1)) as u32,
        };
        Ok((Self::of(geometry, &block, VERSION)?, block))
    }

    /// The layout that a superblock of a version tells.
    ///
    /// # Errors
    /// `Invalid` if it is of another drive, or one that cannot be used.
    pub(crate) fn of(geometry: &Geometry, block: &Superblock, version: u32) -> FilesResult<Self> {
        let made = (block.zone_size, block.capacity, block.zone_count);
        let found = (geometry.zone_size.0, geometry.zone_capacity.0, geometry.zone_count);
        if made != found {
            return invalid(format!(
                "the files were made on a drive of {} zones of {} and {} blocks; this one has {}, {} and {}",
                made.2, made.0, made.1, found.2, found.0, found.1
            ));
        }
        let limits = [geometry.open_zones_max, geometry.active_zones_max];
        let limit = limits.into_iter().flatten().min();
        if limit.is_some_and(|limit| limit < OPEN_MIN) {
            return invalid(format!("the drive allows too few open or active zones; files need {OPEN_MIN}"));
        }
        if !(16..=1 << 30).contains(&block.capacity) {
            return invalid("the drive's zones are smaller than 64 KiB or larger than 4 TiB");
        }
        let first = geometry.conventional_zones;
        let supers = superzones(version);
        let data = first.checked_add(supers).and_then(|meta| meta.checked_add(block.metazones));
        let Some(data) = data.filter(|data| data + DATA_ZONES_MIN <= geometry.zone_count) else {
            return invalid(format!(
                "the drive has too few sequential zones: files need {} and {DATA_ZONES_MIN} for data",
                u64::from(block.metazones) + u64::from(supers)
            ));
        };
        if block.metazones < META_ZONES_MIN {
            return invalid(format!("the metadata log needs {META_ZONES_MIN} zones"));
        }
        Ok(Self {
            superzones: first..first + supers,
            metazones: first + supers..data,
            data_zones: data..geometry.zone_count,
            zone_blocks: block.capacity as u32,
            record_bytes: sliced_capacity(Blocks(u64::from(block.record_blocks))).min(1 << 30) as u32,
            open_max: limit.map_or(LANES_MAX, |limit| (limit - OTHERS).min(LANES_MAX)),
        })
    }

    /// The first zone of superblocks, which is the first of the store.
    pub(crate) fn superzone(&self) -> ZoneId {
        ZoneId(self.superzones.start)
    }

    /// True if `zone` is a data zone.
    pub(crate) fn is_data(&self, zone: ZoneId) -> bool {
        self.data_zones.contains(&zone.0)
    }

    /// Bytes of a zone.
    pub(crate) fn zone_bytes(&self) -> u64 {
        Blocks(u64::from(self.zone_blocks)).bytes()
    }
}

/// Zones of the metadata log: enough for a checkpoint of small files on a small drive, and of tables on a large one, with one zone to
/// spare.
fn metazones(geometry: &Geometry) -> u32 {
    let blocks = geometry.zone_capacity.0.saturating_mul(u64::from(geometry.zone_count));
    let bytes = (blocks.saturating_mul(24)).min(4 << 20).max(blocks / 16) + (16 << 10);
    let capacity = geometry.zone_capacity.0.min(u64::from(u32::MAX)) as u32;
    let fits = |zones: &u32| room_for_checkpoint(u64::from(*zones) - 1, capacity, bytes);
    (META_ZONES_MIN + 1..geometry.zone_count).find(fits).unwrap_or(geometry.zone_count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_comes_from_its_superblock() {
        let geometry = Geometry::hm_smr(Blocks(65_536), 74_508, 800, 128);
        let (layout, block) = Layout::choose(&geometry, &FormatOptions::default()).unwrap();
        assert!(layout.metazones.len() < 40, "{layout:?}");
        assert_eq!((layout.open_max, layout.superzone()), (LANES_MAX, ZoneId(800)));
        assert_eq!((layout.superzones.clone(), layout.metazones.start), (800..802, 802));
        assert_eq!(Layout::of(&geometry, &block, VERSION).unwrap(), layout);
        let first = Layout::of(&geometry, &block, 1).unwrap();
        assert_eq!(
            (first.superzones, first.metazones.start, first.data_zones.start),
            (800..801, 801, layout.data_zones.start - 1)
        );
        let other = Geometry::hm_smr(Blocks(65_536), 74_509, 800, 128);
        assert_eq!(Layout::of(&other, &block, VERSION).unwrap_err().kind, FilesErrorKind::Invalid);
    }

    /// ZF-LIMIT-1.
    #[test]
    fn six_active_zones_are_enough_and_four_are_not() {
        let choose =
            |limit| Layout::choose(&Geometry::zns(Blocks(64), Blocks(60), 40, limit, limit), &FormatOptions::default());
        assert_eq!(choose(6).unwrap().0.open_max, 4);
        assert_eq!(choose(4).unwrap_err().kind, FilesErrorKind::Invalid);
        let small = Geometry::hm_smr(Blocks(64), 12, 0, 8);
        assert_eq!(Layout::choose(&small, &FormatOptions::default()).unwrap_err().kind, FilesErrorKind::Invalid);
    }

    /// 20 zones are enough, of any size: blue stores gave so many to their metadata, before version 2.
    #[test]
    fn twenty_zones_are_enough() {
        for capacity in (16..2000).chain([4096, 16_384, 65_536, 524_288]) {
            let geometry = |zones| Geometry::hm_smr(Blocks(capacity), zones, 0, 8);
            let fewest = (1..40).find(|zones| Layout::choose(&geometry(*zones), &FormatOptions::default()).is_ok());
            assert!(fewest.is_some_and(|fewest| fewest <= 20), "zones of {capacity} blocks: {fewest:?}");
        }
    }
}
