//! The frame of every record: a header, a payload, zeros up to the next block.
//!
//! # Invariants
//! - RC-FRAME-1: a header is believed only if its own checksum holds; a payload only if the header's checksum of it does.
//! - RC-FRAME-2: a header names its place (store, zone, block) and the generation of its zone, so that bytes of another
//!   store, place or generation are recognised as such.

use std::fmt;
use std::mem::{offset_of, size_of};

use bytes::Bytes;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, StoreId, ZoneId, crc32c};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a header.
pub const HEADER_SIZE: usize = 96;

/// Bytes of a header that a record's type defines.
pub const INFO_SIZE: usize = 32;

/// The first six bytes of a record; two digits of version follow.
const MAGIC: [u8; 6] = *b"SHGREC";

/// The format's version, as digits.
const VERSION: [u8; 2] = *b"01";

/// The payload is sliced (see `slices`), and the header's payload checksum is that of the slice footers.
const FLAG_SLICED: u16 = 2;

/// The type of a record. Each engine has a range of its own; 0 to 255 belong to this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordType(pub u16);

/// A record's header. Little-endian. See `docs/formats/record.md`.
///
/// | at | size | field         | meaning                                                      |
/// |---:|-----:|---------------|--------------------------------------------------------------|
/// |  0 |    8 | `magic`       | `SHGREC01`; the digits are the format version                 |
/// |  8 |    2 | `kind`        | record type                                                  |
/// | 10 |    2 | `flags`       | bit 1: sliced payload; bit 0 was, before any release          |
/// | 12 |    4 | `length`      | bytes of payload as its writer gave it, without slice footers |
/// | 16 |    8 | `store`       | store id: catches a drive moved from another store (RC-FRAME-2)  |
/// | 24 |    8 | `epoch`       | the zone's generation (RC-FRAME-2)                              |
/// | 32 |    8 | `sequence`    | rises from record to record                                  |
/// | 40 |    4 | `zone`        | own zone (RC-FRAME-2)                                           |
/// | 44 |    4 | `block`       | own block in the zone (RC-FRAME-2)                              |
/// | 48 |   32 | `info`        | defined by the type                                          |
/// | 80 |    4 | `payload_crc` | CRC-32C of the payload, or of its slice footers (RC-FRAME-1)     |
/// | 84 |    8 | `reserved`    | zero                                                         |
/// | 92 |    4 | `crc`         | CRC-32C of bytes 0..92 (RC-FRAME-1)                             |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    kind: U16,
    flags: U16,
    length: U32,
    store: U64,
    epoch: U64,
    sequence: U64,
    zone: U32,
    block: U32,
    info: [u8; INFO_SIZE],
    payload_crc: U32,
    reserved: [u8; 8],
    crc: U32,
}

const _: () = {
    assert!(size_of::<RawHeader>() == HEADER_SIZE);
    assert!(offset_of!(RawHeader, length) == 12);
    assert!(offset_of!(RawHeader, epoch) == 24);
    assert!(offset_of!(RawHeader, zone) == 40);
    assert!(offset_of!(RawHeader, info) == 48);
    assert!(offset_of!(RawHeader, payload_crc) == 80);
    assert!(offset_of!(RawHeader, crc) == 92);
};

/// Place of a record, and generation of its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The store it belongs to.
    pub store: StoreId,
    /// Generation of its zone: the sequence number of the zone's head.
    pub epoch: u64,
    /// Its zone.
    pub zone: ZoneId,
    /// Its first block, from the zone's start.
    pub block: u32,
}

/// A header that was read and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The record's type.
    pub kind: RecordType,
    /// The payload is sliced.
    pub sliced: bool,
    /// Bytes of payload, without slice footers.
    pub length: u32,
    /// Place of the record.
    pub place: Place,
    /// Its sequence number.
    pub sequence: u64,
    /// Bytes defined by the record's type.
    pub info: [u8; INFO_SIZE],
    /// The checksum of the payload, or of its slice footers.
    pub payload_crc: u32,
}

/// Expected fields of a header; `None` is not checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expect {
    /// The store.
    pub store: Option<StoreId>,
    /// The zone's generation.
    pub epoch: Option<u64>,
    /// The zone and the block in it.
    pub at: Option<(ZoneId, u32)>,
}

impl Expect {
    /// Everything about a place.
    pub fn place(place: &Place) -> Self {
        Self { store: Some(place.store), epoch: Some(place.epoch), at: Some((place.zone, place.block)) }
    }
}

/// Reason why bytes are not the expected record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// No record begins here, or the bytes end too early.
    NotARecord,
    /// A record of a later version of the format, whose digits these are.
    NewerVersion([u8; 2]),
    /// The header's checksum does not hold.
    BadHeader,
    /// A record of another store.
    WrongStore(StoreId),
    /// A record that belongs elsewhere: a misdirected read or write.
    WrongPlace(ZoneId, u32),
    /// A record of another generation of the zone.
    WrongEpoch(u64),
    /// The payload's checksum does not hold.
    BadPayload,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARecord => f.write_str("no record begins here"),
            Self::NewerVersion([tens, ones]) => write!(
                f,
                "the record has format version {}{}; this version of Shingle reads 01",
                char::from(*tens),
                char::from(*ones)
            ),
            Self::BadHeader => f.write_str("the record's header fails its checksum"),
            Self::WrongStore(store) => write!(f, "the record belongs to store {store}"),
            Self::WrongPlace(zone, block) => write!(f, "the record belongs to {zone}, block {block}"),
            Self::WrongEpoch(epoch) => write!(f, "the record belongs to generation {epoch} of its zone"),
            Self::BadPayload => f.write_str("the record's payload fails its checksum"),
        }
    }
}

impl std::error::Error for FrameError {}

impl Header {
    /// Reads a header and checks it.
    ///
    /// # Errors
    /// The first expectation that does not hold.
    pub fn decode(bytes: &[u8], expect: &Expect) -> Result<Self, FrameError> {
        let (raw, _) = RawHeader::ref_from_prefix(bytes).map_err(|_| FrameError::NotARecord)?;
        let [m0, m1, m2, m3, m4, m5, v0, v1] = raw.magic;
        if [m0, m1, m2, m3, m4, m5] != MAGIC {
            return Err(FrameError::NotARecord);
        }
        if [v0, v1] != VERSION && v0.is_ascii_digit() && v1.is_ascii_digit() {
            return Err(FrameError::NewerVersion([v0, v1]));
        }
        if crc32c(&bytes[..offset_of!(RawHeader, crc)]) != raw.crc.get() {
            return Err(FrameError::BadHeader);
        }
        let place = Place {
            store: StoreId(raw.store.get()),
            epoch: raw.epoch.get(),
            zone: ZoneId(raw.zone.get()),
            block: raw.block.get(),
        };
        if expect.store.is_some_and(|store| store != place.store) {
            return Err(FrameError::WrongStore(place.store));
        }
        if expect.at.is_some_and(|at| at != (place.zone, place.block)) {
            return Err(FrameError::WrongPlace(place.zone, place.block));
        }
        if expect.epoch.is_some_and(|epoch| epoch != place.epoch) {
            return Err(FrameError::WrongEpoch(place.epoch));
        }
        Ok(Self {
            kind: RecordType(raw.kind.get()),
            sliced: raw.flags.get() & FLAG_SLICED != 0,
            length: raw.length.get(),
            place,
            sequence: raw.sequence.get(),
            info: raw.info,
            payload_crc: raw.payload_crc.get(),
        })
    }

    /// The header's bytes.
    pub(crate) fn encode(&self) -> [u8; HEADER_SIZE] {
        let [m0, m1, m2, m3, m4, m5] = MAGIC;
        let [v0, v1] = VERSION;
        let mut raw = RawHeader {
            magic: [m0, m1, m2, m3, m4, m5, v0, v1],
            kind: U16::new(self.kind.0),
            flags: U16::new(if self.sliced { FLAG_SLICED } else { 0 }),
            length: U32::new(self.length),
            store: U64::new(self.place.store.0),
            epoch: U64::new(self.place.epoch),
            sequence: U64::new(self.sequence),
            zone: U32::new(self.place.zone.0),
            block: U32::new(self.place.block),
            info: self.info,
            payload_crc: U32::new(self.payload_crc),
            reserved: [0; 8],
            crc: U32::new(0),
        };
        raw.crc = U32::new(crc32c(&raw.as_bytes()[..offset_of!(RawHeader, crc)]));
        let mut bytes = [0; HEADER_SIZE];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// Blocks of the whole record.
    pub fn blocks(&self) -> Blocks {
        let length = u64::from(self.length);
        if self.sliced { crate::slices::sliced_record_blocks(length) } else { record_blocks(length) }
    }

    /// Checks the payload of a whole record, header included in `record`.
    ///
    /// # Errors
    /// [`FrameError::BadPayload`]; [`FrameError::NotARecord`] if `record` is too short.
    pub fn verify_payload(&self, record: &[u8]) -> Result<(), FrameError> {
        if self.sliced {
            return crate::slices::verify_sliced(record, self);
        }
        let payload = record.get(HEADER_SIZE..HEADER_SIZE + self.length as usize).ok_or(FrameError::NotARecord)?;
        if crc32c(payload) == self.payload_crc { Ok(()) } else { Err(FrameError::BadPayload) }
    }
}

/// Blocks of a plain record with `length` bytes of payload.
pub fn record_blocks(length: u64) -> Blocks {
    Blocks::holding(HEADER_SIZE as u64 + length)
}

/// Frames a plain record; `payload` is its pieces, one after the other.
pub fn frame(kind: RecordType, place: &Place, sequence: u64, info: [u8; INFO_SIZE], payload: &[&[u8]]) -> Bytes {
    let length: usize = payload.iter().map(|piece| piece.len()).sum();
    let mut buffer = AlignedBuf::zeroed(record_blocks(length as u64));
    let mut at = HEADER_SIZE;
    for piece in payload {
        buffer[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    let payload_crc = crc32c(&buffer[HEADER_SIZE..at]);
    let header = Header { kind, sliced: false, length: length as u32, place: *place, sequence, info, payload_crc };
    buffer[..HEADER_SIZE].copy_from_slice(&header.encode());
    buffer.freeze()
}

/// Bytes of a written piece that a metadata-only device keeps: the header of a sliced record, none of a
/// [hollow](crate::frame_hollow) one's zeros, and all of anything else.
pub fn keep_metadata(piece: &[u8]) -> usize {
    if piece.starts_with(&[0; MAGIC.len()]) {
        return 0;
    }
    match Header::decode(piece, &Expect::default()) {
        Ok(header) if header.sliced => HEADER_SIZE,
        _ => piece.len(),
    }
}

/// As [`keep_metadata`], but keeps whole records that were framed with their payload: for stores whose data is hollow
/// while sliced records hold metadata, too.
pub fn keep_unless_hollow(piece: &[u8]) -> usize {
    // The header of a hollow record comes as a piece of its own.
    if piece.len() == BLOCK_SIZE || piece.starts_with(&[0; MAGIC.len()]) { keep_metadata(piece) } else { piece.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { store: StoreId(0x1122_3344_5566_7788), epoch: 9, zone: ZoneId(3), block: 5 };

    fn sample() -> Bytes {
        frame(RecordType(0x0102), &PLACE, 77, [0xAB; INFO_SIZE], &[b"pay", b"load"])
    }

    #[test]
    fn a_record_has_its_golden_bytes() {
        let record = sample();
        assert_eq!(record.len(), 4096);
        let hex: String = record[..HEADER_SIZE + 7].iter().map(|byte| format!("{byte:02x}")).collect();
        let golden = concat!(
            "5348475245433031",
            "0201",
            "0000",
            "07000000",
            "8877665544332211",
            "0900000000000000",
            "4d00000000000000",
            "03000000",
            "05000000",
            "abababababababababababababababababababababababababababababababab",
        );
        assert!(hex.starts_with(golden), "{hex}");
        assert!(hex.ends_with("7061796c6f6164"), "{hex}");
        assert!(record[HEADER_SIZE + 7..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_header_comes_back_and_every_expectation_is_checked() {
        let record = sample();
        let header = Header::decode(&record, &Expect::place(&PLACE)).unwrap();
        assert_eq!((header.kind, header.length, header.sequence), (RecordType(0x0102), 7, 77));
        assert_eq!(header.blocks(), Blocks(1));
        header.verify_payload(&record).unwrap();
        let wrong = |expect: Expect| Header::decode(&record, &expect).unwrap_err();
        assert_eq!(wrong(Expect { store: Some(StoreId(1)), ..Expect::default() }), FrameError::WrongStore(PLACE.store));
        assert_eq!(wrong(Expect { epoch: Some(8), ..Expect::default() }), FrameError::WrongEpoch(9));
        let elsewhere = Expect { at: Some((ZoneId(3), 6)), ..Expect::default() };
        assert_eq!(wrong(elsewhere), FrameError::WrongPlace(ZoneId(3), 5));
        let newer = [b"SHGREC02", &record[8..]].concat();
        assert_eq!(Header::decode(&newer, &Expect::default()), Err(FrameError::NewerVersion(*b"02")));
    }

    #[test]
    fn every_flipped_bit_of_header_and_payload_is_noticed() {
        let record = sample();
        for bit in 0..(HEADER_SIZE + 7) * 8 {
            let mut bytes = record.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let seen = Header::decode(&bytes, &Expect::default()).and_then(|header| header.verify_payload(&bytes));
            assert!(seen.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn short_input_is_no_record() {
        let record = sample();
        for length in 0..HEADER_SIZE {
            assert_eq!(Header::decode(&record[..length], &Expect::default()), Err(FrameError::NotARecord));
        }
    }
}
