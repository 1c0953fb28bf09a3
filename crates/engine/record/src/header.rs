//! The header of every record.
//!
//! # Invariants
//! - RC-FRAME-1: a header is believed only if its own checksum holds; a payload only if the header's checksum of it does.
//! - RC-FRAME-2: a header names its place (store, zone, block) and the generation of its zone, so that bytes of another
//!   store, place or generation are recognised as such.

use std::fmt;
use std::mem::{offset_of, size_of};

use shingle_base::wire::COUNTER_END;
use shingle_base::{StoreId, ZoneId, crc32c};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a header.
pub const HEADER_SIZE: usize = 96;

/// Bytes of a header that a record's type defines.
pub const INFO_SIZE: usize = 32;

/// The first six bytes of a record; two digits of version follow.
pub(crate) const MAGIC: [u8; 6] = *b"SHGREC";

/// The format's version, as digits.
const VERSION: [u8; 2] = *b"01";

/// The payload is sliced (see `slices`), and the header's payload checksum is that of the slice footers.
const FLAG_SLICED: u16 = 2;

/// The record is a pair (see `pair`), and the header's payload checksum is that of the names.
const FLAG_PAIRED: u16 = 4;

/// The type of a record. Each engine has a range of its own; 0 to 255 belong to this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordType(pub u16);

/// A record's header. Little-endian. See `docs/formats/record.md`.
///
/// | at | size | field         | meaning                                                      |
/// |---:|-----:|---------------|--------------------------------------------------------------|
/// |  0 |    8 | `magic`       | `SHGREC01`; the digits are the format version                 |
/// |  8 |    2 | `kind`        | record type                                                  |
/// | 10 |    2 | `flags`       | bit 1: sliced payload; bit 2: pair; bit 0 was, before any release |
/// | 12 |    4 | `length`      | bytes of payload as its writer gave it, without slices' checks |
/// | 16 |    8 | `store`       | store id: catches a drive moved from another store (RC-FRAME-2)  |
/// | 24 |    8 | `epoch`       | the zone's generation (RC-FRAME-2)                              |
/// | 32 |    8 | `sequence`    | rises from record to record                                  |
/// | 40 |    4 | `zone`        | own zone (RC-FRAME-2)                                           |
/// | 44 |    4 | `block`       | own block in the zone (RC-FRAME-2)                              |
/// | 48 |   32 | `info`        | defined by the type                                          |
/// | 80 |    4 | `payload_crc` | CRC-32C of the payload, of its slice footers, or of a pair's names (RC-FRAME-1) |
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
pub struct RecordPlace {
    /// The store it belongs to.
    pub store: StoreId,
    /// Generation of its zone: the sequence number of the zone's head.
    pub epoch: u64,
    /// Its zone.
    pub zone: ZoneId,
    /// Its first block, from the zone's start.
    pub block: u32,
}

/// Form of a record behind its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A payload with one checksum.
    Plain,
    /// A payload in slices, each with a footer.
    Sliced,
    /// Names, a payload in slices, each with a check, and a trailer that says what the header says.
    Paired,
}

/// A header that was read and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The record's type.
    pub kind: RecordType,
    /// The record's form.
    pub form: Form,
    /// Bytes of payload, without slices' footers or checks.
    pub length: u32,
    /// Place of the record.
    pub place: RecordPlace,
    /// Its sequence number.
    pub sequence: u64,
    /// Bytes defined by the record's type.
    pub info: [u8; INFO_SIZE],
    /// The checksum of the payload, of its slice footers, or of a pair's names.
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
    pub fn place(place: &RecordPlace) -> Self {
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
        // No store counts as far, and one that went on from there would come to an end.
        if raw.epoch.get() >= COUNTER_END || raw.sequence.get() >= COUNTER_END {
            return Err(FrameError::BadHeader);
        }
        let place = RecordPlace {
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
            form: match raw.flags.get() {
                flags if flags & FLAG_PAIRED != 0 => Form::Paired,
                flags if flags & FLAG_SLICED != 0 => Form::Sliced,
                _ => Form::Plain,
            },
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
            flags: U16::new(match self.form {
                Form::Plain => 0,
                Form::Sliced => FLAG_SLICED,
                Form::Paired => FLAG_PAIRED,
            }),
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
}
