//! The findings of an opening.

use shingle_base::ZoneId;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

/// Blocks of a zone whose names cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The zone.
    pub zone: ZoneId,
    /// The first block, from the zone's start.
    pub from: u32,
    /// The block behind the last one.
    pub to: u32,
    /// Some of them cannot be read, and may be readable later. If not, they are damaged.
    pub unreadable: bool,
}

/// The findings of an opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Zones that were scanned.
    pub zones_scanned: u64,
    /// Blocks that were read for that.
    pub blocks_read: u64,
    /// Pairs that were written since the checkpoint.
    pub pairs: u64,
    /// Names in them.
    pub writes: u64,
    /// Moves in the journal since the checkpoint.
    pub moves: u64,
    /// Extents of the map.
    pub extents: u64,
    /// Pairs that a power cut tore: zone and block.
    pub torn: Vec<(ZoneId, u32)>,
    /// Pairs that are damaged or cannot be read: zone and block. Some of their sectors may fail when they are read.
    pub damaged: Vec<(ZoneId, u32)>,
    /// Blocks of which the names, or whether they count, cannot be known. The opening is refused, or goes on.
    pub unknown: Vec<Unknown>,
    /// Sectors whose zone holds them no more.
    pub sectors_lost: u64,
    /// Lost blocks of superblock and metadata log that others make up for: zone and block.
    pub mended: Vec<(ZoneId, u32)>,
}

impl RecoveryReport {
    /// Refuses to go on where names, or which blocks count, cannot be known (TL-REC-2, TL-REC-3).
    pub(super) fn refuse_unless(&self, accepted: bool) -> StoreResult<()> {
        let Some(first) = self.unknown.first().filter(|_| !accepted) else { return Ok(()) };
        let Unknown { zone, from, to, unreadable } = *first;
        let (kind, why) = if unreadable {
            (StoreErrorKind::Unavailable, "cannot be read; try again, perhaps after the drive has rested")
        } else {
            (StoreErrorKind::Corrupt, "are damaged")
        };
        let others = match self.unknown.len() - 1 {
            0 => String::new(),
            count => format!(" ({count} more places alike)"),
        };
        let text = format!(
            "{zone}: blocks {from} to {} {why}{others}. They say which sectors were written last. To go on without them, with those \
             sectors as they were before or failing until they are written, open the volume with `--accept-loss`",
            to.saturating_sub(1)
        );
        Err(StoreError::new(kind, text))
    }
}
