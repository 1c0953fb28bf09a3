//! Memory that drives can read and write directly.

use std::ops::Range;

use bytes::Bytes;

use crate::units::{BLOCK_SIZE, Blocks};

/// A zeroed buffer of whole blocks whose first byte is aligned to a block.
///
/// Direct I/O wants both. [`AlignedBuf::freeze`] turns it into reference-counted [`Bytes`] without copying.
pub struct AlignedBuf {
    memory: Vec<u8>,
    start: usize,
    size: usize,
}

impl AlignedBuf {
    /// A buffer of `length` blocks, all zero.
    pub fn zeroed(length: Blocks) -> Self {
        let size = length.bytes() as usize;
        // Over-allocated by a block, and entered at the first aligned byte: the safe way to align.
        let memory = vec![0; size + BLOCK_SIZE];
        let start = memory.as_ptr().align_offset(BLOCK_SIZE);
        Self { memory, start, size }
    }

    /// An empty buffer that takes up to `length` blocks piece by piece: nothing is zeroed only to be overwritten.
    pub fn builder(length: Blocks) -> AlignedBuilder {
        Self::builder_in(Vec::with_capacity(length.bytes() as usize + BLOCK_SIZE), length)
    }

    /// The same in `memory`, which is empty and has room for a block more.
    pub(crate) fn builder_in(mut memory: Vec<u8>, length: Blocks) -> AlignedBuilder {
        let start = memory.as_ptr().align_offset(BLOCK_SIZE);
        memory.resize(start, 0);
        AlignedBuilder { memory, start, size: length.bytes() as usize }
    }

    /// The length in blocks.
    pub fn blocks(&self) -> Blocks {
        Blocks((self.size / BLOCK_SIZE) as u64)
    }

    /// The buffer as shared bytes, without copying.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.size]
    }
}

impl std::ops::Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_ref()
    }
}

impl std::ops::DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.size]
    }
}

/// An aligned buffer that is being filled from its front.
pub struct AlignedBuilder {
    memory: Vec<u8>,
    start: usize,
    size: usize,
}

impl AlignedBuilder {
    /// Adds `bytes`. Panics if the buffer's blocks do not hold them.
    pub fn extend(&mut self, bytes: &[u8]) {
        assert!(self.len() + bytes.len() <= self.size, "more bytes than the buffer was made for");
        self.memory.extend_from_slice(bytes);
    }

    /// Bytes added so far.
    pub fn len(&self) -> usize {
        self.memory.len() - self.start
    }

    /// True if nothing was added yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes added from byte `at` on.
    pub fn from(&self, at: usize) -> &[u8] {
        &self.memory[self.start + at..]
    }

    /// Overwrites bytes added at byte `at`.
    pub fn set(&mut self, at: usize, bytes: &[u8]) {
        let at = self.start + at;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Fills the rest with zeros and shares the buffer.
    pub fn finish(self) -> Bytes {
        let (memory, range) = self.into_parts();
        Bytes::from(memory).slice(range)
    }

    /// Fills the rest with zeros; the memory, and where in it the blocks lie.
    pub(crate) fn into_parts(mut self) -> (Vec<u8>, Range<usize>) {
        let end = self.start + self.size;
        self.memory.resize(end, 0);
        (self.memory, self.start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_built_in_pieces_is_aligned_and_padded() {
        let mut builder = AlignedBuf::builder(Blocks(2));
        assert!(builder.is_empty());
        builder.extend(&[1; 5000]);
        builder.set(0, &[2, 3]);
        assert_eq!(builder.from(4999), [1]);
        let bytes = builder.finish();
        assert_eq!((bytes.len(), bytes.as_ptr().align_offset(BLOCK_SIZE)), (8192, 0));
        assert_eq!((&bytes[..3], &bytes[4999..5001]), (&[2, 3, 1][..], &[1, 0][..]));
    }

    #[test]
    fn buffers_are_aligned_and_stay_so() {
        for blocks in [0, 1, 3, 256] {
            let mut buffer = AlignedBuf::zeroed(Blocks(blocks));
            assert_eq!(buffer.blocks(), Blocks(blocks));
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(7);
            let frozen = buffer.freeze();
            assert_eq!(frozen.as_ptr().align_offset(BLOCK_SIZE), 0);
            assert!(frozen.iter().all(|&byte| byte == 7));
        }
    }
}
