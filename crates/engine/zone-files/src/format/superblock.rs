//! The engine's part of the superblock.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The files' part of the superblock.
///
/// | at | size | field           | meaning                                             |
/// |---:|-----:|-----------------|-----------------------------------------------------|
/// |  0 |    8 | `zone_size`     | blocks from the start of a zone to that of the next |
/// |  8 |    8 | `capacity`      | blocks that can be written in a zone                |
/// | 16 |    4 | `zone_count`    | zones of the drive                                  |
/// | 20 |    4 | `metazones`     | zones of checkpoints and journal                    |
/// | 24 |    4 | `record_blocks` | blocks of a record at most                          |
/// | 28 |    4 | `zero`          | zero                                                |
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    zone_size: U64,
    capacity: U64,
    zone_count: U32,
    metazones: U32,
    record_blocks: U32,
    zero: U32,
}

const _: () = assert!(size_of::<RawSuperblock>() == 32);

/// Shape of the drive and of the files on it, fixed by the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) zone_size: u64,
    pub(crate) capacity: u64,
    pub(crate) zone_count: u32,
    pub(crate) metazones: u32,
    pub(crate) record_blocks: u32,
}

impl Superblock {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let raw = RawSuperblock {
            zone_size: U64::new(self.zone_size),
            capacity: U64::new(self.capacity),
            zone_count: U32::new(self.zone_count),
            metazones: U32::new(self.metazones),
            record_blocks: U32::new(self.record_blocks),
            zero: U32::new(0),
        };
        raw.as_bytes().to_vec()
    }

    /// `None` for bytes that no format writes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let raw = RawSuperblock::read_from_bytes(bytes).ok()?;
        let block = Self {
            zone_size: raw.zone_size.get(),
            capacity: raw.capacity.get(),
            zone_count: raw.zone_count.get(),
            metazones: raw.metazones.get(),
            record_blocks: raw.record_blocks.get(),
        };
        let made = raw.zero.get() == 0 && block.record_blocks > 0 && u64::from(block.record_blocks) <= block.capacity;
        made.then_some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_comes_back_and_others_are_refused() {
        let block =
            Superblock { zone_size: 65_536, capacity: 65_535, zone_count: 100, metazones: 7, record_blocks: 256 };
        let bytes = block.encode();
        assert_eq!(bytes.len(), 32);
        assert_eq!(Superblock::decode(&bytes), Some(block));
        for cut in 0..bytes.len() {
            assert_eq!(Superblock::decode(&bytes[..cut]), None);
        }
        for (at, value) in [(28, 1), (27, 1)] {
            let mut other = bytes.clone();
            other[at] = value;
            assert_eq!(Superblock::decode(&other), None, "byte {at} is {value}");
        }
    }
}
