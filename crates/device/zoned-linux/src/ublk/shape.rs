//! The shape of a disk, and the parameters that tell the kernel of it.
//!
//! **Owns** the limits of the kernel for shapes. Pure.

use std::mem::size_of;

use shingle_base::BLOCK_SIZE;
use shingle_zoned::{Geometry, ZoneInfo, ZoneState};

use super::abi::{
    Basic, Discard, FUA, OF_BASIC, OF_DISCARD, OF_ZONES, Parameters, READ_ONLY, ROTATIONAL, SECTOR_BYTES,
    VOLATILE_CACHE, Zones,
};

/// The most bytes of a read, a write or an append: a request's data are held in memory while it is under way.
pub const UBLK_TRANSFER_MAX: u32 = 1 << 20;
/// The most bytes of a discard, or of zeros: they have no data.
const UNWRITTEN_MAX: u32 = 1 << 30;
/// Bytes of a zone in a report.
pub const UBLK_ZONE_BYTES: usize = 64;

/// The shape of a disk that the kernel is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UblkShape {
    /// Bytes: a whole number of blocks.
    pub size_bytes: u64,
    /// Bytes that requests are multiples of: 512 to 4,096, a power of two.
    pub block_bytes: u32,
    /// A completed write may be lost until a flush.
    pub volatile_cache: bool,
    /// Writes may ask not to be lost.
    pub fua: bool,
    /// It is a disk that turns.
    pub rotational: bool,
    /// It takes no writes.
    pub read_only: bool,
    /// It takes discards, and makes zeros without being sent them.
    pub discard: bool,
    /// Its zones, if it is zoned.
    pub zones: Option<UblkZones>,
}

/// The zones of a zoned disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UblkZones {
    /// Distance between the starts of two zones.
    pub size_bytes: u64,
    /// Number of zones.
    pub count: u32,
    /// The most zones open at once. `None`: no limit.
    pub open_max: Option<u32>,
    /// The most zones active at once. `None`: no limit.
    pub active_max: Option<u32>,
    /// Bytes of the longest append.
    pub append_max_bytes: u64,
}

impl UblkShape {
    /// The shape of a zoned device.
    ///
    /// # Errors
    /// The reason why Linux has no such disks.
    pub fn of_zoned(geometry: &Geometry, rotational: bool, read_only: bool) -> Result<Self, String> {
        let zone_bytes = geometry.zone_size.bytes();
        if !zone_bytes.is_power_of_two() {
            return Err(format!(
                "its zones are of {zone_bytes} bytes, and Linux takes only powers of two: make a drive with such zones \
                 (`shingle drive create --zone-size 256MiB`)"
            ));
        }
        if !geometry.keeps_payload {
            return Err("it does not keep what is written to it".to_owned());
        }
        let append_max = geometry.append_max.unwrap_or(geometry.zone_capacity).min(geometry.zone_capacity);
        Ok(Self {
            size_bytes: geometry.blocks().bytes(),
            block_bytes: BLOCK_SIZE as u32,
            volatile_cache: geometry.volatile_cache,
            // The kernel makes one of a write and a flush, which it joins with others.
            fua: false,
            rotational,
            read_only,
            discard: false,
            zones: Some(UblkZones {
                size_bytes: zone_bytes,
                count: geometry.zone_count,
                open_max: geometry.open_zones_max,
                active_max: geometry.active_zones_max,
                append_max_bytes: append_max.bytes(),
            }),
        })
    }

    /// The parameters that tell the kernel of it.
    ///
    /// # Errors
    /// The reason why Linux has no such disks.
    pub(super) fn parameters(&self) -> Result<Parameters, String> {
        if !self.block_bytes.is_power_of_two() || !(512..=4096).contains(&self.block_bytes) {
            return Err(format!("its blocks are of {} bytes, and Linux takes 512 to 4,096", self.block_bytes));
        }
        if self.size_bytes == 0 || !self.size_bytes.is_multiple_of(u64::from(self.block_bytes)) {
            return Err(format!(
                "its size of {} bytes is no whole number of blocks of {}",
                self.size_bytes, self.block_bytes
            ));
        }
        let shift = self.block_bytes.trailing_zeros() as u8;
        let attributes = [
            (self.read_only, READ_ONLY),
            (self.rotational, ROTATIONAL),
            (self.volatile_cache, VOLATILE_CACHE),
            (self.volatile_cache && self.fua, FUA),
        ];
        let basic = Basic {
            attributes: attributes.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum(),
            logical_shift: shift,
            physical_shift: BLOCK_SIZE.trailing_zeros() as u8,
            optimal_shift: BLOCK_SIZE.trailing_zeros() as u8,
            minimal_shift: shift,
            transfer_max_sectors: sectors(u64::from(UBLK_TRANSFER_MAX)),
            chunk_sectors: 0,
            sectors: self.size_bytes / SECTOR_BYTES,
            boundary_mask: 0,
        };
        let mut all =
            Parameters { length: size_of::<Parameters>() as u32, kinds: OF_BASIC, basic, ..Parameters::default() };
        if self.discard {
            all.kinds |= OF_DISCARD;
            all.discard = Discard {
                granularity: self.block_bytes,
                discard_max_sectors: sectors(u64::from(UNWRITTEN_MAX)),
                zeros_max_sectors: sectors(u64::from(UNWRITTEN_MAX)),
                segments_max: 1,
                ..Discard::default()
            };
        }
        if let Some(zones) = &self.zones {
            all.kinds |= OF_ZONES;
            all.basic.chunk_sectors = u32::try_from(zones.size_bytes / SECTOR_BYTES)
                .map_err(|_| format!("its zones are of {} bytes, which is more than Linux takes", zones.size_bytes))?;
            // The kernel refuses limits that can never be reached; zero is none.
            let limit = |max: Option<u32>| max.filter(|&max| max < zones.count).unwrap_or(0);
            all.zones = Zones {
                open_max: limit(zones.open_max),
                active_max: limit(zones.active_max),
                append_max_sectors: sectors(zones.append_max_bytes.min(u64::from(UBLK_TRANSFER_MAX))),
                ..Zones::default()
            };
        }
        Ok(all)
    }
}

/// Sectors in so many bytes, which fit.
fn sectors(bytes: u64) -> u32 {
    u32::try_from(bytes / SECTOR_BYTES).unwrap_or(u32::MAX)
}

/// A zone of a drive of this geometry, as a report to the kernel has it: `struct blk_zone`.
///
/// In sectors, 8 bytes each: at 0 the zone's start, at 8 its length, at 16 the place of the next write (the zone's end, if there is
/// none), at 32 its capacity. At 24 its type (1 conventional, 2 written in order), at 25 its condition as ZBC numbers it. All else is zero.
pub fn ublk_zone(geometry: &Geometry, zone: &ZoneInfo) -> [u8; UBLK_ZONE_BYTES] {
    let per_block = BLOCK_SIZE as u64 / SECTOR_BYTES;
    let (start, length) = (zone.start.0 * per_block, geometry.zone_size.0 * per_block);
    let conventional = geometry.is_conventional(zone.zone);
    let pointer = match zone.state {
        _ if conventional => start + length,
        ZoneState::Full | ZoneState::Offline | ZoneState::NotWritePointer => start + length,
        _ => start + zone.written.0 * per_block,
    };
    let mut bytes = [0; UBLK_ZONE_BYTES];
    bytes[0..8].copy_from_slice(&start.to_ne_bytes());
    bytes[8..16].copy_from_slice(&length.to_ne_bytes());
    bytes[16..24].copy_from_slice(&pointer.to_ne_bytes());
    bytes[24] = if conventional { 1 } else { 2 };
    bytes[25] = zone.state.code();
    bytes[32..40].copy_from_slice(&(zone.capacity.0 * per_block).to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use shingle_base::{Blocks, ZoneId};

    use super::*;

    fn zns() -> Geometry {
        Geometry { conventional_zones: 2, ..Geometry::zns(Blocks(2048), Blocks(1536), 40, 14, 20) }
    }

    #[test]
    fn a_zoned_drive_tells_its_limits() {
        let shape = UblkShape::of_zoned(&zns(), false, false).unwrap();
        let all = shape.parameters().unwrap();
        assert_eq!((all.length, all.kinds), (112, OF_BASIC | OF_ZONES));
        assert_eq!(all.basic.chunk_sectors, 16384);
        assert_eq!(all.basic.sectors, 40 * 16384);
        assert_eq!((all.basic.logical_shift, all.basic.physical_shift), (12, 12));
        assert_eq!((all.zones.open_max, all.zones.active_max, all.zones.append_max_sectors), (14, 20, 2048));
        assert_eq!(all.basic.attributes, VOLATILE_CACHE, "the kernel makes FUA of flushes");
        let without = UblkShape::of_zoned(&Geometry::hm_smr(Blocks(2048), 5, 1, 128), true, true).unwrap();
        let all = without.parameters().unwrap();
        assert_eq!(all.basic.attributes, READ_ONLY | ROTATIONAL);
        assert_eq!((all.zones.open_max, all.zones.active_max), (0, 0), "more than there are zones is no limit");
        let short = Geometry { append_max: Some(Blocks(4)), ..zns() };
        assert_eq!(
            UblkShape::of_zoned(&short, false, false).unwrap().parameters().unwrap().zones.append_max_sectors,
            32
        );
    }

    #[test]
    fn shapes_that_linux_does_not_have_are_refused_with_the_reason() {
        let odd = Geometry { zone_size: Blocks(2047), ..zns() };
        assert!(UblkShape::of_zoned(&odd, false, false).unwrap_err().contains("powers of two"));
        let huge = Geometry::hm_smr(Blocks(1 << 31), 2, 0, 1);
        let shape = UblkShape::of_zoned(&huge, false, false).unwrap();
        assert!(shape.parameters().unwrap_err().contains("more than Linux takes"));
        let blocks = UblkShape { block_bytes: 8192, ..shape.clone() };
        assert!(blocks.parameters().unwrap_err().contains("8192"));
        let size = UblkShape { size_bytes: 4097, ..shape };
        assert!(size.parameters().unwrap_err().contains("4097"));
    }

    #[test]
    fn a_plain_disk_tells_of_discards_and_fua() {
        let shape = UblkShape {
            size_bytes: 1 << 30,
            block_bytes: 512,
            volatile_cache: true,
            fua: true,
            rotational: false,
            read_only: false,
            discard: true,
            zones: None,
        };
        let all = shape.parameters().unwrap();
        assert_eq!(all.kinds, OF_BASIC | OF_DISCARD);
        assert_eq!((all.basic.logical_shift, all.basic.physical_shift, all.basic.chunk_sectors), (9, 12, 0));
        assert_eq!(all.basic.attributes, VOLATILE_CACHE | FUA);
        assert_eq!(
            (all.discard.granularity, all.discard.discard_max_sectors, all.discard.segments_max),
            (512, 1 << 21, 1)
        );
    }

    #[test]
    fn zones_are_reported_in_sectors() {
        let geometry = zns();
        let of = |zone: u32, state, written| {
            let info = ZoneInfo {
                zone: ZoneId(zone),
                state,
                start: geometry.start_of(ZoneId(zone)),
                capacity: geometry.capacity_of(ZoneId(zone)),
                written: Blocks(written),
            };
            let bytes = ublk_zone(&geometry, &info);
            let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
            (word(0), word(8), word(16), bytes[24], bytes[25], word(32))
        };
        let start = 16384;
        assert_eq!(of(1, ZoneState::NotWritePointer, 0), (start, start, 2 * start, 1, 0, start));
        assert_eq!(of(2, ZoneState::Empty, 0), (2 * start, start, 2 * start, 2, 1, 12288));
        assert_eq!(of(2, ZoneState::Closed, 3), (2 * start, start, 2 * start + 24, 2, 4, 12288));
        assert_eq!(of(3, ZoneState::Full, 1536), (3 * start, start, 4 * start, 2, 0xe, 12288));
        assert_eq!(of(3, ZoneState::Offline, 0), (3 * start, start, 4 * start, 2, 0xf, 12288));
    }
}
