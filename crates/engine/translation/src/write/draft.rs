//! The next command of a frontier: pairs of what waits there.

use bytes::Bytes;
use shingle_base::ZoneId;
use shingle_record::{NAMES_MAX, Name, NameKind, Numbering, Pair, frame_zone_head};

use super::piece::Piece;
use super::queue::Frontier;
use super::stream::is_copy;
use crate::drive::Drive;
use crate::engine::Engine;
use crate::format::{PAIR, ZONE_KIND};

/// Pairs of a command at most.
const PAIRS_MAX: usize = 8;

/// Pairs that one command writes.
pub(crate) struct Draft {
    pub(crate) zone: ZoneId,
    pub(crate) epoch: u64,
    /// The block at which it begins.
    pub(crate) from: u32,
    /// The block behind it.
    pub(crate) end: u32,
    pub(crate) pairs: Vec<DraftPair>,
}

/// A pair that is to be written.
pub(crate) struct DraftPair {
    /// Its first block.
    pub(crate) block: u32,
    /// The number of its first write.
    number: u64,
    pub(crate) pieces: Vec<Piece>,
}

impl DraftPair {
    fn sectors(&self) -> u32 {
        let data = self.pieces.iter().filter(|piece| piece.kind == NameKind::Data);
        data.map(|piece| piece.sectors).sum()
    }
}

impl Engine {
    /// Takes what fits the zone out of a stream's queue, and numbers it (TL-WRITE-1).
    pub(super) fn draft_for(&self, stream: u8, zone: ZoneId) -> Draft {
        let shape = self.drive.layout.shape;
        let mut state = self.state.borrow_mut();
        let (epoch, from) = state.zones.get(zone).map_or((0, shape.zone_blocks), |entry| (entry.epoch, entry.next));
        let mut draft = Draft { zone, epoch, from, end: from.max(1), pairs: Vec::new() };
        let align = state.router.route.align_of(stream);
        let Frontier { queue, own, .. } = &mut state.frontiers[usize::from(stream)];
        let most = if is_copy(stream) { own.step.pairs() } else { PAIRS_MAX };
        while draft.pairs.len() < most && !queue.is_empty() {
            let Some(blocks) = (shape.zone_blocks - draft.end).checked_sub(1).filter(|&blocks| blocks > 0) else {
                break;
            };
            let mut left = shape.pair_sectors().min(blocks * shape.slice_sectors());
            let whole = left;
            let mut pieces: Vec<Piece> = Vec::new();
            while pieces.len() < NAMES_MAX
                && let Some(piece) = queue.front_mut()
            {
                let begins = pieces.is_empty() && draft.pairs.is_empty();
                if !begins && align.is_some_and(|align| piece.lba.is_multiple_of(align)) {
                    // It goes on in another zone.
                    break;
                }
                if piece.kind != NameKind::Data {
                    pieces.extend(queue.pop_front());
                } else if piece.sectors <= left {
                    left -= piece.sectors;
                    pieces.extend(queue.pop_front());
                } else {
                    // A piece that does not fit the end of a zone is divided, and one that goes on where the pair ends; elsewhere a pair of
                    // its own keeps it in one extent.
                    let goes_on =
                        pieces.last().is_some_and(|last| last.kind == NameKind::Data && last.end() == piece.lba);
                    if left == whole || (goes_on && left > 0) {
                        pieces.push(piece.split_off_front(left, shape));
                    }
                    break;
                }
            }
            if pieces.is_empty() {
                break;
            }
            let number = self.sequence.next();
            debug_assert!(number > epoch, "TL-WRITE-1: a write has a number below its zone's generation");
            (1..pieces.len()).for_each(|_| {
                self.sequence.next();
            });
            let pair = DraftPair { block: draft.end, number, pieces };
            draft.end += shape.pair_blocks(pair.sectors());
            draft.pairs.push(pair);
        }
        let pieces = draft.pairs.iter().flat_map(|pair| &pair.pieces);
        let own = &mut state.frontiers[usize::from(stream)].own;
        (own.flying, own.began) = (pieces.map(|piece| piece.lba..piece.end()).collect(), self.rt.now());
        draft
    }

    /// The draft as it is to be written: the zone's head, if it begins there, and its pairs.
    pub(super) fn frame(&self, draft: &Draft) -> Vec<Bytes> {
        let drive = &self.drive;
        let durable = self.state.borrow().zones.get(draft.zone).map_or(0, |entry| entry.durable);
        let mut buffers = Vec::with_capacity(draft.pairs.len() + 1);
        if draft.from == 0 {
            buffers.push(frame_zone_head(drive.store, draft.epoch, draft.zone, ZONE_KIND, self.rt.unix_time()));
        }
        buffers.extend(draft.pairs.iter().flat_map(|pair| frame_pair(drive, draft, pair, durable)));
        buffers
    }
}

fn frame_pair(drive: &Drive, draft: &Draft, pair: &DraftPair, durable: u32) -> Vec<Bytes> {
    let numbered = pair.pieces.iter().zip(pair.number..);
    let name =
        |(piece, number): (&Piece, u64)| Name { lba: piece.lba, sectors: piece.sectors, kind: piece.kind, number };
    let side = Pair {
        kind: PAIR,
        place: drive.place(draft.zone, draft.epoch, pair.block),
        sequence: pair.number,
        sector_shift: drive.layout.shape.sector_shift,
        durable,
        next: None,
        numbering: Numbering::Consecutive,
        names: numbered.map(name).collect(),
    };
    drive.payload.frame(side, &mut pair.pieces.iter().flat_map(|piece| &piece.data))
}
