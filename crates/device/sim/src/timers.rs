//! Timers of a simulation: due times and waiting tasks.
//!
//! # Invariants
//! - SIM-TIME-1: timers ring in the order of their times, those of one time in the order in which they were set; also those
//!   whose waiter is gone, since time stops at them.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use shingle_runtime::Instant;

/// All timers. Futures hold it, so it must not hold futures: only their wakers.
#[derive(Default)]
pub(crate) struct Timers(RefCell<Inner>);

#[derive(Default)]
struct Inner {
    /// By time and number, with the place of the waiter.
    due: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    set: u64,
    waiting: Vec<Waiting>,
    free: Vec<usize>,
}

/// Waiter of a timer.
enum Waiting {
    /// Nobody has looked yet.
    Set,
    /// A task does.
    By(Waker),
    /// It has rung.
    Rung,
    /// The future was dropped.
    Nobody,
}

/// Completes when its timer has rung.
pub(crate) struct Sleep {
    timers: Rc<Timers>,
    place: usize,
}

impl Timers {
    /// Sets a timer.
    pub(crate) fn set(self: &Rc<Self>, at: Instant) -> Sleep {
        let inner = &mut *self.0.borrow_mut();
        let place = inner.free.pop().unwrap_or(inner.waiting.len());
        if place == inner.waiting.len() {
            inner.waiting.push(Waiting::Set);
        } else {
            inner.waiting[place] = Waiting::Set;
        }
        inner.due.push(Reverse((at, inner.set, place)));
        inner.set += 1;
        Sleep { timers: self.clone(), place }
    }

    /// Lets the next timer ring. Returns its time, and the task to wake.
    pub(crate) fn ring(&self) -> Option<(Instant, Option<Waker>)> {
        let inner = &mut *self.0.borrow_mut();
        let Reverse((at, _, place)) = inner.due.pop()?;
        match std::mem::replace(&mut inner.waiting[place], Waiting::Rung) {
            Waiting::By(waker) => Some((at, Some(waker))),
            Waiting::Nobody => {
                inner.free.push(place);
                Some((at, None))
            }
            Waiting::Set | Waiting::Rung => Some((at, None)),
        }
    }

    /// Forgets all timers: none will ring.
    pub(crate) fn clear(&self) {
        self.0.borrow_mut().due.clear();
    }
}

impl Future for Sleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.timers.0.borrow_mut().waiting[self.place] {
            Waiting::Rung => return Poll::Ready(()),
            Waiting::By(waker) => waker.clone_from(context.waker()),
            waiting => *waiting = Waiting::By(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let inner = &mut *self.timers.0.borrow_mut();
        if matches!(inner.waiting[self.place], Waiting::Rung) {
            inner.free.push(self.place);
        } else {
            inner.waiting[self.place] = Waiting::Nobody;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant { nanos }
    }

    /// SIM-TIME-1.
    #[test]
    fn timers_ring_in_order_and_a_dropped_one_still_stops_time() {
        let timers = Rc::new(Timers::default());
        let (mut late, dropped, early) = (timers.set(at(9)), timers.set(at(5)), timers.set(at(5)));
        drop(dropped);
        let rung: Vec<u64> = (0..2).filter_map(|_| timers.ring()).map(|(at, _)| at.nanos).collect();
        assert_eq!(rung, [5, 5]);
        assert!(early.now_or_never().is_some() && (&mut late).now_or_never().is_none());
        assert!(timers.ring().is_some() && late.now_or_never().is_some() && timers.ring().is_none());
        // Places are used again.
        drop((timers.set(at(10)), timers.set(at(10)), timers.set(at(10))));
        assert_eq!(timers.0.borrow().waiting.len(), 3);
    }
}
