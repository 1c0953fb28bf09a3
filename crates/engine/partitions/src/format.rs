//! Bytes of a partition table: the superblock's part, and the table as journal entries and checkpoints have it. See
//! `docs/formats/partitions.md`.

use std::ops::Range;

use shingle_runtime::UnixTime;
use shingle_zoned::Share;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::partition::{NAME_MAX, PARTITIONS_MAX, Partition, is_name};

/// The number by which a superblock says that the drive is partitioned.
pub const ENGINE: u32 = 0x5452_4150; // "PART"

/// The version of everything in this module.
pub(crate) const VERSION: u32 = 1;

/// The kind that heads of the table's zones carry.
pub(crate) const META_ZONE_KIND: u16 = 0x0600;

/// No limit of its own.
const NO_SHARE: u32 = u32::MAX;

/// The superblock's part: the shape of the drive, and the zones of the table.
///
/// | at | size | field        | meaning                                             |
/// |---:|-----:|--------------|-----------------------------------------------------|
/// |  0 |    8 | `zone_size`  | blocks from the start of a zone to that of the next |
/// |  8 |    8 | `capacity`   | blocks that can be written in a zone                |
/// | 16 |    4 | `zone_count` | zones of the drive                                  |
/// | 20 |    4 | `metazones`  | zones of the table, behind that of the superblock   |
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    zone_size: U64,
    capacity: U64,
    zone_count: U32,
    metazones: U32,
}

const _: () = assert!(size_of::<RawSuperblock>() == 24);

/// Shape of the drive when it was partitioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) zone_size: u64,
    pub(crate) capacity: u64,
    pub(crate) zone_count: u32,
    pub(crate) metazones: u32,
}

impl Superblock {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let raw = RawSuperblock {
            zone_size: U64::new(self.zone_size),
            capacity: U64::new(self.capacity),
            zone_count: U32::new(self.zone_count),
            metazones: U32::new(self.metazones),
        };
        raw.as_bytes().to_vec()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let raw = RawSuperblock::read_from_bytes(bytes).ok()?;
        Some(Self {
            zone_size: raw.zone_size.get(),
            capacity: raw.capacity.get(),
            zone_count: raw.zone_count.get(),
            metazones: raw.metazones.get(),
        })
    }
}

/// A partition in the table. The table is these, one after the other, in the order of their zones.
///
/// | at | size | field    | meaning                                                       |
/// |---:|-----:|----------|---------------------------------------------------------------|
/// |  0 |    4 | `first`  | its first zone                                                |
/// |  4 |    4 | `zones`  | the number of its zones                                       |
/// |  8 |    4 | `open`   | zones that it may have open; all ones: as many as the drive   |
/// | 12 |    4 | `active` | zones that it may have active; all ones: as many as the drive |
/// | 16 |    8 | `made`   | when it was made, in ns since 1970                            |
/// | 24 |    1 | `length` | bytes of its name                                             |
/// | 25 |   39 | `name`   | its name, then zeros                                          |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPartition {
    first: U32,
    zones: U32,
    open: U32,
    active: U32,
    made: U64,
    length: u8,
    name: [u8; 39],
}

const _: () = assert!(NAME_MAX == 39);
const ENTRY_BYTES: usize = 64;
const _: () = assert!(size_of::<RawPartition>() == ENTRY_BYTES);

pub(crate) fn encode(partitions: &[Partition]) -> Vec<u8> {
    let raw = |partition: &Partition| {
        let mut name = [0; NAME_MAX];
        let length = partition.name.len().min(NAME_MAX);
        name[..length].copy_from_slice(&partition.name.as_bytes()[..length]);
        RawPartition {
            first: U32::new(partition.zones.start),
            zones: U32::new(partition.zones.end - partition.zones.start),
            open: U32::new(partition.share.open_zones_max.unwrap_or(NO_SHARE)),
            active: U32::new(partition.share.active_zones_max.unwrap_or(NO_SHARE)),
            made: U64::new(partition.made.nanos),
            length: length as u8,
            name,
        }
    };
    partitions.iter().flat_map(|partition| raw(partition).as_bytes().to_vec()).collect()
}

/// The table of a drive whose zones for partitions are `data`. `None` for bytes that no table has.
pub(crate) fn decode(bytes: &[u8], data: &Range<u32>) -> Option<Vec<Partition>> {
    if !bytes.len().is_multiple_of(ENTRY_BYTES) || bytes.len() / ENTRY_BYTES > PARTITIONS_MAX {
        return None;
    }
    let found: Option<Vec<Partition>> = bytes.chunks_exact(ENTRY_BYTES).map(entry).collect();
    let found = found?;
    let mut from = data.start;
    for (at, partition) in found.iter().enumerate() {
        let again = found[..at].iter().any(|other| other.name == partition.name);
        if again || partition.zones.start < from || partition.zones.is_empty() || partition.zones.end > data.end {
            return None;
        }
        from = partition.zones.end;
    }
    Some(found)
}

fn entry(bytes: &[u8]) -> Option<Partition> {
    let raw = RawPartition::read_from_bytes(bytes).ok()?;
    let (name, rest) = raw.name.split_at_checked(usize::from(raw.length))?;
    let name = std::str::from_utf8(name).ok().filter(|name| is_name(name))?;
    let share = |number: U32| (number.get() != NO_SHARE).then_some(number.get());
    let (first, share) =
        (raw.first.get(), Share { open_zones_max: share(raw.open), active_zones_max: share(raw.active) });
    rest.iter().all(|&byte| byte == 0).then_some(())?;
    Some(Partition {
        name: name.to_owned(),
        zones: first..first.checked_add(raw.zones.get())?,
        share,
        made: UnixTime { nanos: raw.made.get() },
    })
}

/// True if bytes are the superblock's part: for fuzzing, never panics.
pub fn parse_superblock(bytes: &[u8]) -> bool {
    Superblock::decode(bytes).is_some_and(|block| block.encode() == bytes)
}

/// True if bytes are a table: for fuzzing, never panics.
pub fn parse_table(bytes: &[u8]) -> bool {
    decode(bytes, &(0..u32::MAX)).is_some_and(|table| encode(&table) == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(name: &str, zones: Range<u32>) -> Partition {
        let share = Share { open_zones_max: Some(5), active_zones_max: None };
        Partition { name: name.to_owned(), zones, share, made: UnixTime { nanos: 7 } }
    }

    /// PT-TABLE-2.
    #[test]
    fn a_table_comes_back_and_others_are_refused() {
        let table = [partition("store", 5..9), partition("vm-1", 9..10)];
        let bytes = encode(&table);
        assert_eq!(bytes.len(), 128);
        assert_eq!(decode(&bytes, &(5..10)).as_deref(), Some(&table[..]));
        assert_eq!(decode(&[], &(5..10)), Some(Vec::new()));
        for data in [6..10, 5..9] {
            assert_eq!(decode(&bytes, &data), None, "outside of {data:?}");
        }
        for cut in (1..bytes.len()).filter(|cut| cut % 64 != 0) {
            assert_eq!(decode(&bytes[..cut], &(5..10)), None, "{cut} bytes");
        }
        let wrong = [
            [partition("store", 5..9), partition("store", 9..10)],
            [partition("store", 5..9), partition("vm-1", 8..10)],
            [partition("store", 5..5), partition("vm-1", 9..10)],
            [partition("-", 5..9), partition("vm-1", 9..10)],
        ];
        for table in wrong {
            assert_eq!(decode(&encode(&table), &(5..10)), None, "{table:?}");
        }
    }

    #[test]
    fn a_superblock_comes_back() {
        let block = Superblock { zone_size: 65_536, capacity: 65_000, zone_count: 9, metazones: 4 };
        assert_eq!(Superblock::decode(&block.encode()), Some(block));
        assert_eq!(Superblock::decode(&block.encode()[1..]), None);
    }
}
