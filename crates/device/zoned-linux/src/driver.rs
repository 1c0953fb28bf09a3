//! Driving a ring on its owner's thread.
//!
//! The driver is a task beside the owner's. It runs behind the tasks that were ready before it, so their commands are
//! submitted together; then it sleeps until something is queued, or the ring's event says that something is done.
//!
//! **Owns** the times of entering the kernel, and the end of a ring that the kernel refuses. **Knows nothing of** the
//! operations' purpose.
//!
//! # Invariants
//! - ZL-DR-1: every operation that was pushed is completed, or its tag dropped: by a ring that fails, at once.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::io::unix::AsyncFd;

use crate::buffer::ReadBuffer;
use crate::ring::{Completed, Io, Ring};

/// Owner of a ring's operations, tagged `Work`.
pub(crate) trait Owner: 'static {
    type Work;
    fn seat(&self) -> &Seat<Self::Work>;
    /// The ring has done its part of an operation.
    fn done(self: &Rc<Self>, completed: Completed<Self::Work>);
    /// The kernel refuses the ring. It has let go of all its work, and will of all that is pushed.
    fn refused(&self);
}

/// A ring with what wakes its driver. Fields are dropped in this order.
struct Watched<T> {
    watch: AsyncFd<OwnedFd>,
    ring: Ring<T>,
}

/// An owner's place for its ring.
pub(crate) struct Seat<T> {
    /// `None` once closed.
    io: RefCell<Option<Watched<T>>>,
    /// Wakes the driver when something was queued.
    driver: RefCell<Option<Waker>>,
}

impl<T> Seat<T> {
    /// A ring for `file`.
    ///
    /// # Errors
    /// The kernel has no io_uring, or forbids it.
    pub(crate) fn new(file: Arc<dyn AsFd>) -> io::Result<Self> {
        let ring = Ring::new(file)?;
        let watch = ring.watch()?;
        Ok(Self { io: RefCell::new(Some(Watched { watch, ring })), driver: RefCell::new(None) })
    }

    /// Queues an operation at byte `at`. If the ring is closed or refused its tag is dropped.
    pub(crate) fn push(&self, io: Io, at: u64, tag: T) {
        let dropped = match self.io.borrow_mut().as_mut() {
            Some(own) => own.ring.push(io, at, tag),
            None => Some(tag),
        };
        // Only now: the drop may free the owner of this seat.
        drop(dropped);
        self.wake();
    }

    /// A buffer for a read of `length` bytes; `None`: the ring is closed.
    pub(crate) fn read_buffer(&self, length: usize) -> Option<ReadBuffer> {
        self.io.borrow().as_ref().map(|io| io.ring.read_buffer(length))
    }

    /// Waits for the kernel's operations, and ends ring and driver. Returns their results.
    pub(crate) fn close(&self) -> Vec<Completed<T>> {
        let io = self.io.borrow_mut().take();
        let completed = io.map_or_else(Vec::new, |Watched { watch, ring }| {
            drop(watch);
            ring.close()
        });
        self.wake();
        completed
    }

    /// Operations that were pushed and are not completed.
    #[cfg(test)]
    pub(crate) fn under_way(&self) -> usize {
        self.io.borrow().as_ref().map_or(0, |own| own.ring.under_way())
    }

    /// From now on the kernel refuses the ring.
    #[cfg(test)]
    pub(crate) fn sever(&self) {
        if let Some(own) = self.io.borrow().as_ref() {
            own.ring.sever();
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.driver.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl<T> Watched<T> {
    /// One turn of the ring, if it has something to do; `None`: it has not.
    fn turn(&mut self, context: &mut Context<'_>, out: &mut Vec<Completed<T>>) -> Option<io::Result<()>> {
        // Forgets the readiness first: a completion from here on makes the event ready again.
        while let Poll::Ready(Ok(mut ready)) = self.watch.poll_read_ready(context) {
            ready.clear_ready();
        }
        self.ring.ready().then(|| self.ring.turn(out))
    }
}

/// An owner whose driver runs. Without a driver nothing would be completed any more: the seat is closed.
struct Driven<O: Owner>(Rc<O>);

impl<O: Owner> Drop for Driven<O> {
    fn drop(&mut self) {
        drop(self.0.seat().close());
    }
}

/// Runs until the seat is closed.
pub(crate) async fn drive<O: Owner>(owner: Rc<O>) {
    let mut done = Vec::new();
    let driven = Driven(owner);
    std::future::poll_fn(move |context| {
        let owner = &driven.0;
        let seat = owner.seat();
        // Asked for before looking, so that nothing queued behind the look is missed.
        *seat.driver.borrow_mut() = Some(context.waker().clone());
        let turned = match seat.io.borrow_mut().as_mut() {
            Some(io) => io.turn(context, &mut done),
            None => return Poll::Ready(()),
        };
        let progress = !done.is_empty();
        for completed in done.drain(..) {
            owner.done(completed);
        }
        match turned {
            None => {}
            Some(Ok(())) if progress => {
                // Woken tasks go first; their operations are submitted together.
                seat.wake();
            }
            Some(Ok(())) => {
                let again = seat.io.borrow_mut().as_mut().is_some_and(|io| io.ring.ready());
                if again {
                    seat.wake();
                }
            }
            Some(Err(error)) => {
                tracing::error!(%error, "the kernel refuses to go on with the drive's ring");
                owner.refused();
                // Only then, so that a task that hears of it finds the drive gone.
                let abandoned = seat.io.borrow_mut().as_mut().map(|io| io.ring.abandon());
                drop(abandoned);
            }
        }
        Poll::Pending
    })
    .await;
}
