//! The landed tail of a chunk: bytes that are durable in landing zones and not yet in the index.
//!
//! # Invariants
//! - CS-TAIL-1: the pieces adjoin; they begin where the chunk's index ends and end at its durable size.
//! - CS-TAIL-2: a piece is one record of a landing zone, and moves as a whole.

use std::collections::VecDeque;

use bytes::Bytes;
use shingle_base::ZoneId;
use shingle_record::sliced_record_blocks;

use crate::index::Located;

/// One landed record.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Place where it landed.
    pub(crate) located: Located,
    /// Blocks of the chunk's footprint that it accounts for.
    pub(crate) footprint: u32,
    /// Its bytes.
    pub(crate) data: Vec<Bytes>,
}

/// The part of a tail that goes to the chunk's own zone as one record.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) offset: u32,
    pub(crate) length: u32,
    pub(crate) data: Vec<Bytes>,
    /// Blocks of the chunk's footprint that its pieces accounted for one by one.
    pub(crate) footprint_before: u32,
    /// Blocks of the record.
    pub(crate) blocks: u32,
}

/// All pieces of a chunk (CS-TAIL-1).
#[derive(Debug, Default)]
pub(crate) struct Tail {
    pieces: VecDeque<Piece>,
    /// Bytes before this are on their way to the chunk's own zone.
    moving_to: u32,
}

impl Tail {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Offset of its first piece.
    pub(crate) fn start(&self) -> Option<u32> {
        self.pieces.front().map(|first| first.located.offset)
    }

    /// Adds what landed behind the last piece.
    pub(crate) fn push(&mut self, piece: Piece) {
        debug_assert!(self.pieces.back().is_none_or(|last| last.located.end() == piece.located.offset), "CS-TAIL-1");
        self.pieces.push_back(piece);
    }

    /// Bytes that are not on their way.
    pub(crate) fn waiting(&self) -> u64 {
        let Some(last) = self.pieces.back() else { return 0 };
        let first = self.pieces.front().map_or(0, |first| first.located.offset);
        u64::from(last.located.end() - self.moving_to.clamp(first, last.located.end()))
    }

    /// True if a piece that is not on its way landed in `zone`: any, for landing zones are written side by side.
    pub(crate) fn waits_in(&self, zone: ZoneId) -> bool {
        let mut waiting = self.pieces.iter().rev().take_while(|piece| piece.located.offset >= self.moving_to);
        waiting.any(|piece| piece.located.zone == zone)
    }

    /// Sends everything that waits on its way, in records of up to `record_max` bytes.
    pub(crate) fn take_moves(&mut self, record_max: usize) -> Vec<Move> {
        let mut moves: Vec<Move> = Vec::new();
        for piece in self.pieces.iter_mut().filter(|piece| piece.located.offset >= self.moving_to) {
            let length = piece.located.length;
            match moves.last_mut().filter(|last| (last.length + length) as usize <= record_max) {
                Some(last) => {
                    last.length += length;
                    last.footprint_before += piece.footprint;
                    last.data.extend(piece.data.iter().cloned());
                    piece.footprint = 0;
                }
                None => moves.push(Move {
                    offset: piece.located.offset,
                    length,
                    data: piece.data.clone(),
                    footprint_before: piece.footprint,
                    blocks: 0,
                }),
            }
        }
        for step in &mut moves {
            step.blocks = sliced_record_blocks(u64::from(step.length)).0 as u32;
        }
        // The first piece of each accounts for its record now.
        for piece in &mut self.pieces {
            if let Ok(at) = moves.binary_search_by_key(&piece.located.offset, |step| step.offset) {
                piece.footprint = moves.get(at).map_or(0, |step| step.blocks);
            }
        }
        if let Some(last) = moves.last() {
            self.moving_to = last.offset + last.length;
        }
        moves
    }

    /// Pieces on their way from `offset` on wait again.
    pub(crate) fn cancel_moves(&mut self, offset: u32) {
        self.moving_to = self.moving_to.min(offset);
    }

    /// Takes the pieces off that the index, which ends at `end`, now covers.
    pub(crate) fn indexed(&mut self, end: u32) -> Vec<Piece> {
        let covered = self.pieces.partition_point(|piece| piece.located.end() <= end);
        self.pieces.drain(..covered).collect()
    }

    /// The bytes `from..to`, as far as they are here.
    pub(crate) fn bytes(&self, from: u32, to: u32) -> Vec<Bytes> {
        let mut found = Vec::new();
        let first = self.pieces.partition_point(|piece| piece.located.end() <= from);
        for piece in self.pieces.iter().skip(first).take_while(|piece| piece.located.offset < to) {
            let mut at = piece.located.offset;
            for data in &piece.data {
                let end = at + data.len() as u32;
                let (begin, stop) = (from.max(at), to.min(end));
                if begin < stop {
                    found.push(data.slice((begin - at) as usize..(stop - at) as usize));
                }
                at = end;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u32, length: u32) -> Piece {
        let data: Vec<u8> = (offset..offset + length).map(|at| at as u8).collect();
        let data = Bytes::from(data);
        let cut = (length / 3) as usize;
        let located = Located { zone: ZoneId(9), block: offset, offset, length };
        Piece { located, footprint: 2, data: vec![data.slice(..cut), data.slice(cut..)] }
    }

    fn tail() -> Tail {
        let mut tail = Tail::default();
        for (offset, length) in [(100, 10), (110, 20), (130, 5), (135, 15)] {
            tail.push(piece(offset, length));
        }
        tail
    }

    #[test]
    fn any_range_is_read_back() {
        let tail = tail();
        for from in 100..150 {
            for to in from + 1..=150 {
                let expected: Vec<u8> = (from..to).map(|at| at as u8).collect();
                assert_eq!(tail.bytes(from, to).concat(), expected, "{from}..{to}");
            }
        }
    }

    /// CS-TAIL-2.
    #[test]
    fn a_tail_moves_in_records_of_whole_pieces_and_leaves_when_it_is_indexed() {
        let mut tail = tail();
        assert_eq!(tail.waiting(), 50);
        let moves = tail.take_moves(35);
        let ranges: Vec<_> = moves.iter().map(|step| (step.offset, step.length, step.footprint_before)).collect();
        assert_eq!(ranges, [(100, 35, 6), (135, 15, 2)]);
        assert_eq!((tail.waiting(), tail.take_moves(35).len()), (0, 0));
        tail.push(piece(150, 7));
        assert_eq!(tail.waiting(), 7);
        tail.cancel_moves(135);
        assert_eq!(tail.waiting(), 22);
        assert_eq!(tail.indexed(135).len(), 3);
        let again = tail.take_moves(35);
        assert_eq!((again.len(), again[0].offset, again[0].length), (1, 135, 22));
        assert_eq!(tail.indexed(157).len(), 2);
        assert!(tail.is_empty());
    }
}
