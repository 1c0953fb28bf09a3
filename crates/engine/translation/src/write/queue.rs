//! A frontier: the zone that a stream writes to, and the pieces that wait for it.

use std::collections::VecDeque;
use std::ops::Range;

use shingle_base::ZoneId;

use super::piece::Piece;

/// A stream's frontier.
#[derive(Default)]
pub(crate) struct Frontier {
    pub(crate) queue: VecDeque<Piece>,
    pub(crate) zone: Option<ZoneId>,
    /// Sectors of the command under way.
    pub(crate) flying: Vec<Range<u64>>,
    /// A task writes all that waits.
    pub(super) busy: bool,
}

impl Frontier {
    /// Nothing waits, and nothing is being written.
    pub(crate) fn is_idle(&self) -> bool {
        !self.busy && self.queue.is_empty()
    }

    /// A piece that waits, or is being written, has some of these sectors.
    pub(super) fn touches(&self, sectors: &Range<u64>) -> bool {
        let meets = |lba: u64, end: u64| lba < sectors.end && sectors.start < end;
        self.flying.iter().any(|flying| meets(flying.start, flying.end))
            || self.queue.iter().any(|piece| meets(piece.lba, piece.end()))
    }

    /// Pieces that wait or are being written, and sectors of them.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        let flying = self.flying.iter().map(|range| range.end - range.start);
        let sectors = flying.chain(self.queue.iter().map(|piece| u64::from(piece.sectors))).sum();
        ((self.flying.len() + self.queue.len()) as u64, sectors)
    }

    /// Gives up all that waits. The pieces are to be dropped once the state is free: they may hold pins.
    pub(crate) fn drain(&mut self) -> Vec<Piece> {
        self.queue.drain(..).collect()
    }
}
