//! The engine's part of the superblock.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Sectors have 2^9 to 2^12 bytes.
const SECTOR_SHIFTS: [u8; 2] = [9, 12];

/// Sectors have numbers below this.
pub(crate) const SECTORS_END: u64 = 1 << 48;

/// The volume's part of the superblock.
///
/// | at | size | field        | meaning                                             |
/// |---:|-----:|--------------|-----------------------------------------------------|
/// |  0 |    8 | `zone_size`  | blocks from the start of a zone to that of the next |
/// |  8 |    8 | `capacity`   | blocks that can be written in a zone                |
/// | 16 |    8 | `sectors`    | size of the volume                                  |
/// | 24 |    4 | `zone_count` | zones of the drive                                  |
/// | 28 |    4 | `metazones`  | zones of checkpoints and journal                    |
/// | 32 |    1 | `shift`      | a sector has 2^`shift` bytes: 9 or 12               |
/// | 33 |    7 | `zero`       | zero                                                |
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    zone_size: U64,
    capacity: U64,
    sectors: U64,
    zone_count: U32,
    metazones: U32,
    shift: u8,
    zero: [u8; 7],
}

const _: () = assert!(size_of::<RawSuperblock>() == 40);

/// Shape of a volume and of its drive, fixed when it is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) zone_size: u64,
    pub(crate) capacity: u64,
    pub(crate) zone_count: u32,
    pub(crate) metazones: u32,
    pub(crate) sector_shift: u8,
    pub(crate) sectors: u64,
}

impl Superblock {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let raw = RawSuperblock {
            zone_size: U64::new(self.zone_size),
            capacity: U64::new(self.capacity),
            sectors: U64::new(self.sectors),
            zone_count: U32::new(self.zone_count),
            metazones: U32::new(self.metazones),
            shift: self.sector_shift,
            zero: [0; 7],
        };
        raw.as_bytes().to_vec()
    }

    /// `None` for bytes that no format writes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let raw = RawSuperblock::read_from_bytes(bytes).ok()?;
        let made =
            SECTOR_SHIFTS.contains(&raw.shift) && (1..SECTORS_END).contains(&raw.sectors.get()) && raw.zero == [0; 7];
        made.then_some(Self {
            zone_size: raw.zone_size.get(),
            capacity: raw.capacity.get(),
            zone_count: raw.zone_count.get(),
            metazones: raw.metazones.get(),
            sector_shift: raw.shift,
            sectors: raw.sectors.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_comes_back_and_others_are_refused() {
        let block = Superblock {
            zone_size: 65_536,
            capacity: 65_535,
            zone_count: 100,
            metazones: 7,
            sector_shift: 12,
            sectors: 9,
        };
        let bytes = block.encode();
        assert_eq!(bytes.len(), 40);
        assert_eq!(Superblock::decode(&bytes), Some(block));
        for cut in 0..bytes.len() {
            assert_eq!(Superblock::decode(&bytes[..cut]), None);
        }
        for (at, value) in [(32, 8), (32, 13), (22, 1), (16, 0)] {
            let mut other = bytes.clone();
            other[at] = value;
            assert_eq!(Superblock::decode(&other), None, "byte {at} is {value}");
        }
    }
}
