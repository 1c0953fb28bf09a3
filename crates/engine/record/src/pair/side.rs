//! A pair's header and trailer: each tells all there is to know of the pair.

use std::mem::size_of;

use shingle_base::wire::COUNTER_END;
use shingle_base::{BLOCK_SIZE, ZoneId, crc32c};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::names::{self, Name, Numbering};
use super::{PAIR_SLICES_MAX, SIDE_SIZE, pair_blocks};
use crate::header::{Expect, Form, FrameError, HEADER_SIZE, Header, INFO_SIZE, RecordPlace, RecordType};
use crate::slices::SLICE_SIZE;

/// Sectors have 2^9 to 2^12 bytes.
const SECTOR_SHIFTS: std::ops::RangeInclusive<u8> = 9..=12;

/// Number of no zone.
const NO_ZONE: u32 = u32::MAX;

/// The zone in which the records behind a pair are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextZone {
    /// The zone.
    pub zone: ZoneId,
    /// Its generation.
    pub epoch: u64,
}

/// A side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Header,
    Trailer,
}

/// `info` of a header or trailer.
///
/// | at | size | field        | meaning                                                                            |
/// |---:|-----:|--------------|------------------------------------------------------------------------------------|
/// |  0 |    1 | `side`       | 0: header, 1: trailer                                                              |
/// |  1 |    1 | `shift`      | a sector has 2^`shift` bytes, 9 to 12                                              |
/// |  2 |    2 | `names`      | number of names                                                                    |
/// |  4 |    4 | `durable`    | the zone's blocks before this one were durable when the pair was written; 0: unknown |
/// |  8 |    4 | `start`      | the pair's first block                                                             |
/// | 12 |    4 | `next_zone`  | where records go on; all ones: behind this pair                                    |
/// | 16 |    8 | `next_epoch` | generation of that zone                                                            |
/// | 24 |    1 | `numbering`  | 0: consecutive, 1: own                                                             |
/// | 25 |    7 | `zero`       | zero                                                                               |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawInfo {
    side: u8,
    shift: u8,
    names: U16,
    durable: U32,
    start: U32,
    next_zone: U32,
    next_epoch: U64,
    numbering: u8,
    zero: [u8; 7],
}

const _: () = assert!(size_of::<RawInfo>() == INFO_SIZE);

/// Contents of a pair's header, and of its trailer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The record's type.
    pub kind: RecordType,
    /// Place of the pair.
    pub place: RecordPlace,
    /// Its sequence number, which is that of its first write where numbers are consecutive.
    pub sequence: u64,
    /// A sector has two to the power of this many bytes.
    pub sector_shift: u8,
    /// The zone's blocks before this one were durable when the pair was written; 0 = unknown.
    pub durable: u32,
    /// The zone in which records go on, if that is not behind this pair.
    pub next: Option<NextZone>,
    /// Numbers of its writes.
    pub numbering: Numbering,
    /// Names of its data, in the order of the data.
    pub names: Vec<Name>,
}

impl Pair {
    /// Bytes of its data.
    pub fn length(&self) -> u64 {
        names::data_bytes(&self.names, self.sector_shift)
    }

    /// Reads a header off a pair's first block.
    ///
    /// # Errors
    /// As [`Header::decode`]; `NotARecord` for a record of another form; `BadPayload` if its names fail their checks.
    pub fn from_front(block: &[u8], expect: &Expect) -> Result<Self, FrameError> {
        let header = Header::decode(block, expect)?;
        Self::of(block, &header, Side::Header)
    }

    /// Reads a trailer off a pair's last block; `expect.at` is that block's place.
    ///
    /// # Errors
    /// As [`from_front`](Self::from_front).
    pub fn from_back(block: &[u8], expect: &Expect) -> Result<Self, FrameError> {
        let back = block.get(BLOCK_SIZE - SIDE_SIZE..).ok_or(FrameError::NotARecord)?;
        let header = Header::decode(back, expect)?;
        let pair = Self::of(back, &header, Side::Trailer)?;
        let last = u64::from(pair.place.block) + pair_blocks(pair.length()).0 - 1;
        if last == u64::from(header.place.block) { Ok(pair) } else { Err(FrameError::BadPayload) }
    }

    fn of(bytes: &[u8], header: &Header, side: Side) -> Result<Self, FrameError> {
        let Some((pair, count, length)) = Self::decode_info(header, side) else { return Err(FrameError::NotARecord) };
        let names = bytes.get(HEADER_SIZE..).and_then(|bytes| names::bytes_of(bytes, count, pair.numbering));
        let names = names.filter(|names| crc32c(names) == header.payload_crc);
        let names = names.and_then(|names| names::decode(names, pair.numbering, header.sequence));
        let pair = Self { names: names.ok_or(FrameError::BadPayload)?, ..pair };
        // RC-PAIR-3
        let most = u64::from(PAIR_SLICES_MAX) * SLICE_SIZE as u64;
        if pair.length() == u64::from(length) && pair.length() <= most { Ok(pair) } else { Err(FrameError::BadPayload) }
    }

    /// All but the names; their number, and the bytes of data.
    fn decode_info(header: &Header, side: Side) -> Option<(Self, u16, u32)> {
        let info: RawInfo = zerocopy::transmute!(header.info);
        let numbering = match info.numbering {
            0 => Numbering::Consecutive,
            1 => Numbering::Own,
            _ => return None,
        };
        let (start, zone, epoch) = (info.start.get(), info.next_zone.get(), info.next_epoch.get());
        let is_its = header.form == Form::Paired && info.side == side as u8;
        let is_placed = side == Side::Trailer || start == header.place.block;
        let makes_sense = SECTOR_SHIFTS.contains(&info.shift) && epoch < COUNTER_END;
        let pair = Self {
            kind: header.kind,
            place: RecordPlace { block: start, ..header.place },
            sequence: header.sequence,
            sector_shift: info.shift,
            durable: info.durable.get(),
            next: (zone != NO_ZONE).then_some(NextZone { zone: ZoneId(zone), epoch }),
            numbering,
            names: Vec::new(),
        };
        (is_its && is_placed && makes_sense).then_some((pair, info.names.get(), header.length))
    }

    /// Bytes of a header or trailer, with the names' bytes.
    pub(super) fn encode(&self, side: Side, names: &[u8]) -> Vec<u8> {
        let next = self.next.unwrap_or(NextZone { zone: ZoneId(NO_ZONE), epoch: 0 });
        let info = RawInfo {
            side: side as u8,
            shift: self.sector_shift,
            names: U16::new(self.names.len() as u16),
            durable: U32::new(self.durable),
            start: U32::new(self.place.block),
            next_zone: U32::new(next.zone.0),
            next_epoch: U64::new(next.epoch),
            numbering: match self.numbering {
                Numbering::Consecutive => 0,
                Numbering::Own => 1,
            },
            zero: [0; 7],
        };
        let length = self.length();
        let block = match side {
            Side::Header => self.place.block,
            Side::Trailer => self.place.block + pair_blocks(length).0 as u32 - 1,
        };
        let header = Header {
            kind: self.kind,
            form: Form::Paired,
            length: length as u32,
            place: RecordPlace { block, ..self.place },
            sequence: self.sequence,
            info: zerocopy::transmute!(info),
            payload_crc: crc32c(names),
        };
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(names);
        bytes.resize(SIDE_SIZE, 0);
        bytes
    }
}
