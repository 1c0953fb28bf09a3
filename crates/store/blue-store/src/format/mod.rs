//! Bytes of the store: keys, values, merge operands, superblock. See `docs/formats/blue-store.md`.
//!
//! Everything here lies in a store of metadata that checks its bytes; a value that makes no sense all the same is an error, never a panic.

pub(crate) mod blob;
pub(crate) mod key;
pub(crate) mod object;
pub(crate) mod shard;
pub(crate) mod superblock;
pub(crate) mod values;
pub(crate) mod zone;

/// The number by which a superblock says that such a store is on the drive.
pub const ENGINE: u32 = 0x4555_4C42; // "BLUE"

/// The version of everything in this module.
pub(crate) const VERSION: u32 = 3;

/// Zones of superblocks in a version.
pub(crate) fn superzones(version: u32) -> u32 {
    if version < 3 { 1 } else { 2 }
}

/// The first byte of values that may change their form later.
pub(crate) const VALUE_VERSION: u8 = 1;
