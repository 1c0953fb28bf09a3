//! Effects of commands that are not durable yet.

use bytes::Bytes;
use shingle_base::{BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_zoned::{MemoryDevice, ZoneOp};

/// Something a command did that a power cut may undo.
#[derive(Clone)]
pub(crate) enum Effect {
    Write { at: Lba, data: Vec<Bytes> },
    Manage(ZoneOp),
}

#[derive(Clone)]
pub(crate) struct Pending {
    /// The command's number; [`EARLIER`] if an earlier process gave it.
    pub(crate) number: u64,
    pub(crate) effect: Effect,
    /// Number of commands that had begun when this one completed.
    pub(crate) completed: Option<u64>,
}

/// The number of commands of a process that was killed.
pub(crate) const EARLIER: u64 = u64::MAX;

impl Effect {
    /// Place and length of a write.
    pub(crate) fn extent(&self) -> Option<(Lba, Blocks)> {
        let Self::Write { at, data } = self else { return None };
        Some((*at, Blocks(data.iter().map(|piece| (piece.len() / BLOCK_SIZE) as u64).sum())))
    }

    /// Applies the effect to an image. An effect that cannot happen there (its zone failed since) does nothing.
    pub(crate) fn apply(&self, image: &MemoryDevice, zone: ZoneId) {
        let result = match self {
            Self::Write { at, data } => image.write_now(*at, data.clone()),
            Self::Manage(op) => image.manage_now(zone, *op),
        };
        drop(result);
    }
}
