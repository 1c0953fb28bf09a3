//! Framing a pair: each byte of data is copied once, and read once more while it is in the cache.

use bytes::Bytes;
use shingle_base::{AlignedBuf, AlignedBuilder, Blocks, BufferPool, crc32c};

use super::names;
use super::plan::slice_tag;
use super::side::{Pair, Side};
use super::{PAIR_SLICES_MAX, SIDE_SIZE, pair_blocks};
use crate::slices::{SLICE_SIZE, hollow};

/// Frames a pair for a metadata-only device: header and names, and shared zeros in place of data and trailer, which such a device
/// would drop. So an experiment on a modelled drive spends no time on bytes that are never read.
pub fn frame_hollow_pair(pair: &Pair) -> Vec<Bytes> {
    let header = pair.encode(Side::Header, &names::encode(&pair.names, pair.numbering));
    let mut first = AlignedBuf::zeroed(Blocks(1));
    first[..header.len()].copy_from_slice(&header);
    let mut pieces = vec![first.freeze()];
    pieces.extend(hollow(pair_blocks(pair.length()) - Blocks(1)));
    pieces
}

/// Frames a pair whose data comes bit by bit.
pub struct PairFramer {
    pair: Pair,
    names: Vec<u8>,
    buffer: AlignedBuilder,
    blocks: usize,
    length: usize,
    done: usize,
    /// Start of the slice that is being filled, in the buffer.
    slice_at: usize,
}

impl PairFramer {
    /// For `pair`, in a buffer of `pool`. Panics if it has too much data, or too many names.
    pub fn new(pair: Pair, pool: &BufferPool) -> Self {
        let length = pair.length() as usize;
        assert!(length <= PAIR_SLICES_MAX as usize * SLICE_SIZE, "a pair has too much data");
        let names = names::encode(&pair.names, pair.numbering);
        let blocks = pair_blocks(length as u64);
        let mut buffer = pool.builder(blocks);
        buffer.extend(&pair.encode(Side::Header, &names));
        Self { pair, names, buffer, blocks: blocks.bytes() as usize, length, done: 0, slice_at: SIDE_SIZE }
    }

    /// The next bytes of data; all together, as many as the names tell of.
    pub fn extend(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = SLICE_SIZE - self.done % SLICE_SIZE;
            let (now, rest) = bytes.split_at(bytes.len().min(room));
            assert!(self.done + now.len() <= self.length, "a pair gets more bytes than its names tell of");
            self.buffer.extend(now);
            self.done += now.len();
            bytes = rest;
            if self.done.is_multiple_of(SLICE_SIZE) {
                self.end_slice();
            }
        }
    }

    fn end_slice(&mut self) {
        let number = ((self.slice_at - SIDE_SIZE) / super::STRIDE) as u32;
        let check = crc32c(self.buffer.from(self.slice_at)) ^ slice_tag(&self.pair.place, number);
        self.buffer.extend(&check.to_le_bytes());
        self.slice_at = self.buffer.len();
    }

    fn fill(&mut self, to: usize) {
        const ZEROS: [u8; SLICE_SIZE] = [0; SLICE_SIZE];
        while self.buffer.len() < to {
            self.buffer.extend(&ZEROS[..(to - self.buffer.len()).min(SLICE_SIZE)]);
        }
    }

    /// The pair. Panics if it lacks data.
    pub fn finish(mut self, pool: &BufferPool) -> Bytes {
        assert!(self.done == self.length, "a pair lacks bytes that its names tell of");
        if !self.done.is_multiple_of(SLICE_SIZE) {
            self.fill(self.slice_at + SLICE_SIZE);
            self.end_slice();
        }
        self.fill(self.blocks - SIDE_SIZE);
        self.buffer.extend(&self.pair.encode(Side::Trailer, &self.names));
        pool.finish(self.buffer)
    }
}
