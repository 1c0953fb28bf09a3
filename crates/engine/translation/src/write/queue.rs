//! A frontier: the zone that a stream writes to, and the pieces that wait for it.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use shingle_runtime::Instant;

use super::piece::Piece;

/// A volume's part of a lane.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// Sectors of the command under way.
    pub(crate) flying: Vec<Range<u64>>,
    /// Its beginning.
    pub(crate) began: Instant,
    /// A command has failed, and what it left in its zone may count still: it has not been left, or found to be as it was. (TL-SNAP-3)
    pub(crate) failed: bool,
    /// Changes of the zone that are under way. (TL-LIMIT-1)
    pub(crate) changes: u32,
    /// Full zones that are being left, while the stream goes on in another. (TL-CLOSE-2)
    pub(crate) leaving: u32,
    /// Of copies: the length of their next command. (TL-STEP-1)
    pub(crate) step: Step,
}

/// Pairs of a command of copies: as many as the drive writes in about [`STEP_TIME`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step(usize);

impl Default for Step {
    fn default() -> Self {
        Self(8)
    }
}

/// Time for which a command of copies may keep callers' commands waiting.
const STEP_TIME: Duration = Duration::from_millis(60);

/// Pairs of a command of copies.
const STEP_PAIRS: RangeInclusive<usize> = 4..=16;

impl Step {
    /// Pairs of the next command at most.
    pub(crate) fn pairs(self) -> usize {
        self.0
    }

    /// A command of so many pairs took so much time, for which it kept callers waiting or not.
    pub(crate) fn note(&mut self, pairs: usize, took: Duration, waits: bool) {
        let next =
            if waits && took > STEP_TIME { pairs.saturating_sub(1).min(self.0) } else { (pairs + 1).max(self.0) };
        self.0 = next.clamp(*STEP_PAIRS.start(), *STEP_PAIRS.end());
    }
}

/// A stream's frontier.
pub(crate) type Frontier = shingle_zone_kit::Lane<Piece, Own>;

/// All that was numbered has entered the map, or will never count. (TL-SNAP-3)
pub(crate) fn is_settled(frontier: &Frontier) -> bool {
    frontier.own.flying.is_empty() && !frontier.own.failed
}

/// A piece that waits at a frontier, or is being written, has some of these sectors.
pub(super) fn touches(frontier: &Frontier, sectors: &Range<u64>) -> bool {
    let meets = |lba: u64, end: u64| lba < sectors.end && sectors.start < end;
    frontier.own.flying.iter().any(|flying| meets(flying.start, flying.end))
        || frontier.queue.iter().any(|piece| meets(piece.lba, piece.end()))
}

/// Pieces that wait or are being written, and sectors of them.
pub(crate) fn waiting(frontier: &Frontier) -> (u64, u64) {
    let (flying, queue) = (&frontier.own.flying, &frontier.queue);
    let sectors = flying.iter().map(|range| range.end - range.start);
    let sectors = sectors.chain(queue.iter().map(|piece| u64::from(piece.sectors))).sum();
    ((flying.len() + queue.len()) as u64, sectors)
}
