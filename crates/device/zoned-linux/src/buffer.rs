//! Memory that the kernel fills: buffers of reads, of which the small ones are registered with the ring. All are used
//! again: mapping, clearing and returning fresh memory costs the kernel more than reading into it.
//!
//! **Owns** the memory and the right to touch it. **Knows nothing of** drives.
//!
//! # Invariants
//! - ZL-BF-1: while the kernel may write to a buffer, only its operation has it; it is shared as bytes only after that,
//!   all of it written: an operation that read less than all of it has failed (ZL-RG-2).
//! - ZL-BF-2: a slot of the pool, and a large buffer, has one holder: an operation, or the bytes made of it.
//! - ZL-BF-3: buffers that wait to be used again have at most `LARGE_BYTES` together. `large_buffers_are_used_again`.
//!
//! A process that has such a buffer with the kernel must not `fork` and let both go on. Memory is then shared until one
//! of them writes to it, and before Linux 5.12 the page that the kernel fills may be left to the child, while the
//! parent reads the other: stale bytes, which no check here can see. Starting another program is safe:
//! `std::process::Command` does it without that sharing, unless it is given a `pre_exec`.

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
// SAFETY: through a shared reference it is only read ([`ReadBuffer::freeze`]); see ZL-BF-1 and ZL-BF-2 for the kernel's part.
unsafe impl Sync for Memory {}

impl Memory {
    /// `size` is a multiple of a block and not zero.
    fn new(size: usize) -> Self {
        assert!(size > 0 && size.is_multiple_of(BLOCK_SIZE), "whole blocks");
        let Ok(layout) = Layout::from_size_align(size, BLOCK_SIZE) else { panic!("a buffer of {size} bytes") };
        // Zeroed: all of it is then memory that may be read, whatever the kernel writes.
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

/// Larger buffers have a multiple of this, so that reads of similar length can share them.
const LARGE_STEP: usize = 64 << 10;
/// Bytes of large buffers that wait to be used again: some reads of a MiB.
const LARGE_BYTES: usize = 8 << 20;

/// Memory registered with the ring, in slots, and large buffers that wait to be used again.
pub(crate) struct Pool {
    memory: Memory,
    /// Free slots, the last used last: its memory is likely in the processor's cache.
    free: Mutex<Vec<u16>>,
    /// The last used last as well.
    large: Mutex<Vec<Memory>>,
}

impl Pool {
    pub(crate) fn new() -> Arc<Self> {
        let free = Mutex::new((0..SLOTS as u16).rev().collect());
        Arc::new(Self { memory: Memory::new(SLOTS * SLOT_BYTES), free, large: Mutex::default() })
    }

    /// All of it, to be registered.
    pub(crate) fn area(&self) -> (*mut u8, usize) {
        (self.memory.start.as_ptr(), self.memory.layout.size())
    }

    /// True if `bytes` lie in the pool.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        let area = self.memory.start.as_ptr() as usize;
        let at = bytes.as_ptr() as usize;
        at >= area && at + bytes.len() <= area + self.memory.layout.size()
    }

    fn take(self: &Arc<Self>) -> Option<Slot> {
        let number = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Slot { pool: self.clone(), number })
    }

    fn take_large(self: &Arc<Self>, length: usize) -> Large {
        let kept = {
            let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
            // The tightest fit, and nothing far too long.
            let fits = large.iter().enumerate().rev().filter(|(_, memory)| {
                (length..=2 * length.next_multiple_of(LARGE_STEP)).contains(&memory.layout.size())
            });
            let at = fits.min_by_key(|(_, memory)| memory.layout.size()).map(|(at, _)| at);
            at.map(|at| large.remove(at))
        };
        let memory = kept.unwrap_or_else(|| Memory::new(length.next_multiple_of(LARGE_STEP)));
        Large { pool: self.clone(), memory: Some(memory) }
    }

    fn keep_large(&self, memory: Memory) {
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.layout.size() > LARGE_BYTES {
            return;
        }
        large.push(memory);
        let mut bytes: usize = large.iter().map(|memory| memory.layout.size()).sum();
        while bytes > LARGE_BYTES {
            // The longest unused.
            bytes -= large.remove(0).layout.size();
        }
    }
}

/// A large buffer, held; given back when dropped.
struct Large {
    pool: Arc<Pool>,
    /// Always there, until it is dropped.
    memory: Option<Memory>,
}

impl Large {
    fn start(&self) -> *mut u8 {
        self.memory.as_ref().map_or(std::ptr::null_mut(), |memory| memory.start.as_ptr())
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.keep_large(memory);
        }
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

enum Backing {
    Slot(Slot),
    Large(Large),
}

/// Buffer of a read: a slot of the pool if it fits one, else a large buffer.
pub(crate) struct ReadBuffer {
    backing: Backing,
    length: usize,
}

impl ReadBuffer {
    /// A buffer of `length` bytes, whole blocks and not zero.
    pub(crate) fn new(pool: &Arc<Pool>, length: usize) -> Self {
        let slot = if length <= SLOT_BYTES { pool.take() } else { None };
        let backing = slot.map_or_else(|| Backing::Large(pool.take_large(length)), Backing::Slot);
        Self { backing, length }
    }

    /// True if it lies in registered memory, if the pool is registered.
    pub(crate) fn pooled(&self) -> bool {
        matches!(self.backing, Backing::Slot(_))
    }

    pub(crate) fn start(&self) -> *mut u8 {
        match &self.backing {
            Backing::Slot(slot) => slot.start(),
            Backing::Large(large) => large.start(),
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

/// A buffer that is not written any more.
struct Filled(ReadBuffer);

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `start` begins at least `length` bytes of memory that this value holds alone (ZL-BF-2), zeroed when it came
        // from the allocator, and nobody writes to it while this value lives, as `freeze` demands (ZL-BF-1).
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
        assert_eq!(starts.len(), SLOTS, "ZL-BF-2");
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

    /// ZL-BF-2 and ZL-BF-3.
    #[test]
    fn large_buffers_are_used_again() {
        let pool = Pool::new();
        let mib = 1 << 20;
        let first = freeze(ReadBuffer::new(&pool, mib));
        let (start, part) = (first.as_ptr(), first.slice(5..10));
        drop(first);
        assert_ne!(ReadBuffer::new(&pool, mib).start().cast_const(), start, "a part of it is still held");
        drop(part);
        // A little shorter or longer is no other length.
        for length in [mib, mib - 5 * BLOCK_SIZE, mib - 15 * BLOCK_SIZE] {
            let again = ReadBuffer::new(&pool, length);
            assert_eq!((again.start().cast_const(), again.len(), again.pooled()), (start, length, false));
        }
        assert_ne!(ReadBuffer::new(&pool, SLOT_BYTES + BLOCK_SIZE).start().cast_const(), start, "far too long");
        let kept = |pool: &Pool| pool.large.lock().unwrap().iter().map(|memory| memory.layout.size()).sum::<usize>();
        drop((0..40).map(|_| ReadBuffer::new(&pool, mib)).collect::<Vec<_>>());
        assert_eq!(kept(&pool), LARGE_BYTES);
        drop(ReadBuffer::new(&pool, LARGE_BYTES + mib));
        assert_eq!(kept(&pool), LARGE_BYTES);
    }
}
