//! Large buffers, used again: a fresh megabyte costs the kernel more to map than its bytes cost to copy and verify.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::aligned::{AlignedBuf, AlignedBuilder};
use crate::units::{BLOCK_SIZE, Blocks};

/// Shorter buffers are cheaper from the allocator.
const LARGE: usize = 64 << 10;

/// Buffers that wait to be used again. They come back from whichever thread drops them last.
#[derive(Clone)]
pub struct BufferPool(Arc<Pool>);

struct Pool {
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The longest unused first.
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl BufferPool {
    /// A pool that keeps `bytes_max` bytes at most.
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Pool { bytes_max, kept: Mutex::default() }))
    }

    /// An empty buffer with room for `length` bytes.
    pub fn take(&self, length: usize) -> Vec<u8> {
        let kept = if length < LARGE { None } else { self.0.take(length) };
        kept.unwrap_or_else(|| Vec::with_capacity(length))
    }

    /// Shares a filled buffer; it comes back once its last user drops it.
    pub fn share(&self, bytes: Vec<u8>) -> Bytes {
        if bytes.capacity() < LARGE {
            Bytes::from(bytes)
        } else {
            Bytes::from_owner(Lent { bytes, pool: self.clone() })
        }
    }

    /// An aligned buffer for `length` blocks, as [`AlignedBuf::builder`] makes it.
    pub fn builder(&self, length: Blocks) -> AlignedBuilder {
        AlignedBuf::builder_in(self.take(length.bytes() as usize + BLOCK_SIZE), length)
    }

    /// Shares a built buffer, as [`AlignedBuilder::finish`] does; it comes back once its last user drops it.
    pub fn finish(&self, built: AlignedBuilder) -> Bytes {
        let (memory, range) = built.into_parts();
        self.share(memory).slice(range)
    }
}

impl Pool {
    fn take(&self, length: usize) -> Option<Vec<u8>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // The tightest fit, so that short reads do not hold the buffers of long writes; of equal ones the one used last,
        // which may still be in the processor's cache.
        let fits = kept.buffers.iter().enumerate().rev().filter(|(_, buffer)| buffer.capacity() >= length);
        let (at, _) = fits.min_by_key(|(_, buffer)| buffer.capacity())?;
        let mut buffer = kept.buffers.remove(at);
        kept.bytes -= buffer.capacity();
        buffer.clear();
        Some(buffer)
    }

    fn put(&self, buffer: Vec<u8>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.capacity() > self.bytes_max {
            return;
        }
        kept.bytes += buffer.capacity();
        kept.buffers.push(buffer);
        while kept.bytes > self.bytes_max {
            kept.bytes -= kept.buffers.remove(0).capacity();
        }
    }
}

/// A filled buffer that goes back when it is dropped.
struct Lent {
    bytes: Vec<u8>,
    pool: BufferPool,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.0.put(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_once_nobody_reads_it() {
        let pool = BufferPool::new(2 << 20);
        let mut first = pool.take(1 << 20);
        first.resize(1 << 20, 7);
        let address = first.as_ptr();
        let shared = pool.share(first);
        let second = pool.take(1 << 20);
        assert_ne!(second.as_ptr(), address, "it is still being read");
        assert!(shared.iter().all(|&byte| byte == 7));
        drop(shared);
        let again = pool.take(1 << 20);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
    }

    #[test]
    fn the_tightest_fit_is_taken_and_the_longest_unused_given_up() {
        let pool = BufferPool::new(7 * LARGE);
        let capacity = |shared: &Bytes| shared.len();
        let [small, large] = [1, 4].map(|size| pool.share(vec![0; size * LARGE]));
        let lengths = [capacity(&small), capacity(&large)];
        drop([large, small]);
        assert_eq!(pool.take(LARGE).capacity(), lengths[0]);
        drop(pool.share(vec![0; 6 * LARGE]));
        assert_eq!(pool.take(2 * LARGE).capacity(), 6 * LARGE, "the one of four gave way");
        assert_eq!(pool.0.kept.lock().unwrap().bytes, 0);
    }

    #[test]
    fn aligned_buffers_come_back_too() {
        let pool = BufferPool::new(1 << 20);
        let mut built = pool.builder(Blocks(64));
        built.extend(&[3; 5000]);
        let shared = pool.finish(built);
        let whole = [&[3; 5000][..], &vec![0; 64 * BLOCK_SIZE - 5000]].concat();
        assert_eq!((shared.as_ptr().align_offset(BLOCK_SIZE), &shared[..]), (0, &whole[..]));
        let address = shared.as_ptr();
        drop(shared);
        assert_eq!(pool.finish(pool.builder(Blocks(64))).as_ptr(), address);
    }
}
