//! A budget of memory for bytes that wait: half of it is common, half is shares.
//!
//! Bytes wait in memory for clients that are slow to take or to send them. If all of the budget were common, the first
//! clients could keep all others waiting for as long as they like. So no client waits: one that gets no part of the
//! common half works in small pieces, and each piece has a share of its own.
//!
//! # Invariants
//! - RT-MEM-1: as long as there are no more users than the budget was made for, and each holds at most [`SHARES`] things of the
//!   size of a share, all of them together stay within it.
//! - RT-MEM-2: [`Memory::take`] never waits. [`Memory::take_all`] does, for what must be whole.
//! - RT-MEM-3: bytes that are late hold no part of the common half ([`Incoming`]): those who wait for a slow drive, however
//!   many, leave it to all others.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit of the budget, in bytes: so that a large one can be counted.
const UNIT: usize = 4096;

/// Things that one user may hold in its shares at a time.
pub const SHARES: usize = 3;

/// The budget.
#[derive(Debug)]
pub struct Memory {
    common: Arc<Semaphore>,
    /// Units of `common` in all.
    units: usize,
    share: usize,
    limit: u64,
    counts: Arc<Counts>,
}

/// Figures for metrics.
#[derive(Debug, Default)]
struct Counts {
    /// Reserved bytes, shares among them.
    used: AtomicU64,
    /// Callers waiting in [`Memory::take_all`].
    waiting: AtomicU64,
}

/// A part of the budget, until it is dropped.
#[derive(Debug)]
pub struct Reservation {
    bytes: usize,
    /// Its part of the common half, unless it is a share.
    common: Option<OwnedSemaphorePermit>,
    counts: Arc<Counts>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.counts.used.fetch_sub(self.bytes as u64, Relaxed);
    }
}

/// Bytes that someone waits for, and a reservation for them until they are late. Once they are there it takes one again, which may
/// be for fewer: the caller keeps as many, and fetches the others anew. For callers who poll it until then: of bytes that are late nobody knows when they come.
pub struct Incoming<F, L> {
    memory: Arc<Memory>,
    want: usize,
    /// `None`: late, or there.
    reserved: Option<Reservation>,
    bytes: F,
    late: L,
}

impl<F, L> Incoming<F, L> {
    /// `want` bytes, which are late once `late` has come.
    pub fn new(memory: Arc<Memory>, want: usize, late: L, fetch: impl FnOnce(usize) -> F) -> Self {
        let reserved = memory.take(want);
        let (want, bytes) = (reserved.bytes, fetch(reserved.bytes));
        Self { memory, want, reserved: Some(reserved), bytes, late }
    }

    /// Bytes that are fetched.
    pub fn want(&self) -> usize {
        self.want
    }

    /// True if they are late: nothing is reserved for them.
    pub fn is_late(&self) -> bool {
        self.reserved.is_none()
    }

    /// Reserves for them until they are polled the next time, so that nobody need wait for them. False if there is not enough.
    pub fn hold(&mut self) -> bool {
        if self.reserved.is_none() {
            self.reserved = Some(self.memory.take(self.want)).filter(|reserved| reserved.bytes == self.want);
        }
        self.reserved.is_some()
    }
}

impl<F: Future + Unpin, L: Future + Unpin> Future for Incoming<F, L> {
    type Output = (F::Output, Reservation);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Poll::Ready(bytes) = Pin::new(&mut this.bytes).poll(context) {
            return Poll::Ready((bytes, this.reserved.take().unwrap_or_else(|| this.memory.take(this.want))));
        }
        // A share is nobody else's.
        if this.reserved.as_ref().is_some_and(|reserved| reserved.common.is_some()) {
            ready!(Pin::new(&mut this.late).poll(context));
            this.reserved = None;
        }
        Poll::Pending
    }
}

/// One more waits while it lives.
struct Waiting<'m>(&'m Counts);

impl<'m> Waiting<'m> {
    fn begin(counts: &'m Counts) -> Self {
        counts.waiting.fetch_add(1, Relaxed);
        Self(counts)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl Memory {
    /// A budget of `bytes` for at most `users` at a time. Each has shares of at least 4 KiB, whatever the budget.
    pub fn new(bytes: u64, users: usize) -> Arc<Self> {
        let (limit, bytes) = (bytes, usize::try_from(bytes).unwrap_or(usize::MAX));
        let units = (bytes / 2 / UNIT).min(u32::MAX as usize).min(Semaphore::MAX_PERMITS);
        let share = bytes / 2 / users.max(1) / SHARES / UNIT * UNIT;
        let (common, share) = (Arc::new(Semaphore::new(units)), share.max(UNIT));
        Arc::new(Self { common, units, share, limit, counts: Arc::default() })
    }

    /// A budget without a limit.
    pub fn unbounded() -> Arc<Self> {
        let (common, counts) = (Arc::new(Semaphore::new(0)), Arc::default());
        Arc::new(Self { common, units: 0, share: usize::MAX, limit: u64::MAX, counts })
    }

    /// Bytes of a share.
    pub fn share(&self) -> usize {
        self.share
    }

    /// Bytes of the budget.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Reserved bytes at present, shares among them.
    pub fn used(&self) -> u64 {
        self.counts.used.load(Relaxed)
    }

    /// Callers waiting in [`Memory::take_all`].
    pub fn waiting(&self) -> u64 {
        self.counts.waiting.load(Relaxed)
    }

    fn reserve(&self, bytes: usize, common: Option<OwnedSemaphorePermit>) -> Reservation {
        self.counts.used.fetch_add(bytes as u64, Relaxed);
        Reservation { bytes, common, counts: self.counts.clone() }
    }

    /// Bytes in use of the common half.
    pub fn common_used(&self) -> u64 {
        (self.units.saturating_sub(self.common.available_permits()) * UNIT) as u64
    }

    /// `want` bytes, or a share's bytes if the common half has fewer at present. (RT-MEM-2)
    pub fn take(&self, want: usize) -> Reservation {
        if want <= self.share {
            return self.reserve(want, None);
        }
        match self.common.clone().try_acquire_many_owned(self.units_of(want)) {
            Ok(common) => self.reserve(want, Some(common)),
            Err(_) => self.reserve(self.share, None),
        }
    }

    /// `want` bytes, at most all of the common half, once there are as many.
    pub async fn take_all(&self, want: usize) -> Reservation {
        if want <= self.share {
            return self.reserve(want, None);
        }
        let units = self.units_of(want).min(self.units as u32);
        // It is never closed.
        let waiting = Waiting::begin(&self.counts);
        let common = self.common.clone().acquire_many_owned(units).await.ok();
        drop(waiting);
        self.reserve(want, common)
    }

    fn units_of(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
    }
}

impl Reservation {
    /// The bytes that may wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    const MIB: usize = 1 << 20;

    /// RT-MEM-1 and RT-MEM-2: half of the budget is common, and then each user has a share.
    #[test]
    fn without_the_common_half_there_is_a_share() {
        let memory = Memory::new(96 * MIB as u64, 16);
        assert_eq!(memory.share(), MIB);
        let mut reserved: Vec<_> = (0..24).map(|_| memory.take(2 * MIB)).collect();
        assert!(reserved.iter().all(|one| one.bytes() == 2 * MIB));
        assert_eq!(memory.common_used(), 48 * MIB as u64);
        let short = memory.take(2 * MIB);
        assert_eq!(short.bytes(), MIB);
        assert_eq!(memory.take(100).bytes(), 100);
        reserved.pop();
        assert_eq!(memory.take(2 * MIB).bytes(), 2 * MIB);
        let all = 16 * SHARES * memory.share() + 48 * MIB;
        assert!(all <= 96 * MIB, "{all} bytes of 96 MiB");
    }

    /// RT-MEM-3.
    #[test]
    fn who_waits_for_late_bytes_holds_nothing_of_the_common_half() {
        let memory = Memory::new(96 * MIB as u64, 16);
        let late = oneshot::channel();
        let there = oneshot::channel();
        let incoming = |want, late, there| Incoming::new(memory.clone(), want, late, |_| there);
        let mut waited = incoming(2 * MIB, late.1, there.1);
        assert!((&mut waited).now_or_never().is_none() && !waited.is_late());
        assert_eq!(memory.common_used(), 2 * MIB as u64);
        late.0.send(()).unwrap();
        assert!((&mut waited).now_or_never().is_none() && waited.is_late());
        assert_eq!(memory.used(), 0);
        // It takes what there is when its bytes come.
        let others = memory.take(47 * MIB);
        there.0.send(()).unwrap();
        let (_, reserved) = waited.now_or_never().unwrap();
        assert_eq!((reserved.bytes(), memory.common_used()), (MIB, 47 * MIB as u64));
        // A share is kept, however late; and bytes that are in time keep what they have.
        let (late, there) = (oneshot::channel(), oneshot::channel());
        late.0.send(()).unwrap();
        let mut short = incoming(2 * MIB, late.1, there.1);
        assert!((&mut short).now_or_never().is_none() && !short.is_late());
        assert_eq!(short.want(), MIB);
        drop(others);
        let (late, there) = (oneshot::channel(), oneshot::channel());
        late.0.send(()).unwrap();
        there.0.send(()).unwrap();
        let (_, reserved) = incoming(2 * MIB, late.1, there.1).now_or_never().unwrap();
        assert_eq!(reserved.bytes(), 2 * MIB);
    }

    #[test]
    fn what_must_be_whole_waits_and_is_never_too_much() {
        let memory = Memory::new(16 * MIB as u64, 1024);
        assert_eq!(memory.share(), UNIT);
        let first = memory.take(8 * MIB);
        let mut second = Box::pin(memory.take_all(100 * MIB));
        assert!(second.as_mut().now_or_never().is_none());
        assert_eq!((memory.limit(), memory.used(), memory.waiting()), (16 * MIB as u64, 8 * MIB as u64, 1));
        drop(first);
        let reserved = second.now_or_never().unwrap();
        assert_eq!((reserved.bytes(), memory.used(), memory.waiting()), (100 * MIB, 100 * MIB as u64, 0));
        drop(reserved);
        let share = memory.take(100);
        assert_eq!((memory.common_used(), memory.used()), (0, 100));
        drop(share);
        // One that gives up waits no more.
        let all = memory.take(8 * MIB);
        assert!(Box::pin(memory.take_all(8 * MIB)).as_mut().now_or_never().is_none());
        assert_eq!(memory.waiting(), 0);
        drop(all);
        assert_eq!((memory.common_used(), memory.used()), (0, 0));
        assert_eq!(Memory::unbounded().take(1 << 40).bytes(), 1 << 40);
    }
}
