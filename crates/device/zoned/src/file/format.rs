//! The bytes of a drive's file outside its zones: header and zone table. See `docs/formats/file-device.md`.
//!
//! **Owns** the layout. **Knows nothing of** files.

use std::mem::{offset_of, size_of};

use shingle_base::{BLOCK_SIZE, Blocks, Crc, ZoneId, crc32c};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::geometry::Geometry;
use crate::zone::ZoneState;

/// The first bytes of every drive's file.
pub(crate) const MAGIC: [u8; 8] = *b"SHINGLEZ";
/// The version this code writes, and the only one it reads.
pub(crate) const VERSION: u32 = 1;
/// Byte at which the zone table begins: behind the header's block.
pub(crate) const TABLE_AT: u64 = BLOCK_SIZE as u64;
/// Bytes of an entry of the zone table.
pub(crate) const ENTRY_SIZE: usize = size_of::<RawEntry>();

/// The header, at byte 0 of the file, written once. Little-endian.
///
/// | at | size | field                | meaning                                                    |
/// |---:|-----:|----------------------|------------------------------------------------------------|
/// |  0 |    8 | `magic`              | `SHINGLEZ`                                                 |
/// |  8 |    4 | `version`            | 1; a reader refuses what it does not know                  |
/// | 12 |    4 | `zone_count`         | number of zones, conventional ones included                |
/// | 16 |    8 | `zone_size`          | blocks from one zone to the next                           |
/// | 24 |    8 | `zone_capacity`      | blocks that can be written in a sequential zone            |
/// | 32 |    8 | `append_max`         | longest zone append, in blocks; 0: no limit                |
/// | 40 |    8 | `data_at`            | byte of the file where slot 0 begins                       |
/// | 48 |    4 | `conventional_zones` | number of conventional zones, the first of the drive       |
/// | 52 |    4 | `open_zones_max`     | limit on open zones; 0: none                               |
/// | 56 |    4 | `active_zones_max`   | limit on active zones; 0: none                             |
/// | 60 |    4 | `crc`                | CRC-32C of bytes 0..60                                     |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    version: U32,
    zone_count: U32,
    zone_size: U64,
    zone_capacity: U64,
    append_max: U64,
    data_at: U64,
    conventional_zones: U32,
    open_zones_max: U32,
    active_zones_max: U32,
    crc: U32,
}

const HEADER_CRC_AT: usize = offset_of!(RawHeader, crc);
const _: () = {
    assert!(size_of::<RawHeader>() == 64);
    assert!(offset_of!(RawHeader, zone_size) == 16);
    assert!(offset_of!(RawHeader, data_at) == 40);
    assert!(HEADER_CRC_AT == 60);
};

/// One zone's entry of the zone table, at byte 4096 + 16 × zone. Little-endian.
///
/// | at | size | field     | meaning                                                                |
/// |---:|-----:|-----------|------------------------------------------------------------------------|
/// |  0 |    4 | `written` | blocks written; the capacity in a full zone, 0 in a conventional one   |
/// |  4 |    4 | `slot`    | 1 + the slot that holds the zone's bytes; 0: none, it reads as zeros   |
/// |  8 |    1 | `state`   | the zone condition's number in ZBC                                     |
/// |  9 |    3 | `zero`    | zero                                                                   |
/// | 12 |    4 | `crc`     | CRC-32C of the zone's number (4 bytes) and bytes 0..12                 |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    written: U32,
    slot: U32,
    state: u8,
    zero: [u8; 3],
    crc: U32,
}

const ENTRY_CRC_AT: usize = offset_of!(RawEntry, crc);
const _: () = {
    assert!(size_of::<RawEntry>() == 16);
    assert!(BLOCK_SIZE.is_multiple_of(size_of::<RawEntry>()));
    assert!(offset_of!(RawEntry, slot) == 4);
    assert!(offset_of!(RawEntry, state) == 8);
    assert!(ENTRY_CRC_AT == 12);
};

/// Contents of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) geometry: Geometry,
    pub(crate) data_at: u64,
}

/// Reason why bytes are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    NotADrive,
    NewerVersion(u32),
    CutShort,
    Corrupt,
}

/// Contents of a zone's entry in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) state: ZoneState,
    pub(crate) written: u32,
    pub(crate) slot: Option<u32>,
}

impl Header {
    /// The header of a drive of this shape.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let table = u64::from(geometry.zone_count) * ENTRY_SIZE as u64;
        let geometry = Geometry { volatile_cache: true, keeps_payload: true, revolution: None, ..geometry.clone() };
        Self { geometry, data_at: TABLE_AT + Blocks::holding(table).bytes() }
    }

    pub(crate) fn to_bytes(&self) -> [u8; size_of::<RawHeader>()] {
        let geometry = &self.geometry;
        let mut raw = RawHeader {
            magic: MAGIC,
            version: VERSION.into(),
            zone_count: geometry.zone_count.into(),
            zone_size: geometry.zone_size.0.into(),
            zone_capacity: geometry.zone_capacity.0.into(),
            append_max: geometry.append_max.map_or(0, |limit| limit.0).into(),
            data_at: self.data_at.into(),
            conventional_zones: geometry.conventional_zones.into(),
            open_zones_max: geometry.open_zones_max.unwrap_or(0).into(),
            active_zones_max: geometry.active_zones_max.unwrap_or(0).into(),
            crc: 0.into(),
        };
        raw.crc = crc32c(&raw.as_bytes()[..HEADER_CRC_AT]).into();
        zerocopy::transmute!(raw)
    }

    /// Reads the first bytes of a file, of which there may be too few.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, BadHeader> {
        // The version comes first: a newer one may have another layout and check behind it.
        let Some(version) = bytes.strip_prefix(&MAGIC) else { return Err(BadHeader::NotADrive) };
        let Ok((version, _)) = U32::read_from_prefix(version) else { return Err(BadHeader::CutShort) };
        if version.get() > VERSION {
            return Err(BadHeader::NewerVersion(version.get()));
        }
        let Ok((raw, _)) = RawHeader::read_from_prefix(bytes) else { return Err(BadHeader::CutShort) };
        if raw.crc.get() != crc32c(&raw.as_bytes()[..HEADER_CRC_AT]) || version.get() != VERSION {
            return Err(BadHeader::Corrupt);
        }
        let limit = |raw: u32| (raw != 0).then_some(raw);
        let geometry = Geometry {
            zone_size: Blocks(raw.zone_size.get()),
            zone_capacity: Blocks(raw.zone_capacity.get()),
            zone_count: raw.zone_count.get(),
            conventional_zones: raw.conventional_zones.get(),
            open_zones_max: limit(raw.open_zones_max.get()),
            active_zones_max: limit(raw.active_zones_max.get()),
            append_max: Some(Blocks(raw.append_max.get())).filter(|&limit| limit != Blocks::ZERO),
            volatile_cache: true,
            keeps_payload: true,
            revolution: None,
        };
        let header = Self::new(&geometry);
        if geometry.validate().is_err() || raw.data_at.get() != header.data_at {
            return Err(BadHeader::Corrupt);
        }
        Ok(header)
    }
}

impl Entry {
    pub(crate) fn to_bytes(self, zone: ZoneId) -> [u8; ENTRY_SIZE] {
        let mut raw = RawEntry {
            written: self.written.into(),
            slot: self.slot.map_or(0, |slot| slot + 1).into(),
            state: self.state.code(),
            zero: [0; 3],
            crc: 0.into(),
        };
        raw.crc = entry_crc(zone, &raw).into();
        zerocopy::transmute!(raw)
    }

    /// Reads the entry of `zone`; `None` if it fails its check.
    pub(crate) fn parse(bytes: &[u8], zone: ZoneId) -> Option<Self> {
        let raw = RawEntry::read_from_bytes(bytes).ok()?;
        if raw.crc.get() != entry_crc(zone, &raw) || raw.zero != [0; 3] {
            return None;
        }
        let state = ZoneState::from_code(raw.state)?;
        Some(Self { state, written: raw.written.get(), slot: raw.slot.get().checked_sub(1) })
    }
}

fn entry_crc(zone: ZoneId, raw: &RawEntry) -> u32 {
    Crc::new().update(&zone.0.to_le_bytes()).update(&raw.as_bytes()[..ENTRY_CRC_AT]).value()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        let mut geometry = Geometry::zns(Blocks(64), Blocks(48), 5, 2, 3);
        geometry.append_max = Some(Blocks(16));
        geometry
    }

    /// The format of version 1, byte for byte: never edit these, add a version.
    #[test]
    fn version_one_has_these_bytes() {
        let mut header = Vec::new();
        header.extend(b"SHINGLEZ");
        header.extend([1, 0, 0, 0, 5, 0, 0, 0]);
        header.extend([64, 0, 0, 0, 0, 0, 0, 0, 48, 0, 0, 0, 0, 0, 0, 0]);
        header.extend([16, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0]);
        header.extend([0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
        header.extend(GOLDEN_HEADER_CRC);
        assert_eq!(Header::new(&geometry()).to_bytes(), header[..]);
        let entry = Entry { state: ZoneState::Closed, written: 7, slot: Some(2) };
        let bytes = [[7, 0, 0, 0], [3, 0, 0, 0], [4, 0, 0, 0], GOLDEN_ENTRY_CRC].concat();
        assert_eq!(entry.to_bytes(ZoneId(3)), bytes[..]);
    }

    const GOLDEN_HEADER_CRC: [u8; 4] = [36, 206, 51, 19];
    const GOLDEN_ENTRY_CRC: [u8; 4] = [19, 96, 187, 103];

    #[test]
    fn what_is_written_is_read() {
        let header = Header::new(&geometry());
        assert_eq!(Header::parse(&header.to_bytes()), Ok(header));
        for slot in [None, Some(0), Some(7)] {
            let entry = Entry { state: ZoneState::ExplicitOpen, written: 9, slot };
            assert_eq!(Entry::parse(&entry.to_bytes(ZoneId(4)), ZoneId(4)), Some(entry));
            assert_eq!(Entry::parse(&entry.to_bytes(ZoneId(4)), ZoneId(5)), None, "another zone's entry");
        }
    }

    #[test]
    fn no_flipped_bit_and_no_cut_goes_unseen() {
        let header = Header::new(&geometry()).to_bytes();
        for bit in 0..header.len() * 8 {
            let mut bad = header;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&bad).is_err(), "bit {bit}");
        }
        for length in 0..header.len() {
            assert!(Header::parse(&header[..length]).is_err(), "length {length}");
        }
        let entry = Entry { state: ZoneState::Full, written: 48, slot: Some(1) }.to_bytes(ZoneId(0));
        for bit in 0..entry.len() * 8 {
            let mut bad = entry;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Entry::parse(&bad, ZoneId(0)), None, "bit {bit}");
        }
        assert_eq!(Entry::parse(&[0; ENTRY_SIZE], ZoneId(0)), None, "zeros are no entry");
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut header = Header::new(&geometry()).to_bytes();
        header[8] = 2;
        assert_eq!(Header::parse(&header), Err(BadHeader::NewerVersion(2)));
        assert_eq!(Header::parse(&header[..12]), Err(BadHeader::NewerVersion(2)));
        assert_eq!(Header::parse(b"ELF"), Err(BadHeader::NotADrive));
    }
}
