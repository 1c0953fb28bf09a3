//! Payloads of a chunk store's records: superblock, journal entries, checkpoint parts. See `docs/formats/chunk-store.md`.
//!
//! All numbers are little-endian. Everything here was framed and checked by crate `record` already; a value that makes
//! no sense all the same is an error, never a panic.

use shingle_base::wire::Fields;
use shingle_record::RecordType;

mod checkpoint;
mod journal;
mod mark;

pub(crate) use checkpoint::{
    CHUNK_BYTES, CheckpointPart, ChunkEntry, ChunkPage, GROUP_BYTES, PLACE_BYTES, RECORD_BYTES, ZoneEntry,
    encode_zones, zone_table_bytes,
};
pub use journal::JournalEntry;
pub(crate) use mark::HEAD_BYTES as MARK_HEAD_BYTES;
pub use mark::Mark;

use crate::types::Stream;

/// The number by which a superblock says that a chunk store is on the drive.
pub const ENGINE: u32 = 0x4B4E_4843; // "CHNK"

/// The version of everything in this module.
pub(crate) const VERSION: u32 = 6;

/// Types of the records in data zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// A part of a chunk, sliced.
    Data,
}

impl RecordKind {
    pub(crate) const fn record_type(self) -> RecordType {
        match self {
            Self::Data => RecordType(0x0101),
        }
    }
}

/// The kind a zone head carries: which stream its records belong to.
pub(crate) fn zone_kind(stream: Stream) -> u16 {
    0x0100 + stream_number(stream) as u16
}

/// The kind that heads of landing zones carry.
pub(crate) const LANDING_KIND: u16 = 0x0110;

/// Bit of a zone's stream in a checkpoint that says that it is a landing zone.
const LANDING_BIT: u8 = 0x80;

/// The stream of a zone whose head carries `kind`, and whether it is a landing zone.
pub(crate) fn zone_use(kind: u16) -> Option<(Stream, bool)> {
    if kind == LANDING_KIND {
        return Some((LANDING_STREAM, true));
    }
    Some((stream_from((kind.checked_sub(0x0100)?).try_into().ok()?)?, false))
}

/// The stream that records in a landing zone count as for GC: they are of all streams.
pub(crate) const LANDING_STREAM: Stream = Stream::Data;

pub(crate) fn stream_number(stream: Stream) -> u8 {
    match stream {
        Stream::Data => 0,
        Stream::Gc => 1,
        Stream::Meta => 2,
    }
}

pub(crate) fn stream_from(number: u8) -> Option<Stream> {
    [Stream::Data, Stream::Gc, Stream::Meta].get(usize::from(number)).copied()
}

/// The engine's part of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) zone_size: u64,
    pub(crate) zone_count: u32,
    pub(crate) metazones: u32,
}

impl Superblock {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16);
        bytes.extend(self.zone_size.to_le_bytes());
        bytes.extend(self.zone_count.to_le_bytes());
        bytes.extend(self.metazones.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(bytes);
        let block = Self { zone_size: fields.u64()?, zone_count: fields.u32()?, metazones: fields.u32()? };
        fields.end()?;
        Some(block)
    }
}
