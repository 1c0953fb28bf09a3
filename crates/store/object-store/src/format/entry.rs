//! Entries: what object files are made of.
//!
//! An entry is a header, a head (its [`Body`]) and, for objects and segments, data. It is appended to a chunk in one
//! piece, so it is there whole or not at all.
//!
//! # Invariants
//! - OS-ENT-1: an entry read from a place was written for that place: its header names the set, file, chunk and offset.
//! - OS-ENT-2: a changed byte of header or head is noticed here. Data is checked by the chunk store, slice by slice, on every
//!   read; a second checksum would cost a pass over all payload and catch nothing the slices miss.

use bytes::Bytes;
use shingle_base::crc32c;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::Body;
use crate::records::Location;
use crate::wire::Malformed;

/// `SHOE`: every entry begins with it.
pub(crate) const MAGIC: [u8; 4] = *b"SHOE";
const VERSION: u8 = 1;

/// Bytes in a header.
pub const HEADER_SIZE: usize = 56;
/// The longest head: the manifest of 10,000 parts fits in twenty times over.
pub const HEAD_SIZE_MAX: usize = 8 << 20;

/// Header of an entry. Little-endian.
///
/// | at | size | field      | meaning                                                        |
/// |---:|-----:|------------|----------------------------------------------------------------|
/// |  0 |    4 | `magic`    | `SHOE`                                                         |
/// |  4 |    1 | `format`   | format version, 1                                              |
/// |  5 |    1 | `kind`     | what the head says; see [`Body`]                               |
/// |  6 |    2 | `reserved` | zero                                                           |
/// |  8 |    8 | `version`  | rises with every change of the store; a segment's blob         |
/// | 16 |    8 | `file`     | own file number (OS-ENT-1)                                        |
/// | 24 |    4 | `ordinal`  | own chunk in the file (OS-ENT-1)                                  |
/// | 28 |    4 | `set`      | own store set (OS-ENT-1)                                          |
/// | 32 |    8 | `offset`   | own offset in the chunk (OS-ENT-1)                                |
/// | 40 |    4 | `head`     | bytes of head                                                  |
/// | 44 |    4 | `data`     | bytes of data after the head                                   |
/// | 48 |    4 | `head_crc` | CRC-32C of the head                                            |
/// | 52 |    4 | `crc`      | CRC-32C of bytes 0..52                                         |
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[expect(missing_docs, reason = "the table describes the fields")]
pub struct EntryHeader {
    pub magic: [u8; 4],
    pub format: u8,
    pub kind: u8,
    pub reserved: [u8; 2],
    pub version: U64,
    pub file: U64,
    pub ordinal: U32,
    pub set: U32,
    pub offset: U64,
    pub head: U32,
    pub data: U32,
    pub head_crc: U32,
    pub crc: U32,
}

const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<EntryHeader>() == HEADER_SIZE);
    assert!(offset_of!(EntryHeader, version) == 8);
    assert!(offset_of!(EntryHeader, file) == 16);
    assert!(offset_of!(EntryHeader, ordinal) == 24);
    assert!(offset_of!(EntryHeader, offset) == 32);
    assert!(offset_of!(EntryHeader, head) == 40);
    assert!(offset_of!(EntryHeader, head_crc) == 48);
    assert!(offset_of!(EntryHeader, crc) == 52);
};

/// Place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryPlace {
    /// The store set.
    pub set: u32,
    /// The file.
    pub file: u64,
    /// The chunk in the file.
    pub ordinal: u32,
    /// The offset in the chunk.
    pub offset: u64,
}

/// A header that passed its checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its kind.
    pub kind: u8,
    /// Its version.
    pub version: u64,
    /// Bytes of head.
    pub head: u32,
    /// Bytes of data.
    pub data: u32,
    head_crc: u32,
}

impl Header {
    /// Bytes of the whole entry.
    pub fn length(&self) -> u64 {
        HEADER_SIZE as u64 + u64::from(self.head) + u64::from(self.data)
    }

    /// Reads the header at the front of `bytes`, which lie at `place`.
    ///
    /// # Errors
    /// `Malformed` if it is no header of this version, fails its checksum, or was written for another place (OS-ENT-1).
    pub fn decode(bytes: &[u8], place: EntryPlace) -> Result<Self, Malformed> {
        let (raw, _) = EntryHeader::ref_from_prefix(bytes).map_err(|_| Malformed("entry header: cut short"))?;
        if raw.magic != MAGIC {
            return Err(Malformed("entry header: magic"));
        }
        if raw.crc.get() != crc32c(&raw.as_bytes()[..HEADER_SIZE - 4]) {
            return Err(Malformed("entry header: checksum"));
        }
        if raw.format != VERSION {
            return Err(Malformed("entry header: a format version this program does not know"));
        }
        let written = EntryPlace {
            set: raw.set.get(),
            file: raw.file.get(),
            ordinal: raw.ordinal.get(),
            offset: raw.offset.get(),
        };
        if written != place {
            return Err(Malformed("entry header: written for another place"));
        }
        let header = Self {
            kind: raw.kind,
            version: raw.version.get(),
            head: raw.head.get(),
            data: raw.data.get(),
            head_crc: raw.head_crc.get(),
        };
        if header.head as usize > HEAD_SIZE_MAX || (header.data > 0 && !Body::carries_data(header.kind)) {
            return Err(Malformed("entry header: lengths"));
        }
        Ok(header)
    }

    /// Reads the head that followed this header.
    ///
    /// # Errors
    /// `Malformed` if it fails its checksum or does not say what its kind says.
    pub fn decode_head(&self, head: &[u8]) -> Result<Body, Malformed> {
        if head.len() != self.head as usize || crc32c(head) != self.head_crc {
            return Err(Malformed("entry head: checksum"));
        }
        Body::decode(self.kind, head)
    }
}

/// An entry without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its version.
    pub version: u64,
    /// Its body.
    pub body: Body,
}

/// An entry that is ready to be written at any place.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub(crate) entry: Entry,
    head: Bytes,
    head_crc: u32,
    data: Vec<Bytes>,
    data_length: u32,
}

impl Sealed {
    /// `entry` with its `data`, which is shared and not copied.
    ///
    /// # Errors
    /// `Malformed` if the head is longer than heads may be, or the data than 4 GiB.
    pub(crate) fn new(entry: Entry, data: Vec<Bytes>) -> Result<Self, Malformed> {
        let head = Bytes::from(entry.body.encode());
        let data_length: usize = data.iter().map(Bytes::len).sum();
        let data_length = u32::try_from(data_length).map_err(|_| Malformed("entry: too much data"))?;
        if head.len() > HEAD_SIZE_MAX {
            return Err(Malformed("entry: its metadata or part list is too long"));
        }
        let head_crc = crc32c(&head);
        Ok(Self { entry, head, head_crc, data, data_length })
    }

    /// Bytes of the whole entry.
    pub(crate) fn length(&self) -> u64 {
        (HEADER_SIZE + self.head.len()) as u64 + u64::from(self.data_length)
    }

    /// Location of the entry once written at `place`.
    pub(crate) fn location(&self, place: EntryPlace) -> Location {
        Location {
            file: place.file,
            ordinal: place.ordinal,
            offset: place.offset,
            head: (HEADER_SIZE + self.head.len()) as u32,
            data: self.data_length,
        }
    }

    /// The entry's bytes for `place`, in pieces.
    pub(crate) fn pieces(&self, place: EntryPlace, out: &mut Vec<Bytes>) {
        let mut header = EntryHeader {
            magic: MAGIC,
            format: VERSION,
            kind: self.entry.body.kind(),
            reserved: [0; 2],
            version: self.entry.version.into(),
            file: place.file.into(),
            ordinal: place.ordinal.into(),
            set: place.set.into(),
            offset: place.offset.into(),
            head: (self.head.len() as u32).into(),
            data: self.data_length.into(),
            head_crc: self.head_crc.into(),
            crc: 0.into(),
        };
        header.crc = crc32c(&header.as_bytes()[..HEADER_SIZE - 4]).into();
        // Header and head go together: one small copy in place of two tiny pieces.
        let mut front = Vec::with_capacity(HEADER_SIZE + self.head.len());
        front.extend_from_slice(header.as_bytes());
        front.extend_from_slice(&self.head);
        out.push(front.into());
        out.extend(self.data.iter().cloned());
    }
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
