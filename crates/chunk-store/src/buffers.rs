//! Buffers of large reads, used again: a fresh megabyte costs the kernel more to map than its bytes cost to verify.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Reads shorter than this have a buffer of their own.
const LARGE: usize = 64 << 10;

/// Buffers kept at most, and the largest that is kept.
const KEPT_MAX: usize = 8;
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Buffers that wait to be used again. They come back from whichever thread drops them.
#[derive(Clone, Default)]
pub(crate) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

/// A filled buffer that goes back when it is dropped.
struct Lent {
    bytes: Vec<u8>,
    home: Buffers,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.bytes.capacity() <= KEPT_BYTES_MAX {
            let mut kept = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < KEPT_MAX {
                kept.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}

impl Buffers {
    /// An empty buffer with room for `length` bytes.
    pub(crate) fn take(&self, length: usize) -> Vec<u8> {
        if length >= LARGE {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = kept.iter().position(|buffer| buffer.capacity() >= length) {
                let mut buffer = kept.swap_remove(at);
                buffer.clear();
                return buffer;
            }
        }
        Vec::with_capacity(length)
    }

    /// Shares a filled buffer; it comes back once nobody has it any more.
    pub(crate) fn share(&self, bytes: Vec<u8>) -> Bytes {
        if bytes.len() < LARGE { Bytes::from(bytes) } else { Bytes::from_owner(Lent { bytes, home: self.clone() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_once_nobody_reads_it() {
        let buffers = Buffers::default();
        let mut first = buffers.take(1 << 20);
        first.resize(1 << 20, 7);
        let address = first.as_ptr();
        let shared = buffers.share(first);
        let second = buffers.take(1 << 20);
        assert_ne!(second.as_ptr(), address, "it is still being read");
        assert!(shared.iter().all(|&byte| byte == 7));
        drop(shared);
        let again = buffers.take(1 << 20);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
    }
}
