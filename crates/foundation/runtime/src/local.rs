//! The contract, and the handle through which engines use it.

use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tokio::sync::oneshot;

use crate::time::{Instant, UnixTime};
use crate::work::Work;

/// Services of an executor. Engines use them through [`Runtime`].
pub trait Contract {
    /// The time now.
    fn now(&self) -> Instant;
    /// The wall-clock time now.
    fn unix_time(&self) -> UnixTime;
    /// Completes once `duration` has passed.
    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()>;
    /// Runs `task` beside the caller, on the same thread.
    fn spawn(&self, task: LocalBoxFuture<'static, ()>);
    /// A random number: from the operating system, or from the seed of a simulation.
    fn random(&self) -> u64;
    /// Runs `work` where it may block: on another thread, or at once in a simulation.
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>);
    /// Takes note that the caller has done `work` for so many things. Real work has taken its time already.
    fn worked(&self, _work: Work, _things: u64) {}
}

/// A handle to the executor that runs the caller. Cheap to clone; stays on its thread.
#[derive(Clone)]
pub struct Runtime(Rc<dyn Contract>);

/// A spawned task's result, when awaited. Dropping it lets the task go on alone.
pub struct Task<T>(oneshot::Receiver<T>);

/// The task ended without a result: it panicked, or its executor was shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLost;

impl fmt::Display for TaskLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a task was lost: it panicked, or its executor was shut down")
    }
}

impl std::error::Error for TaskLost {}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskLost>;
    fn poll(self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        let receiver = std::pin::Pin::new(&mut self.get_mut().0);
        receiver.poll(context).map(|result| result.map_err(|_| TaskLost))
    }
}

impl Runtime {
    /// A handle to `executor`.
    pub fn new(executor: Rc<dyn Contract>) -> Self {
        Self(executor)
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        self.0.now()
    }

    /// The wall-clock time now.
    pub fn unix_time(&self) -> UnixTime {
        self.0.unix_time()
    }

    /// Completes once `duration` has passed.
    pub async fn sleep(&self, duration: Duration) {
        self.0.sleep(duration).await;
    }

    /// Lets every other task that is ready run first.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        std::future::poll_fn(|context| {
            if yielded {
                return std::task::Poll::Ready(());
            }
            yielded = true;
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
    }

    /// Runs `future` beside the caller, on the same thread.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T> {
        let (sender, receiver) = oneshot::channel();
        self.0.spawn(Box::pin(async move {
            // The caller may have gone: a dropped `Task` lets its future run on.
            let _ = sender.send(future.await);
        }));
        Task(receiver)
    }

    /// Runs `future` beside the caller, as [`spawn`](Self::spawn) does, without a handle.
    pub fn spawn_detached(&self, future: impl Future<Output = ()> + 'static) {
        self.0.spawn(Box::pin(future));
    }

    /// A random number: from the operating system, or from the seed of a simulation.
    pub fn random(&self) -> u64 {
        self.0.random()
    }

    /// Runs `work`, which may block, off the caller's thread.
    ///
    /// # Errors
    /// [`TaskLost`] if `work` panicked.
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, TaskLost> {
        let (sender, receiver) = oneshot::channel();
        self.0.run_blocking(Box::new(move || {
            let _ = sender.send(work());
        }));
        receiver.await.map_err(|_| TaskLost)
    }

    /// Tells that the caller has just done `work` for so many things. In real time this does nothing; in a simulation
    /// with a processor, the caller's thread is busy for as long as that takes from now on.
    pub fn worked(&self, work: Work, things: u64) {
        self.0.worked(work, things);
    }
}
