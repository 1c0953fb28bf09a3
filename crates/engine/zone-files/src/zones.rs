//! The zone table, and the files' part of a zone.
//!
//! # Invariants
//! - ZF-ZONE-1: `live` of a zone is the number of blocks of records in it that a file has, or that a copy is about to give to one.

pub(crate) use shingle_zone_kit::{Pin, Status, Vacated};

/// The files' part of a zone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Own {
    /// Nothing could be copied out of it, and nothing of it or of other zones has become free since.
    pub(crate) tried: bool,
    /// File and byte at which the next cleaning begins: the last one met too much before them that cannot be read. (ZF-CLEAN-4)
    pub(crate) from: (u64, u64),
}

/// A data zone.
pub(crate) type Zone = shingle_zone_kit::Zone<Own>;

/// All data zones.
pub(crate) type ZoneTable = shingle_zone_kit::ZoneTable<Own>;
