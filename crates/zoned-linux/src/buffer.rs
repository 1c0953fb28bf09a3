//! Memory that the kernel fills: buffers of single reads, and a pool of small ones that is registered with the ring.
//!
//! **Owns** the memory and says who may touch it. **Knows nothing of** drives.
//!
//! # Invariants
//! - BF-1: while the kernel may write to a buffer, only its operation has it; as bytes it is shared only behind that, all
//!   of it written or zero.
//! - BF-2: a slot of the pool has one holder: an operation, or the bytes made of it.
//!
//! A process that has such a buffer with the kernel must not `fork` and let both go on. Memory is then shared until one
//! of them writes to it, and before Linux 5.12 the page that the kernel fills may be left to the child, while the parent
//! reads the other: stale bytes, which no check here can see. Starting another program is safe: `std::process::Command`
//! does it without that sharing, unless it is given a `pre_exec`.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use shingle_base::BLOCK_SIZE;

/// Whole blocks of memory, aligned to a block, zero at first.
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to the value alone, as that of a `Box<[u8]>` does.
unsafe impl Send for Memory {}
// SAFETY: through a shared reference it is only read ([`ReadBuffer::freeze`]); see BF-1 and BF-2 for the kernel's part.
unsafe impl Sync for Memory {}

impl Memory {
    /// `size` is a multiple of a block and not zero.
    fn new(size: usize) -> Self {
        assert!(size > 0 && size.is_multiple_of(BLOCK_SIZE), "whole blocks");
        let Ok(layout) = Layout::from_size_align(size, BLOCK_SIZE) else { panic!("a buffer of {size} bytes") };
        // Zeroed: large areas come so from the kernel at no cost, and a short read then shows no other data.
        // SAFETY: the layout's size is not zero.
        let Some(start) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        Self { start, layout }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Bytes of a slot: most reads of small objects and of indexes fit one.
pub(crate) const SLOT_BYTES: usize = 16 << 10;
/// Slots of the pool: 4 MiB together, half of what an ordinary user may have registered.
const SLOTS: usize = 256;

/// Memory registered with the ring, in slots.
pub(crate) struct Pool {
    memory: Memory,
    /// Slots that nobody holds, the last used last: its memory is likely in the processor's cache.
    free: Mutex<Vec<u16>>,
}

impl Pool {
    pub(crate) fn new() -> Arc<Self> {
        let free = Mutex::new((0..SLOTS as u16).rev().collect());
        Arc::new(Self { memory: Memory::new(SLOTS * SLOT_BYTES), free })
    }

    /// All of it, to be registered.
    pub(crate) fn area(&self) -> (*mut u8, usize) {
        (self.memory.start.as_ptr(), self.memory.layout.size())
    }

    /// Whether `bytes` lie in the pool.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        let area = self.memory.start.as_ptr() as usize;
        let at = bytes.as_ptr() as usize;
        at >= area && at + bytes.len() <= area + self.memory.layout.size()
    }

    fn take(self: &Arc<Self>) -> Option<Slot> {
        let number = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Slot { pool: self.clone(), number })
    }
}

/// One slot, held; given back when dropped.
struct Slot {
    pool: Arc<Pool>,
    number: u16,
}

impl Slot {
    fn start(&self) -> *mut u8 {
        // SAFETY: `number` is below `SLOTS`, so the slot lies in the pool's memory.
        unsafe { self.pool.memory.start.as_ptr().add(usize::from(self.number) * SLOT_BYTES) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

enum Place {
    Slot(Slot),
    Own(Memory),
}

/// Where a read goes: a slot of the pool if it fits one, else memory of its own.
pub(crate) struct ReadBuffer {
    place: Place,
    length: usize,
}

impl ReadBuffer {
    /// A buffer of `length` bytes, whole blocks and not zero.
    pub(crate) fn new(pool: &Arc<Pool>, length: usize) -> Self {
        let slot = if length <= SLOT_BYTES { pool.take() } else { None };
        let place = slot.map_or_else(|| Place::Own(Memory::new(length)), Place::Slot);
        Self { place, length }
    }

    /// Whether it lies in registered memory, if the pool is registered.
    pub(crate) fn pooled(&self) -> bool {
        matches!(self.place, Place::Slot(_))
    }

    pub(crate) fn start(&self) -> *mut u8 {
        match &self.place {
            Place::Slot(slot) => slot.start(),
            Place::Own(memory) => memory.start.as_ptr(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Shares what was read.
    ///
    /// # Safety
    /// No operation on the buffer is under way, and none begins later.
    pub(crate) unsafe fn freeze(self) -> Bytes {
        Bytes::from_owner(Filled(self))
    }
}

/// A buffer to which nobody writes any more.
struct Filled(ReadBuffer);

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `start` begins at least `length` bytes of memory that this value holds alone (BF-2), zeroed when it was
        // made, and nobody writes to it while this value lives, as `freeze` demands (BF-1).
        unsafe { std::slice::from_raw_parts(self.0.start(), self.0.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freeze(buffer: ReadBuffer) -> Bytes {
        // SAFETY: no operation was ever begun on it.
        unsafe { buffer.freeze() }
    }

    #[test]
    fn small_buffers_come_from_the_pool_and_go_back() {
        let pool = Pool::new();
        let held: Vec<Bytes> = (0..SLOTS).map(|_| freeze(ReadBuffer::new(&pool, BLOCK_SIZE))).collect();
        assert!(held.iter().all(|bytes| pool.holds(bytes) && bytes.len() == BLOCK_SIZE));
        let mut starts: Vec<_> = held.iter().map(|bytes| bytes.as_ptr()).collect();
        starts.sort_unstable();
        starts.dedup();
        assert_eq!(starts.len(), SLOTS, "BF-2");
        let more = ReadBuffer::new(&pool, BLOCK_SIZE);
        assert!(!more.pooled(), "the pool is used up");
        assert_eq!(more.start().align_offset(BLOCK_SIZE), 0);
        let part = held[3].slice(100..200);
        drop(held);
        let again: Vec<Bytes> = (1..SLOTS).map(|_| freeze(ReadBuffer::new(&pool, SLOT_BYTES))).collect();
        assert!(again.iter().all(|bytes| pool.holds(bytes) && !bytes.contains(&1)));
        assert!(!ReadBuffer::new(&pool, BLOCK_SIZE).pooled(), "a part of one is still held");
        drop(part);
        assert!(ReadBuffer::new(&pool, BLOCK_SIZE).pooled());
    }

    #[test]
    fn large_buffers_have_their_own_memory() {
        let pool = Pool::new();
        let large = freeze(ReadBuffer::new(&pool, SLOT_BYTES + BLOCK_SIZE));
        assert!(!pool.holds(&large) && large.iter().all(|&byte| byte == 0));
        assert_eq!((large.len(), large.as_ptr().align_offset(BLOCK_SIZE)), (SLOT_BYTES + BLOCK_SIZE, 0));
        drop(pool);
        std::thread::scope(|scope| drop(scope.spawn(move || large.len()).join()));
    }
}
