//! Formats of the array on its drives; see `docs/formats/array.md`.
//!
//! Everything is a record of `shingle-record`. This module gives records their types, and their infos and payloads
//! their meaning.

mod bytes;
mod digest;
mod marker;
mod superblock;
mod trailer;

pub(crate) use digest::{Digest, DigestItem, ITEM_FIXED, ItemBody};
pub(crate) use marker::{
    FragmentId, Marker, Member, SetHead, Tombstone, decode_tombstones, encode_tombstones, object_bytes, part_bytes,
};
pub(crate) use superblock::{
    Assembly, Base, BufferName, Changes, DriveEntry, DriveState, SetEntry, SnapshotPiece, Superblock, Update,
    encode_piece, set_bytes,
};
pub(crate) use trailer::{Trailer, frame_trailer};

use shingle_record::RecordType;

/// The format's version; a superblock says it, and an array of a version that is not read is refused.
pub(crate) const VERSION: u32 = 9;

/// The oldest version that is read: its arrays are of this one from their first superblock on.
pub(crate) const VERSION_MIN: u32 = 3;

/// From this version on superblocks say where sets end.
pub(crate) const VERSION_ENDS: u32 = 5;

/// From this version on superblocks say which files of the buffer count.
const VERSION_BUFFER: u32 = 6;

/// From this version on superblocks may say only what changed.
const VERSION_CHANGES: u32 = 7;

/// From this version on superblocks say how many drives those behind them are on at least.
const VERSION_COPIES: u32 = 8;

/// From this version on superblocks say what openings lost.
const VERSION_LOSS: u32 = 9;

/// The head of a zone in a set.
pub(crate) const SET_HEAD: RecordType = RecordType(0x0300);
/// A layout marker block.
pub(crate) const MARKER: RecordType = RecordType(0x0301);
/// A fragment of a segment; a sliced record.
pub(crate) const FRAGMENT: RecordType = RecordType(0x0302);
/// Tombstones.
pub(crate) const TOMBSTONES: RecordType = RecordType(0x0303);
/// A zone set's digest.
pub(crate) const DIGEST: RecordType = RecordType(0x0304);
/// Says where the record before it begins.
pub(crate) const TRAILER: RecordType = RecordType(0x0305);
/// A piece of what superblocks build on: some of the sets.
pub(crate) const SUPERBLOCK_PIECE: RecordType = RecordType(0x0307);
/// The superblock.
pub(crate) const SUPERBLOCK: RecordType = RecordType(0x0306);
