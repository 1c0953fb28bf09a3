//! Bytes of the files' metadata: superblock, and operations in journal entries and checkpoints. See `docs/formats/zone-files.md`.
//!
//! All numbers are little-endian or of variable length. Everything here was framed and checked by crate `record` already; a value that
//! makes no sense all the same is an error, never a panic.

mod op;
mod superblock;

use shingle_base::ChunkId;
use shingle_record::RecordType;

pub(crate) use op::{NAME_MAX, Op, decode, encode};
pub(crate) use superblock::Superblock;

/// The number by which a superblock says that files are on the drive.
pub const ENGINE: u32 = 0x4C49_465A; // "ZFIL"

/// The version of everything in this module.
pub(crate) const VERSION: u32 = 2;

/// Versions that are read, and written on as they are. 1 has one zone of superblocks.
pub(crate) const VERSIONS: std::ops::RangeInclusive<u32> = 1..=VERSION;

/// Zones of superblocks in a version.
pub(crate) fn superzones(version: u32) -> u32 {
    if version < 2 { 1 } else { 2 }
}

/// The type of data records.
pub(crate) const DATA: RecordType = RecordType(0x0501);

/// The kind that heads of metazones carry.
pub(crate) const META_ZONE_KIND: u16 = 0x05FF;

/// The owner of a record's slices: a file, the generation of the zone, and the upper half of the record's offset in the file.
///
/// | at | size | field        | meaning                                    |
/// |---:|-----:|--------------|--------------------------------------------|
/// |  0 |    8 | `serial`     | number of the file                         |
/// |  8 |    8 | `epoch`      | generation of the zone                     |
/// | 16 |    8 | `high`       | offset in the file, divided by 2^32        |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) serial: u64,
    pub(crate) epoch: u64,
    pub(crate) high: u64,
}

impl Owner {
    /// The owner of a record at byte `offset` of a file.
    pub(crate) fn at(serial: u64, epoch: u64, offset: u64) -> Self {
        Self { serial, epoch, high: offset >> 32 }
    }

    pub(crate) fn encode(self) -> ChunkId {
        let mut id = [0; 24];
        id[..8].copy_from_slice(&self.serial.to_le_bytes());
        id[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        id[16..].copy_from_slice(&self.high.to_le_bytes());
        ChunkId(id)
    }

    pub(crate) fn decode(id: &ChunkId) -> Self {
        let word = |at: usize| {
            let bytes = id.0.get(at..).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        Self { serial: word(0), epoch: word(8), high: word(16) }
    }
}

#[cfg(test)]
mod tests {
    use super::Owner;

    #[test]
    fn an_owner_comes_back() {
        let owner = Owner::at(7, 9, (3 << 32) + 5);
        assert_eq!(Owner::decode(&owner.encode()), Owner { serial: 7, epoch: 9, high: 3 });
        assert_eq!(owner.encode().0[..9], [7, 0, 0, 0, 0, 0, 0, 0, 9]);
    }
}
