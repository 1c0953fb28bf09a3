//! Division of a drive: superzone, metazones, data zones; and the shape of pairs in them.
//!
//! Conventional zones come first on a drive and are left alone: a volume is strictly log-structured.
//!
//! # Invariants
//! - TL-SIZE-1: with [`SPARE_ZONES`] zones beside those that its sectors fill, however they are scattered, there is always a closed
//!   zone of which copying wins room; or one that nobody writes, which is closed then.
//! - TL-SIZE-2: the largest map fits a checkpoint; with snapshots, writes end before the maps do not (TL-SNAP-5).

use std::ops::Range;

use shingle_base::{BLOCK_SIZE, Lba, ZoneId};
use shingle_record::{NAMES_MAX, PAIR_SLICES_MAX, pair_blocks, room_for_checkpoint};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use shingle_zoned::Geometry;

use crate::config::FormatOptions;
use crate::format::{EXTENT_BYTES, SECTORS_END, Superblock, ZONE_BYTES};
use crate::place::{Place, Stride};

/// The fewest metazones.
const METAZONES_MIN: u32 = 6;

/// Zones beside those that the sectors fill: two that are written, two for copies to go on in, one that is being emptied, and one
/// that was. Frontiers may be more than two: the keeper ends those that hold up writers.
const SPARE_ZONES: u32 = 6;

/// The fewest blocks of a zone, and the most.
const ZONE_BLOCKS: Range<u64> = 16..1 << 30;

/// Shape of sectors, pairs and zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// A sector has 2^`sector_shift` bytes.
    pub(crate) sector_shift: u8,
    /// Slices of a full pair.
    pub(crate) pair_slices: u32,
    /// Blocks that can be written in a zone.
    pub(crate) zone_blocks: u32,
    /// Blocks from the start of a zone to that of the next.
    zone_size: u64,
}

impl Shape {
    fn new(geometry: &Geometry, sector_shift: u8) -> Self {
        let zone_blocks = geometry.zone_capacity.0.min(ZONE_BLOCKS.end) as u32;
        // A zone has a head.
        let pair_slices = PAIR_SLICES_MAX.min(zone_blocks - 2);
        Self { sector_shift, pair_slices, zone_blocks, zone_size: geometry.zone_size.0 }
    }

    /// Bytes of so many sectors.
    pub(crate) fn bytes(self, sectors: u64) -> u64 {
        sectors << self.sector_shift
    }

    /// Sectors of a slice.
    pub(crate) fn slice_sectors(self) -> u32 {
        BLOCK_SIZE as u32 >> self.sector_shift
    }

    /// Sectors of a full pair.
    pub(crate) fn pair_sectors(self) -> u32 {
        self.pair_slices * self.slice_sectors()
    }

    /// Blocks of a pair with so many sectors of data.
    pub(crate) fn pair_blocks(self, sectors: u32) -> u32 {
        pair_blocks(self.bytes(u64::from(sectors))).0 as u32
    }

    /// Size of full pairs, as the map counts.
    pub(crate) fn stride(self) -> Stride {
        let sectors = self.pair_sectors();
        Stride::new(sectors, self.pair_blocks(sectors)).unwrap_or(Stride::ONE)
    }

    /// The zone in which a pair begins, and its block there.
    pub(crate) fn home(self, record: Lba) -> (ZoneId, u32) {
        (ZoneId((record.0 / self.zone_size) as u32), (record.0 % self.zone_size) as u32)
    }

    /// The zone of a place.
    pub(crate) fn zone_of(self, place: Place) -> ZoneId {
        self.home(place.record()).0
    }

    /// Sectors that a zone holds if all follow each other.
    pub(crate) fn full_sectors(self) -> u32 {
        let (blocks, room) = (self.pair_blocks(self.pair_sectors()), self.zone_blocks - 1);
        room / blocks * self.pair_sectors() + (room % blocks).saturating_sub(1) * self.slice_sectors()
    }

    /// Sectors that a zone holds if none follows another: without its head, a block at its end that is too short for a pair, and one
    /// for a pair that is not full, with which a run of copies ends.
    pub(crate) fn scattered_sectors(self) -> u32 {
        let in_pair = self.pair_sectors().min(NAMES_MAX as u32);
        let (blocks, room) = (self.pair_blocks(in_pair), self.zone_blocks - 3);
        let rest = (room % blocks).saturating_sub(1) * self.slice_sectors();
        room / blocks * in_pair + rest.min(in_pair)
    }
}

/// The partitions of a drive, fixed when it is formatted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The first sequential zone.
    pub(crate) superzone: ZoneId,
    /// Checkpoints and journal.
    pub(crate) metazones: Range<u32>,
    /// Pairs.
    pub(crate) data_zones: Range<u32>,
    pub(crate) shape: Shape,
    /// Size of the volume when it was made.
    pub(crate) sectors: u64,
    /// Sectors that the data zones hold at most, however they are scattered: those of volume and snapshots together.
    pub(crate) sectors_max: u64,
    /// Extents that a checkpoint has room for.
    pub(crate) extents_max: u64,
}

fn invalid<T>(text: String) -> StoreResult<T> {
    Err(StoreError::new(StoreErrorKind::Invalid, text))
}

impl Layout {
    /// The layout of a new volume.
    ///
    /// # Errors
    /// `Invalid` if the drive is too small, or the options ask for more than it has.
    pub(crate) fn choose(geometry: &Geometry, options: &FormatOptions) -> StoreResult<(Self, Superblock)> {
        check_drive(geometry)?;
        let sector_shift = match options.sector_bytes {
            512 => 9,
            4096 => 12,
            other => return invalid(format!("a sector has 512 or 4096 bytes, not {other}")),
        };
        if options.metazones.is_none()
            && let Some(bytes) = options.size_bytes
        {
            // A volume that leaves room on its drive can grow into it, if the metazones of the largest one leave it enough.
            let largest = Self::choose(geometry, &FormatOptions { size_bytes: None, ..*options });
            if let Ok((_, block)) = largest
                && let Ok(layout) = Self::with(geometry, sector_shift, block.metazones, Some(bytes))
            {
                let block = Superblock { sectors: layout.sectors, ..block };
                return Ok((layout, block));
            }
        }
        let mut metazones = options.metazones.unwrap_or(METAZONES_MIN).max(METAZONES_MIN);
        loop {
            let layout = Self::with(geometry, sector_shift, metazones, options.size_bytes)?;
            if layout.sectors <= layout.extents_max {
                let block = Superblock {
                    zone_size: geometry.zone_size.0,
                    capacity: geometry.zone_capacity.0,
                    zone_count: geometry.zone_count,
                    metazones,
                    sector_shift,
                    sectors: layout.sectors,
                };
                return Ok((layout, block));
            }
            if options.metazones.is_some() {
                return invalid(format!(
                    "{metazones} metazones cannot hold the map of such a volume; leave the number out"
                ));
            }
            metazones += metazones.div_ceil(64);
        }
    }

    fn with(geometry: &Geometry, sector_shift: u8, metazones: u32, size_bytes: Option<u64>) -> StoreResult<Self> {
        let shape = Shape::new(geometry, sector_shift);
        let superzone = geometry.conventional_zones;
        let first = superzone.saturating_add(1).saturating_add(metazones).min(geometry.zone_count);
        let data = u64::from(geometry.zone_count - first);
        let in_zone = u64::from(shape.scattered_sectors());
        let most = data.saturating_sub(u64::from(SPARE_ZONES)) * in_zone;
        let sectors = match size_bytes {
            Some(bytes) => bytes >> sector_shift,
            None => most.min(data * in_zone * 9 / 10),
        };
        if most == 0 || sectors > most {
            return invalid(format!(
                "the drive has {} sequential zones of {} bytes, which hold a volume of {} bytes at most",
                geometry.zone_count.saturating_sub(superzone),
                geometry.zone_capacity.bytes(),
                shape.bytes(most),
            ));
        }
        if sectors == 0 {
            return invalid("a volume has one sector at least".to_owned());
        }
        let room = |extents: u64| {
            let bytes = data * ZONE_BYTES as u64 + extents * EXTENT_BYTES as u64;
            room_for_checkpoint(u64::from(metazones), geometry.zone_capacity.0 as u32, bytes)
        };
        let (mut fits, mut fails) = (0, SECTORS_END);
        while fails - fits > 1 {
            let middle = fits.midpoint(fails);
            *(if room(middle) { &mut fits } else { &mut fails }) = middle;
        }
        let (superzone, metazones, data_zones) = (ZoneId(superzone), superzone + 1..first, first..geometry.zone_count);
        Ok(Self { superzone, metazones, data_zones, shape, sectors, sectors_max: most, extents_max: fits })
    }

    /// The layout of the volume on a drive.
    ///
    /// # Errors
    /// `Invalid` if the drive is not the one that the volume was made on; `Corrupt` if no format makes such a volume.
    pub(crate) fn of(geometry: &Geometry, block: &Superblock) -> StoreResult<Self> {
        check_drive(geometry)?;
        let made = (block.zone_size, block.capacity, block.zone_count);
        let found = (geometry.zone_size.0, geometry.zone_capacity.0, geometry.zone_count);
        if made != found {
            return invalid(format!(
                "the volume was made on a drive of {} zones of {} blocks, {} of which can be written, but this one has {} of {} and {}",
                made.2, made.0, made.1, found.2, found.0, found.1
            ));
        }
        let size_bytes = block.sectors.checked_mul(1 << block.sector_shift);
        let layout =
            size_bytes.and_then(|bytes| Self::with(geometry, block.sector_shift, block.metazones, Some(bytes)).ok());
        layout.ok_or_else(|| StoreError::new(StoreErrorKind::Corrupt, "the superblock makes no sense"))
    }

    /// True if `zone` is a data zone.
    pub(crate) fn is_data(&self, zone: ZoneId) -> bool {
        self.data_zones.contains(&zone.0)
    }
}

fn check_drive(geometry: &Geometry) -> StoreResult<()> {
    if !ZONE_BLOCKS.contains(&geometry.zone_capacity.0) {
        return invalid("the drive's zones are smaller than 64 KiB or larger than 4 TiB".to_owned());
    }
    // A metazone, two that are written, and one that is being left.
    let least = 4;
    let limits = [geometry.open_zones_max, geometry.active_zones_max];
    if limits.into_iter().flatten().any(|limit| limit < least) {
        return invalid(format!("the drive allows too few open or active zones; a volume needs {least}"));
    }
    // A place has 37 bits for the block.
    if geometry.blocks().0 >= 1 << 37 {
        return invalid("the drive is larger than 512 TiB".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_base::Blocks;

    #[test]
    fn a_full_drive_gives_nearly_nine_tenths() {
        let geometry = Geometry::hm_smr(Blocks(65_536), 74_508, 800, 128);
        let (layout, block) = Layout::choose(&geometry, &FormatOptions::default()).unwrap();
        let share = layout.shape.bytes(layout.sectors) as f64 / (73_708.0 * 268_435_456.0);
        assert!((0.87..0.9).contains(&share), "{share}");
        assert!(layout.metazones.len() < 1500, "{}", layout.metazones.len());
        assert_eq!(Layout::of(&geometry, &block).unwrap(), layout);
        assert_eq!(layout.shape.stride(), Stride::new(256, 257).unwrap());
    }

    #[test]
    fn small_zones_have_short_pairs() {
        let geometry = Geometry::hm_smr(Blocks(64), 40, 0, 8);
        for (bytes, sectors) in [(4096, 62), (512, 62 * 8)] {
            let options = FormatOptions { sector_bytes: bytes, ..FormatOptions::default() };
            let (layout, _) = Layout::choose(&geometry, &options).unwrap();
            assert_eq!(layout.shape.pair_sectors(), sectors);
            assert_eq!(layout.shape.stride().blocks(), 63);
        }
    }

    #[test]
    fn drives_and_sizes_that_do_not_fit_are_refused() {
        let refused = |geometry: &Geometry, options: FormatOptions| {
            Layout::choose(geometry, &options).map_err(|error| error.kind).unwrap_err()
        };
        let small = Geometry::hm_smr(Blocks(64), 13, 0, 8);
        assert_eq!(refused(&small, FormatOptions::default()), StoreErrorKind::Invalid);
        let good = Geometry::hm_smr(Blocks(64), 60, 0, 8);
        let default = FormatOptions::default();
        for options in [
            FormatOptions { sector_bytes: 1024, ..default },
            FormatOptions { size_bytes: Some(0), ..default },
            FormatOptions { size_bytes: Some(60 * 64 * 4096), ..default },
        ] {
            assert_eq!(refused(&good, options), StoreErrorKind::Invalid, "{options:?}");
        }
        assert_eq!(refused(&Geometry::hm_smr(Blocks(64), 60, 0, 3), default), StoreErrorKind::Invalid);
        let (_, block) = Layout::choose(&good, &default).unwrap();
        let other = Geometry::hm_smr(Blocks(64), 61, 0, 8);
        assert_eq!(Layout::of(&other, &block).unwrap_err().kind, StoreErrorKind::Invalid);
        let senseless = Superblock { sectors: 1 << 47, ..block };
        assert_eq!(Layout::of(&good, &senseless).unwrap_err().kind, StoreErrorKind::Corrupt);
    }
}
