//! The way to an owner: three queues, so that no read waits behind changes, and no removal behind writes that wait for room.
//!
//! # Invariants
//! - BK-DOOR-1: calls that only remove have places of their own. (`deletes_do_not_wait_behind_writes_that_wait_for_room`)

use std::rc::Rc;

use shingle_runtime::owner::{Calls, Desk, Gone};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

/// A way to have work done where a store's owner is.
pub trait Door<C>: Clone + Send + Sync + 'static {
    /// Has `work` done that only reads, and returns its result. It is done to its end, also if the caller goes away.
    fn read<T, F>(&self, work: impl FnOnce(Rc<C>) -> F + Send + 'static) -> impl Future<Output = StoreResult<T>> + Send
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static;

    /// As [`Door::read`], for work that changes something, and may wait for room.
    fn write<T, F>(
        &self,
        work: impl FnOnce(Rc<C>) -> F + Send + 'static,
    ) -> impl Future<Output = StoreResult<T>> + Send
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static;

    /// As [`Door::read`], for work that only takes something away: it needs no room, and makes some. (BK-DOOR-1)
    fn remove<T, F>(
        &self,
        work: impl FnOnce(Rc<C>) -> F + Send + 'static,
    ) -> impl Future<Output = StoreResult<T>> + Send
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static;
}

/// The queues of an owner, for reads, writes and removals.
pub struct Desks<C> {
    reads: Desk<C>,
    writes: Desk<C>,
    removals: Desk<C>,
}

impl<C: 'static> Desks<C> {
    /// Queues in which `depth` calls wait and as many are under way, or `reads_under_way`; and their calls, for the owner to serve.
    pub fn new(depth: usize, reads_under_way: usize) -> (Self, [Calls<C>; 3]) {
        let (reads, read_calls) = Desk::with_places(depth, reads_under_way);
        let (writes, write_calls) = Desk::new(depth);
        let (removals, removal_calls) = Desk::new(depth);
        (Self { reads, writes, removals }, [read_calls, write_calls, removal_calls])
    }
}

/// The queues of an owner on another thread. A full one slows its callers.
pub struct Entrance<C> {
    desks: Desks<C>,
    stopped: &'static str,
}

impl<C: 'static> Entrance<C> {
    /// A way in by these queues; once their owner has ended, callers are told that it has `stopped`.
    pub fn new(desks: Desks<C>, stopped: &'static str) -> Self {
        Self { desks, stopped }
    }

    /// As [`Door::read`], for work that may be broken off anywhere: it ends when the caller goes away.
    ///
    /// # Errors
    /// `Unavailable` if the owner has ended; the work's.
    pub async fn ask<T, F>(&self, work: impl FnOnce(Rc<C>) -> F + Send + 'static) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static,
    {
        self.desks.reads.ask(work).await.map_err(|gone| self.gone(gone))?
    }

    /// The owner takes calls: it is neither gone nor about to close.
    pub fn is_open(&self) -> bool {
        !self.desks.reads.is_closed()
    }

    /// The queue of calls that change something.
    pub fn writes(&self) -> &Desk<C> {
        &self.desks.writes
    }

    /// The error of a call whose owner has ended.
    pub fn gone(&self, _: Gone) -> StoreError {
        StoreError::new(StoreErrorKind::Unavailable, self.stopped)
    }
}

impl<C> Clone for Entrance<C> {
    fn clone(&self) -> Self {
        let Desks { reads, writes, removals } = &self.desks;
        let desks = Desks { reads: reads.clone(), writes: writes.clone(), removals: removals.clone() };
        Self { desks, stopped: self.stopped }
    }
}

impl<C: 'static> Door<C> for Entrance<C> {
    async fn read<T, F>(&self, work: impl FnOnce(Rc<C>) -> F + Send + 'static) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static,
    {
        self.desks.reads.call(work).await.map_err(|gone| self.gone(gone))?
    }

    async fn write<T, F>(&self, work: impl FnOnce(Rc<C>) -> F + Send + 'static) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static,
    {
        self.desks.writes.call(work).await.map_err(|gone| self.gone(gone))?
    }

    async fn remove<T, F>(&self, work: impl FnOnce(Rc<C>) -> F + Send + 'static) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static,
    {
        self.desks.removals.call(work).await.map_err(|gone| self.gone(gone))?
    }
}

#[cfg(test)]
mod tests {
    use shingle_runtime::owner::Closing;
    use tokio::sync::Notify;

    use super::*;

    #[derive(Default)]
    struct Core {
        room: Notify,
        closing: Closing,
    }

    /// BK-DOOR-1.
    #[test]
    fn deletes_do_not_wait_behind_writes_that_wait_for_room() {
        shingle_runtime::real::run(|rt| async move {
            let core = Rc::new(Core::default());
            let (desks, calls) = Desks::new(1, 1);
            let serving = calls.map(|calls| rt.spawn(calls.serve(rt.clone(), core.clone(), |core| &core.closing)));
            let entrance = Entrance::new(desks, "stopped");
            let write = |core: Rc<Core>| async move { core.room.notified().await };
            // One is under way, the other waits in the queue.
            let (first, second) =
                (entrance.writes().begin(write).await.unwrap(), entrance.writes().begin(write).await.unwrap());
            let delete = |core: Rc<Core>| async move {
                core.room.notify_one();
                Ok(())
            };
            entrance.remove(delete).await.unwrap();
            first.await.unwrap();
            entrance.remove(delete).await.unwrap();
            second.await.unwrap();
            core.closing.begin();
            for task in serving {
                task.await.unwrap();
            }
        })
        .unwrap();
    }
}
