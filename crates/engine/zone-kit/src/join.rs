//! Many calls, one run of the work that they call for.
//!
//! The work serves everybody who asked before it began: a flush, a superblock, a sync. A run is polled by those who wait for
//! it and needs no task of its own, so a call that nobody joins is the work itself, poll for poll.
//!
//! **Owns** the order of runs. **Knows nothing of** the work.
//!
//! # Invariants
//! - ZK-JOIN-1: a caller gets the result of a run that began after its call, never that of an earlier one.
//! - ZK-JOIN-2: one run is under way at a time, and all calls that come meanwhile share the one after it.
//! - ZK-JOIN-3: a caller that goes away takes a run from nobody: the others go on with it, and if there are none, the next
//!   caller does.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::{Rc, Weak};

use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, Shared};

type Work<O> = dyn Fn() -> LocalBoxFuture<'static, O>;

/// One piece of work, for any number of callers on one thread.
pub struct Joint<O: Clone + 'static> {
    work: Rc<Work<O>>,
    last: RefCell<Option<Run<O>>>,
}

/// A run of the work, behind the one before it.
struct Run<O: Clone + 'static> {
    begun: Rc<Cell<bool>>,
    result: Shared<LocalBoxFuture<'static, O>>,
}

impl<O: Clone + 'static> Joint<O> {
    /// Calls for `work`, which must not call here itself: it would wait for its own end.
    pub fn new(work: impl Fn() -> LocalBoxFuture<'static, O> + 'static) -> Self {
        Self { work: Rc::new(work), last: RefCell::new(None) }
    }

    /// Calls for `work` of the `owner` that has this in itself; for `gone` once it was dropped.
    pub fn of<T: 'static, F: Future<Output = O> + 'static>(
        owner: Weak<T>,
        work: impl Fn(Rc<T>) -> F + 'static,
        gone: impl Fn() -> O + 'static,
    ) -> Self {
        Self::new(move || match owner.upgrade() {
            Some(owner) => work(owner).boxed_local(),
            None => std::future::ready(gone()).boxed_local(),
        })
    }

    /// The result of a run that begins at this call or later (ZK-JOIN-1). Counts as a call when it is made, not when it is
    /// first polled; the run begins with the first poll of one of its callers.
    pub fn call(&self) -> impl Future<Output = O> + use<O> {
        let last = &mut *self.last.borrow_mut();
        let run = match last.take() {
            Some(run) if !run.begun.get() => run,
            before => self.run_behind(before),
        };
        let result = run.result.clone();
        *last = Some(run);
        result
    }

    fn run_behind(&self, before: Option<Run<O>>) -> Run<O> {
        let begun = Rc::new(Cell::new(false));
        let (work, begins) = (self.work.clone(), begun.clone());
        let run = async move {
            if let Some(before) = before {
                before.result.await;
            }
            begins.set(true);
            work().await
        };
        Run { begun, result: run.boxed_local().shared() }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::{join, poll_immediate};

    use super::*;

    /// Work that ends when it is told to, and says which run it was.
    #[derive(Clone, Default)]
    struct Gate {
        runs: Rc<Cell<u32>>,
        open: Rc<Cell<u32>>,
    }

    impl Gate {
        fn joint(&self) -> Joint<u32> {
            let gate = self.clone();
            Joint::new(move || {
                let gate = gate.clone();
                gate.runs.set(gate.runs.get() + 1);
                let number = gate.runs.get();
                std::future::poll_fn(move |_| match number <= gate.open.get() {
                    true => std::task::Poll::Ready(number),
                    false => std::task::Poll::Pending,
                })
                .boxed_local()
            })
        }
    }

    /// ZK-JOIN-1 and ZK-JOIN-2.
    #[test]
    fn calls_during_a_run_share_the_next() {
        let gate = Gate::default();
        let joint = gate.joint();
        let (mut first, mut beside) = (joint.call(), joint.call());
        assert_eq!(poll_immediate(&mut first).now_or_never().flatten(), None);
        let late: Vec<_> = (0..5).map(|_| joint.call()).collect();
        gate.open.set(1);
        assert_eq!(first.now_or_never(), Some(1));
        assert_eq!(poll_immediate(&mut beside).now_or_never().flatten(), Some(1), "called before the run began");
        let mut late = late.into_iter();
        let mut second = late.next().unwrap();
        assert_eq!(poll_immediate(&mut second).now_or_never().flatten(), None, "a run of its own");
        gate.open.set(9);
        assert_eq!(second.now_or_never(), Some(2));
        assert!(late.all(|call| call.now_or_never() == Some(2)));
        assert_eq!(joint.call().now_or_never(), Some(3), "nothing is left of earlier runs");
        assert_eq!(gate.runs.get(), 3);
    }

    /// Work of an owner needs no more than the owner's own handle, and keeps nobody alive.
    #[test]
    fn work_ends_with_its_owner() {
        struct Owner(Joint<u32>);
        let owner = Rc::new_cyclic(|this: &Weak<Owner>| Owner(Joint::of(this.clone(), async |_| 7, || 0)));
        let (during, after) = (owner.0.call(), owner.0.call());
        assert_eq!(during.now_or_never(), Some(7));
        let late = owner.0.call();
        drop(owner);
        assert_eq!((after.now_or_never(), late.now_or_never()), (Some(7), Some(0)));
    }

    /// ZK-JOIN-3.
    #[test]
    fn a_caller_that_goes_away_takes_the_run_from_nobody() {
        let gate = Gate::default();
        let joint = gate.joint();
        let mut first = joint.call();
        assert_eq!(poll_immediate(&mut first).now_or_never().flatten(), None);
        let (second, third) = (joint.call(), joint.call());
        drop((first, second));
        assert_eq!(gate.runs.get(), 1);
        gate.open.set(2);
        assert_eq!(third.now_or_never(), Some(2), "behind the first run, which nobody else waits for");
    }

    /// ZK-JOIN-2: runs that all callers left are behind one another still, and only one is kept.
    #[test]
    fn abandoned_calls_leave_one_run() {
        let gate = Gate::default();
        let joint = gate.joint();
        for _ in 0..100 {
            assert_eq!(poll_immediate(joint.call()).now_or_never().flatten(), None);
        }
        gate.open.set(2);
        assert_eq!(join(joint.call(), joint.call()).now_or_never(), Some((2, 2)));
        assert_eq!(gate.runs.get(), 2);
    }
}
