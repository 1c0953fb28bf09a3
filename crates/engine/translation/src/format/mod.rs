//! Bytes of a volume on its drive: superblock, journal entries, parts of checkpoints. See `docs/formats/volume.md`.
//!
//! All numbers are little-endian. Everything here was framed and checked by crate `record` already; a value that makes no sense
//! all the same is an error, never a panic.

mod checkpoint;
mod journal;
mod superblock;

use shingle_record::RecordType;

pub(crate) use checkpoint::{EXTENT_BYTES, Part, PartWriter, SnapshotEntry, ZONE_BYTES, ZoneEntry};
pub(crate) use journal::{Entry, MOVES_MAX, Move};
pub(crate) use superblock::{SECTORS_END, Superblock};

/// The number by which a superblock says that a volume is on the drive.
pub const ENGINE: u32 = 0x4E52_5454; // "TTRN"

/// The version of everything in this module.
pub(crate) const VERSION: u32 = 2;

/// The oldest version that is read: 2 added snapshots and sizes to journal and checkpoints.
pub(crate) const OLDEST_VERSION: u32 = 1;

/// Bytes of a snapshot's name at most.
pub(crate) const SNAPSHOT_NAME_MAX: usize = 64;

/// The type of pairs.
pub(crate) const PAIR: RecordType = RecordType(0x0401);

/// The kind that heads of data zones carry, and the first of the kinds of metazones.
pub(crate) const ZONE_KIND: u16 = 0x0400;

/// The kind that heads of metazones carry.
pub(crate) const META_ZONE_KIND: u16 = 0x04FF;

/// Bytes of a place, and of a sector's number.
const SIX: usize = 6;

/// The name of a snapshot: letters, digits, and `.`, `_` and `-` inside. `None` for others.
pub(crate) fn snapshot_name(bytes: &[u8]) -> Option<String> {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let good = bytes.len() <= SNAPSHOT_NAME_MAX
        && bytes.iter().all(inside)
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric);
    good.then(|| String::from_utf8_lossy(bytes).into_owned())
}

fn push_six(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes()[..SIX]);
}

fn six(fields: &mut shingle_base::wire::Fields<'_>) -> Option<u64> {
    let [a, b, c, d, e, f] = fields.array()?;
    Some(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
}
