//! Calls from any thread to an owner that lives on one.
//!
//! **Owns** the queues and their end. **Knows nothing of** the calls' subject.
//!
//! # Invariants
//! - RT-OWN-1: a call is answered, or its caller is told that the owner is gone.
//! - RT-OWN-2: a caller that goes away does not undo a call that was begun.
//! - RT-OWN-3: calls handed in before the owner began to close are still done.
//! - RT-OWN-4: a question ends as soon as nobody waits for the answer, and its place is free.
//! - RT-OWN-5: an owner that is to close takes no more calls from then on, also while all its places are taken.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use std::pin::pin;

use futures_util::future::{Either, LocalBoxFuture, select};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::local::Runtime;

/// A call on its way to an owner, whose state is a `C`.
pub type Job<C> = Box<dyn FnOnce(Rc<C>) -> LocalBoxFuture<'static, ()> + Send>;

/// Callers' end of the queue. A full queue slows its callers.
pub struct Desk<C>(mpsc::Sender<Job<C>>);

/// Owner's end of the queue.
pub struct Calls<C> {
    queue: mpsc::Receiver<Job<C>>,
    places: usize,
}

/// The owner is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the owner of the call is gone")
    }
}

impl std::error::Error for Gone {}

/// Tells an owner's long tasks that it is to end.
#[derive(Default)]
pub struct Closing {
    begun: Cell<bool>,
    wanted: Notify,
}

impl Closing {
    /// True once the owner is to end.
    pub fn get(&self) -> bool {
        self.begun.get()
    }

    /// From now on it is.
    pub fn begin(&self) {
        self.begun.set(true);
        self.wanted.notify_waiters();
    }

    /// Completes when it is.
    pub async fn wanted(&self) {
        let wanted = self.wanted.notified();
        if !self.begun.get() {
            wanted.await;
        }
    }
}

impl<C> Clone for Desk<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: 'static> Desk<C> {
    /// True once the owner takes no more calls: it is gone, or about to close.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// A desk, and the calls for the owner to serve: `depth` calls wait, and as many are under way.
    pub fn new(depth: usize) -> (Self, Calls<C>) {
        Self::with_places(depth, depth)
    }

    /// A desk with `depth` waiting calls and `places` calls under way: many, if something else bounds their work.
    pub fn with_places(depth: usize, places: usize) -> (Self, Calls<C>) {
        let (sender, queue) = mpsc::channel(depth.max(1));
        (Self(sender), Calls { queue, places: places.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize)) })
    }

    /// Runs `work` on the owner's thread, and returns its result.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn call<T, F>(&self, work: impl FnOnce(Rc<C>) -> F + Send + 'static) -> Result<T, Gone>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        self.begin(work).await?.await.map_err(|_| Gone)
    }

    /// As [`Desk::call`], but returns once `work` is in the queue. The answer comes through the receiver.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn begin<T, F>(
        &self,
        work: impl FnOnce(Rc<C>) -> F + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, Gone>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: Job<C> = Box::new(move |core| {
            Box::pin(async move {
                // The caller may have gone (RT-OWN-2).
                let _ = reply.send(work(core).await);
            })
        });
        self.0.send(job).await.map_err(|_| Gone)?;
        Ok(answer)
    }

    /// As [`Desk::call`], for work that may be broken off anywhere: it ends when the caller goes away (RT-OWN-4).
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn ask<T, F>(&self, work: impl FnOnce(Rc<C>) -> F + Send + 'static) -> Result<T, Gone>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (mut reply, answer) = oneshot::channel();
        let job: Job<C> = Box::new(move |core| {
            Box::pin(async move {
                if reply.is_closed() {
                    return;
                }
                let found = match select(pin!(work(core)), pin!(reply.closed())).await {
                    Either::Left((found, _)) => found,
                    Either::Right(_) => return,
                };
                let _ = reply.send(found);
            })
        });
        self.0.send(job).await.map_err(|_| Gone)?;
        answer.await.map_err(|_| Gone)
    }
}

impl<C: 'static> Calls<C> {
    /// Does the calls, until the owner closes.
    pub async fn serve(mut self, runtime: Runtime, core: Rc<C>, closing: impl Fn(&C) -> &Closing) {
        let places = Arc::new(Semaphore::new(self.places));
        loop {
            let wanted = closing(&core).wanted();
            let next = async {
                let place = places.clone().acquire_owned().await.ok()?;
                Some((self.queue.recv().await?, place))
            };
            // Either all callers are gone, or it is to close (RT-OWN-5).
            let Either::Left((Some((job, place)), _)) = select(Box::pin(next), Box::pin(wanted)).await else { break };
            start(&runtime, &core, job, place);
        }
        // Those in the queue are still served; later ones are told that the owner is gone (RT-OWN-3).
        self.queue.close();
        while let Some(job) = self.queue.recv().await {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            start(&runtime, &core, job, place);
        }
        let _ = places.acquire_many(self.places as u32).await;
    }
}

fn start<C: 'static>(runtime: &Runtime, core: &Rc<C>, job: Job<C>, place: OwnedSemaphorePermit) {
    let work = job(core.clone());
    runtime.spawn_detached(async move {
        work.await;
        drop(place);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counter {
        count: Cell<u64>,
        closing: Closing,
    }

    /// RT-OWN-1, RT-OWN-3.
    #[test]
    fn calls_are_answered_until_the_owner_closes_and_then_told_so() {
        crate::real::run(|runtime| async move {
            let core = Rc::new(Counter::default());
            let (desk, calls) = Desk::new(2);
            let serving = runtime.spawn(calls.serve(runtime.clone(), core.clone(), |core| &core.closing));
            let add = |core: Rc<Counter>| async move {
                core.count.set(core.count.get() + 1);
                core.count.get()
            };
            assert_eq!(desk.call(add).await, Ok(1));
            // Its caller is gone; it is done all the same.
            drop(desk.begin(add).await.unwrap());
            let late = desk.begin(add).await.unwrap();
            core.closing.begin();
            assert_eq!(late.await, Ok(3));
            serving.await.unwrap();
            assert_eq!(desk.call(add).await, Err(Gone));
            assert_eq!(core.count.get(), 3);
        })
        .unwrap();
    }

    /// RT-OWN-5.
    #[test]
    fn an_owner_whose_places_are_taken_takes_no_more_calls_once_it_is_to_close() {
        crate::real::run(|runtime| async move {
            let core = Rc::new(Counter::default());
            let (desk, calls) = Desk::new(1);
            let serving = runtime.spawn(calls.serve(runtime.clone(), core.clone(), |core| &core.closing));
            let (end, ended) = oneshot::channel::<()>();
            let long = desk.begin(move |_| async move { ended.await.is_ok() }).await.unwrap();
            let add = |core: Rc<Counter>| async move { core.count.set(core.count.get() + 1) };
            let waits = desk.begin(add).await.unwrap();
            let mut late = pin!(desk.call(add));
            for _ in 0..10 {
                assert!(futures_util::poll!(late.as_mut()).is_pending(), "the queue is full");
                runtime.yield_now().await;
            }
            core.closing.begin();
            for _ in 0..10 {
                runtime.yield_now().await;
            }
            assert_eq!(futures_util::poll!(late.as_mut()), std::task::Poll::Ready(Err(Gone)));
            end.send(()).unwrap();
            assert_eq!((long.await, waits.await), (Ok(true), Ok(())));
            serving.await.unwrap();
            assert_eq!(core.count.get(), 1);
        })
        .unwrap();
    }

    /// RT-OWN-3: an owner ends once nobody can call it any more, however full its queue was.
    #[test]
    fn an_owner_without_callers_does_what_waits_and_ends() {
        crate::real::run(|runtime| async move {
            let core = Rc::new(Counter::default());
            let (desk, calls) = Desk::new(1);
            let serving = runtime.spawn(calls.serve(runtime.clone(), core.clone(), |core| &core.closing));
            let (end, ended) = oneshot::channel::<()>();
            drop(desk.begin(move |_| async move { drop(ended.await) }).await.unwrap());
            let add = |core: Rc<Counter>| async move { core.count.set(core.count.get() + 1) };
            drop(desk.begin(add).await.unwrap());
            assert!(futures_util::poll!(pin!(desk.begin(add))).is_pending(), "the queue is full");
            drop(desk);
            end.send(()).unwrap();
            serving.await.unwrap();
            assert_eq!(core.count.get(), 1);
        })
        .unwrap();
    }

    /// RT-OWN-4, and RT-OWN-2 beside it.
    #[test]
    fn an_abandoned_question_gives_its_place_back() {
        crate::real::run(|runtime| async move {
            let core = Rc::new(Counter::default());
            let (desk, calls) = Desk::new(1);
            let serving = runtime.spawn(calls.serve(runtime.clone(), core.clone(), |core| &core.closing));
            let add = |core: Rc<Counter>| async move {
                core.count.set(core.count.get() + 1);
                core.count.get()
            };
            let never = |core: Rc<Counter>| async move {
                core.count.set(core.count.get() + 10);
                std::future::pending::<u64>().await
            };
            {
                let mut asking = pin!(desk.ask(never));
                while core.count.get() == 0 {
                    assert!(futures_util::poll!(asking.as_mut()).is_pending());
                    runtime.yield_now().await;
                }
                // One that waits in the queue, and leaves before its turn.
                assert!(futures_util::poll!(pin!(desk.ask(never))).is_pending());
            }
            assert_eq!(desk.ask(add).await, Ok(11));
            core.closing.begin();
            serving.await.unwrap();
            assert_eq!(desk.ask(add).await, Err(Gone));
        })
        .unwrap();
    }
}
