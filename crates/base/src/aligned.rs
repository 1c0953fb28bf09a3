//! Memory that drives can read and write directly.

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

#[cfg(test)]
mod tests {
    use super::*;

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
