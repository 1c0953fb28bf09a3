//! Internal commands that follow each other.

use crate::command::Op;
use crate::translation::managed::{Inside, Medium, Work};

/// Blocks that one internal command moves, so that the host is not held up for a whole band.
pub(super) const PIECE: u64 = 512;

/// An internal command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) medium: Medium,
    pub(super) op: Op,
    pub(super) at: u64,
    pub(super) blocks: u64,
}

impl Step {
    pub(super) fn run(&self, inside: &mut Inside, work: Work) {
        inside.run(self.medium, self.op, self.at, self.blocks, work);
    }
}

/// Commands of at most [`PIECE`] blocks.
pub(super) fn pieces(medium: Medium, op: Op, at: u64, blocks: u64) -> impl Iterator<Item = Step> {
    (0..blocks.div_ceil(PIECE)).map(move |piece| {
        let from = piece * PIECE;
        Step { medium, op, at: at + from, blocks: PIECE.min(blocks - from) }
    })
}
