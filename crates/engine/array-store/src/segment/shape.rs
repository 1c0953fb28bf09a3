//! Layout of a segment's data in its fragments. (SMORE, section III-B and Figure 2.)
//!
//! Fragment 0 has the first bytes, fragment 1 the next ones, and so on; what is left of the last one is zeros. All
//! fragments are equally long, so that the write pointers of a set advance together.

use std::ops::Range;

use shingle_base::{BLOCK_SIZE, Blocks};
use shingle_erasure::Code;
use shingle_record::{SLICE_SIZE, sliced_capacity, sliced_record_blocks};

/// The shape of a segment with that many bytes of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    code: Code,
    length: u32,
}

/// A range of one data fragment, and where it goes in what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) fragment: usize,
    /// In the fragment.
    pub(crate) range: Range<u32>,
}

impl Shape {
    pub(crate) fn new(code: Code, length: u32) -> Self {
        Self { code, length }
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Bytes of data.
    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    /// Bytes of a fragment: whole slices.
    pub(crate) fn fragment_length(&self) -> u32 {
        let even = u64::from(self.length).div_ceil(self.code.data() as u64);
        // At most 4 GiB rounded up to a slice: a length near the top of its range saturates and fails its checks.
        u32::try_from(even.next_multiple_of(SLICE_SIZE as u64))
            .unwrap_or(u32::MAX / SLICE_SIZE as u32 * SLICE_SIZE as u32)
    }

    /// Blocks of a fragment's record; none for a segment without data.
    pub(crate) fn fragment_blocks(&self) -> Blocks {
        match self.fragment_length() {
            0 => Blocks::ZERO,
            length => sliced_record_blocks(u64::from(length)),
        }
    }

    /// The most data whose fragments have at most `blocks`.
    pub(crate) fn most_data(code: Code, blocks: Blocks) -> u64 {
        sliced_capacity(blocks) / SLICE_SIZE as u64 * SLICE_SIZE as u64 * code.data() as u64
    }

    /// The ranges of data fragments that hold `length` bytes from `at`, in order.
    pub(crate) fn pieces(&self, at: u32, length: u32) -> Vec<Piece> {
        let fragment = u64::from(self.fragment_length()).max(1);
        let (mut at, end) = (u64::from(at), u64::from(at) + u64::from(length));
        let mut pieces = Vec::new();
        while at < end {
            let (number, from) = (at / fragment, at % fragment);
            let to = fragment.min(from + end - at);
            pieces.push(Piece { fragment: number as usize, range: from as u32..to as u32 });
            at += to - from;
        }
        pieces
    }
}

const _: () = assert!(SLICE_SIZE == BLOCK_SIZE, "fragments are whole slices, and columns of the code are slices");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_range_once_and_in_order() {
        for (data, length) in [(5, 20 << 20), (5, 1), (3, 4096 * 3), (10, 100_000), (1, 5000)] {
            let shape = Shape::new(Code::new(data, 1).unwrap(), length);
            assert!(u64::from(shape.fragment_length()) * u64::from(data) >= u64::from(length));
            for (at, wanted) in [(0, length), (length / 2, length - length / 2), (length - 1, 1), (0, 0)] {
                let mut next = u64::from(at);
                for piece in shape.pieces(at, wanted) {
                    let from =
                        piece.fragment as u64 * u64::from(shape.fragment_length()) + u64::from(piece.range.start);
                    assert_eq!(from, next);
                    assert!(!piece.range.is_empty() && piece.fragment < usize::from(data));
                    next = from + piece.range.len() as u64;
                }
                assert_eq!(next, u64::from(at + wanted));
            }
        }
    }

    #[test]
    fn most_data_is_the_most_that_fits() {
        let code = Code::new(5, 1).unwrap();
        for blocks in 2..3000 {
            let most = Shape::most_data(code, Blocks(blocks)) as u32;
            assert!(Shape::new(code, most).fragment_blocks() <= Blocks(blocks));
            assert!(Shape::new(code, most + 1).fragment_blocks() > Blocks(blocks));
        }
    }
}
