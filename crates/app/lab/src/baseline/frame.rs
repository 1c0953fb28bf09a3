//! A chunk's bytes in a chunkserver's file: pieces of 4048 bytes, each with a footer of 48 that fills a block of 4 KiB.
//! (SMRstore, section 2.1 and Figure 3.)
//!
//! The paper does not describe a piece that an append leaves short. Here it is padded, and the next append begins with
//! a block of its own: acknowledged blocks are never written again.
//!
//! # Invariants
//! - LAB-FR-1: the appends' blocks follow each other in the file without a gap.

use std::ops::Range;

/// Bytes of a chunk in a block.
pub(crate) const PIECE: u64 = 4048;

/// Blocks of the file that an append of `length` bytes takes.
pub(crate) fn blocks_of(length: u32) -> u32 {
    u64::from(length).div_ceil(PIECE) as u32
}

/// Place of each append of a chunk in its file. Appends of one length in a row are one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    runs: Vec<Run>,
    bytes: u64,
    blocks: u32,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    offset: u64,
    block: u32,
    length: u32,
    count: u32,
}

impl Frame {
    /// Bytes of the chunk.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Blocks of the file.
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The file's blocks that an append of `length` bytes would take.
    pub(crate) fn next(&self, length: u32) -> Range<u32> {
        self.blocks..self.blocks + blocks_of(length)
    }

    /// Adds an append, and returns the file's blocks that it takes.
    pub(crate) fn append(&mut self, length: u32) -> Range<u32> {
        let first = self.blocks;
        self.blocks += blocks_of(length);
        match self.runs.last_mut() {
            Some(run) if run.length == length => run.count += 1,
            _ => self.runs.push(Run { offset: self.bytes, block: first, length, count: 1 }),
        }
        self.bytes += u64::from(length);
        first..self.blocks
    }

    /// The file's blocks that hold `length` bytes at `offset`; `None` past the chunk's end.
    pub(crate) fn locate(&self, offset: u64, length: u32) -> Option<Range<u32>> {
        let end = offset + u64::from(length);
        (length > 0 && end <= self.bytes).then(|| self.block_of(offset)..self.block_of(end - 1) + 1)
    }

    fn block_of(&self, offset: u64) -> u32 {
        let at = self.runs.partition_point(|run| run.offset <= offset);
        let Some(run) = at.checked_sub(1).and_then(|at| self.runs.get(at)) else { return 0 };
        let inside = offset - run.offset;
        let append = inside / u64::from(run.length);
        let piece = inside % u64::from(run.length) / PIECE;
        run.block + append as u32 * blocks_of(run.length) + piece as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LAB-FR-1, and every byte lies in the block that its append gave it.
    #[test]
    fn appends_take_blocks_of_their_own() {
        let mut frame = Frame::default();
        assert_eq!(frame.append(4096), 0..2);
        assert_eq!(frame.append(4096), 2..4);
        assert_eq!(frame.append(4048), 4..5);
        assert_eq!(frame.append(1 << 20), 5..265);
        assert_eq!(frame.locate(0, 4048), Some(0..1));
        assert_eq!(frame.locate(0, 4096), Some(0..2));
        assert_eq!(frame.locate(4095, 2), Some(1..3));
        assert_eq!(frame.locate(8192, 4048), Some(4..5));
        assert_eq!(frame.locate(12_240 + 4048, 4048), Some(6..7));
        assert_eq!(frame.locate(12_240, 1 << 20), Some(5..265));
        assert_eq!(frame.locate(12_241, 1 << 20), None);
        assert_eq!(frame.bytes(), 12_240 + (1 << 20));
    }
}
