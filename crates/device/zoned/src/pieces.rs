//! The bytes of one zone of a memory device, as the pieces they were written in.
//!
//! **Owns** pieces, by reference. **Knows nothing of** zone states or write pointers.
//!
//! # Invariants
//! - ZD-PC-1: pieces are in order and do not overlap. A block in no piece reads as zeros, and so does the part of a piece
//!   that was not kept.

use std::sync::LazyLock;

use bytes::Bytes;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks};

/// Blocks of zeros: up to the length of a long read they are parts of one buffer, since long experiments read them by the
/// million.
pub(crate) fn zeros(length: Blocks) -> Bytes {
    static ZEROS: LazyLock<Bytes> = LazyLock::new(|| AlignedBuf::zeroed(Blocks(2048)).freeze());
    let bytes = length.bytes() as usize;
    if bytes <= ZEROS.len() { ZEROS.slice(..bytes) } else { AlignedBuf::zeroed(length).freeze() }
}

/// The pieces of a zone. Starts (in blocks from the zone's own) stand apart from the bytes, so that a search touches
/// few cache lines.
#[derive(Clone, Default)]
pub(crate) struct Pieces {
    starts: Vec<u32>,
    bytes: Vec<Bytes>,
}

impl Pieces {
    /// Adds a piece behind all others.
    pub(crate) fn push(&mut self, start: u32, bytes: Bytes) {
        debug_assert!(self.starts.last().is_none_or(|&last| last < start), "ZD-PC-1");
        if bytes.is_empty() {
            return;
        }
        if self.starts.len() == self.starts.capacity() {
            // By a quarter, not by double: in metadata-only mode the slack would outweigh the kept bytes.
            let more = (self.starts.len() / 4).max(4);
            self.starts.reserve_exact(more);
            self.bytes.reserve_exact(more);
        }
        self.starts.push(start);
        self.bytes.push(bytes);
    }

    /// Puts a piece, of which `bytes` were kept, over `blocks` blocks from `start`.
    pub(crate) fn overwrite(&mut self, start: u32, blocks: u32, bytes: Bytes) {
        self.clear(start, start + blocks);
        if !bytes.is_empty() {
            let at = self.starts.partition_point(|&other| other < start);
            self.starts.insert(at, start);
            self.bytes.insert(at, bytes);
        }
    }

    /// Forgets blocks `from` to `to`.
    pub(crate) fn clear(&mut self, from: u32, to: u32) {
        let first = self.first_past(from);
        let mut last = first;
        let mut remains = Vec::new();
        while let Some((start, bytes)) = self.get(last).filter(|&(start, _)| start < to) {
            if start < from {
                remains.push((start, bytes.slice(..offset(start, from))));
            }
            let behind = offset(start, to);
            if bytes.len() > behind {
                remains.push((to, bytes.slice(behind..)));
            }
            last += 1;
        }
        self.starts.splice(first..last, remains.iter().map(|&(start, _)| start));
        self.bytes.splice(first..last, remains.into_iter().map(|(_, bytes)| bytes));
    }

    /// Forgets all blocks from `from` on.
    pub(crate) fn truncate(&mut self, from: u32) {
        self.clear(from, u32::MAX);
    }

    /// `blocks` blocks from `from`: a part of one piece, not copied, if they lie in one that is kept whole.
    pub(crate) fn read(&self, from: u32, blocks: u32) -> Bytes {
        let first = self.first_past(from);
        let size = Blocks(u64::from(blocks)).bytes() as usize;
        if let Some((start, bytes)) = self.get(first)
            && start <= from
        {
            let at = offset(start, from);
            if at + size <= bytes.len() {
                return bytes.slice(at..at + size);
            }
        }
        if self.get(first).is_none_or(|(start, _)| start >= from + blocks) {
            return zeros(Blocks(u64::from(blocks)));
        }
        let mut out = AlignedBuf::zeroed(Blocks(u64::from(blocks)));
        for at in first..self.starts.len() {
            let Some((start, bytes)) = self.get(at).filter(|&(start, _)| start < from + blocks) else { break };
            let begin = start.max(from);
            let kept = &bytes[offset(start, begin)..];
            let target = &mut out[offset(from, begin)..];
            let count = kept.len().min(target.len());
            target[..count].copy_from_slice(&kept[..count]);
        }
        out.freeze()
    }

    /// Gives back memory held for further pieces.
    pub(crate) fn shrink(&mut self) {
        self.starts.shrink_to_fit();
        self.bytes.shrink_to_fit();
    }

    /// True if everything reads as zeros.
    pub(crate) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Bytes of payload held.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.bytes.iter().map(|bytes| bytes.len() as u64).sum()
    }

    fn get(&self, at: usize) -> Option<(u32, &Bytes)> {
        Some((*self.starts.get(at)?, self.bytes.get(at)?))
    }

    /// The first piece with bytes at or past block `from`.
    fn first_past(&self, from: u32) -> usize {
        let after = self.starts.partition_point(|&start| start <= from);
        match after.checked_sub(1).and_then(|before| self.get(before)) {
            Some((start, bytes)) if bytes.len() > offset(start, from) => after - 1,
            _ => after,
        }
    }
}

/// Bytes from block `from` to block `to`.
fn offset(from: u32, to: u32) -> usize {
    (to - from) as usize * BLOCK_SIZE
}
