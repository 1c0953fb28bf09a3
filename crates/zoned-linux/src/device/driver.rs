//! Driving the ring on the owner's thread.
//!
//! The driver is a task beside the owner's. It runs behind the tasks that were ready before it, so what these start is
//! submitted together; then it sleeps until something is queued, or the ring's event says that something is done.
//!
//! **Owns** when the kernel is entered. **Knows nothing of** what operations are for.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::unix::AsyncFd;

use super::Shared;
use super::command::Work;
use crate::node::Node;
use crate::ring::{Completed, Ring};

/// A device's way to the drive. Fields are dropped in this order: the ring lets go of the node before that is closed.
pub(super) struct Io {
    watch: AsyncFd<OwnedFd>,
    pub(super) ring: Ring<Work>,
    pub(super) node: Arc<Node>,
}

impl Io {
    pub(super) fn new(ring: Ring<Work>, node: Arc<Node>) -> io::Result<Self> {
        let watch = ring.watch()?;
        Ok(Self { watch, ring, node })
    }

    /// Waits for what the drive has, and closes the node.
    pub(super) fn close(self) -> Vec<Completed<Work>> {
        let Self { watch, ring, node } = self;
        drop(watch);
        let completed = ring.close();
        node.close();
        completed
    }

    /// One turn of the ring, if it has something to do; `None`: it has not.
    fn turn(&mut self, context: &mut Context<'_>, out: &mut Vec<Completed<Work>>) -> Option<io::Result<()>> {
        // Forgets the readiness first: what completes from here on makes the event ready again.
        while let Poll::Ready(Ok(mut ready)) = self.watch.poll_read_ready(context) {
            ready.clear_ready();
        }
        self.ring.ready().then(|| self.ring.turn(out))
    }
}

/// Runs until the device is dropped.
pub(super) async fn drive(shared: Rc<Shared>) {
    let mut done = Vec::new();
    std::future::poll_fn(move |context| {
        // Asked for before looking, so that nothing queued behind the look is missed.
        *shared.driver.borrow_mut() = Some(context.waker().clone());
        let turned = match shared.io.borrow_mut().as_mut() {
            Some(io) => io.turn(context, &mut done),
            None => return Poll::Ready(()),
        };
        let progress = !done.is_empty();
        for completed in done.drain(..) {
            shared.complete(completed);
        }
        match turned {
            None => {}
            Some(Ok(())) if progress => {
                // Those that were woken go first; what they start is submitted together.
                shared.wake_driver();
            }
            Some(Ok(())) => {
                let again = shared.io.borrow_mut().as_mut().is_some_and(|io| io.ring.ready());
                if again {
                    shared.wake_driver();
                }
            }
            Some(Err(error)) => {
                tracing::error!(%error, "the kernel refuses to go on with the drive's ring");
                shared.gone.set(true);
            }
        }
        Poll::Pending
    })
    .await;
}
