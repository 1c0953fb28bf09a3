//! The store's part of the superblock.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::options::Metadata;

/// The store's part of the superblock.
///
/// | at | size | field        | meaning                                                     |
/// |---:|-----:|--------------|-------------------------------------------------------------|
/// |  0 |    8 | `zone_size`  | blocks from the start of a zone to that of the next         |
/// |  8 |    8 | `capacity`   | blocks that can be written in a zone                        |
/// | 16 |    4 | `zone_count` | zones of the drive                                          |
/// | 20 |    4 | `meta_zones` | zones of the metadata's files, behind the superzones        |
/// | 24 |    4 | `meta_open`  | zones that those may have open and active; zero = no limit  |
/// | 28 |    4 | `small`      | a write of fewer bytes is deferred                          |
/// | 32 |    4 | `metadata`   | 0 metadata in a log and in memory; 1 in RocksDB             |
///
/// Version 1 ends before `metadata`, which is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    zone_size: U64,
    capacity: U64,
    zone_count: U32,
    meta_zones: U32,
    meta_open: U32,
    small: U32,
    metadata: U32,
}

const _: () = assert!(size_of::<RawSuperblock>() == 36);

/// Bytes of version 1.
const VERSION_1: usize = 32;

/// Shape of the drive and of the store on it, fixed by the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) zone_size: u64,
    pub(crate) capacity: u64,
    pub(crate) zone_count: u32,
    pub(crate) meta_zones: u32,
    pub(crate) meta_open: u32,
    pub(crate) small: u32,
    pub(crate) metadata: Metadata,
}

impl Superblock {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let raw = RawSuperblock {
            zone_size: U64::new(self.zone_size),
            capacity: U64::new(self.capacity),
            zone_count: U32::new(self.zone_count),
            meta_zones: U32::new(self.meta_zones),
            meta_open: U32::new(self.meta_open),
            small: U32::new(self.small),
            metadata: U32::new(self.metadata as u32),
        };
        raw.as_bytes().to_vec()
    }

    /// `None` for bytes that no format writes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut of_version_1 = [0; size_of::<RawSuperblock>()];
        let bytes = if bytes.len() == VERSION_1 {
            of_version_1[..VERSION_1].copy_from_slice(bytes);
            &of_version_1
        } else {
            bytes
        };
        let raw = RawSuperblock::read_from_bytes(bytes).ok()?;
        let metadata = match raw.metadata.get() {
            0 => Metadata::Log,
            1 => Metadata::RocksDb,
            _ => return None,
        };
        let block = Self {
            zone_size: raw.zone_size.get(),
            capacity: raw.capacity.get(),
            zone_count: raw.zone_count.get(),
            meta_zones: raw.meta_zones.get(),
            meta_open: raw.meta_open.get(),
            small: raw.small.get(),
            metadata,
        };
        (block.meta_zones > 0 && block.capacity > 0 && block.small <= 1 << 20).then_some(block)
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
            meta_zones: 20,
            meta_open: 6,
            small: 65_536,
            metadata: Metadata::RocksDb,
        };
        let mut bytes = block.encode();
        assert_eq!((bytes.len(), bytes[20], bytes[32], Superblock::decode(&bytes)), (36, 20, 1, Some(block)));
        for cut in (0..bytes.len()).filter(|cut| *cut != VERSION_1) {
            assert_eq!(Superblock::decode(&bytes[..cut]), None);
        }
        let in_a_log = Superblock { metadata: Metadata::Log, ..block };
        assert_eq!(Superblock::decode(&bytes[..VERSION_1]), Some(in_a_log));
        bytes[32] = 2;
        assert_eq!(Superblock::decode(&bytes), None);
        assert_eq!(Superblock::decode(&[0; 36]), None);
    }
}
