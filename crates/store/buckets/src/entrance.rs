//! The way to an owner: two queues, so that no read waits behind changes.

use std::rc::Rc;

use shingle_runtime::owner::{Desk, Gone};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

/// A way to have work done where a store's owner is.
pub trait Door<C>: Clone + Send + Sync + 'static {
    /// Has `work` done that only reads, and returns its result. It is done to its end, also if the caller goes away.
    fn read<T, F>(&self, work: impl FnOnce(Rc<C>) -> F + Send + 'static) -> impl Future<Output = StoreResult<T>> + Send
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static;

    /// As [`Door::read`], for work that changes something.
    fn write<T, F>(
        &self,
        work: impl FnOnce(Rc<C>) -> F + Send + 'static,
    ) -> impl Future<Output = StoreResult<T>> + Send
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static;
}

/// The queues of an owner on another thread. A full one slows its callers.
pub struct Entrance<C> {
    reads: Desk<C>,
    writes: Desk<C>,
    stopped: &'static str,
}

impl<C: 'static> Entrance<C> {
    /// A way in by these queues; once their owner has ended, callers are told that it has `stopped`.
    pub fn new(reads: Desk<C>, writes: Desk<C>, stopped: &'static str) -> Self {
        Self { reads, writes, stopped }
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
        self.reads.ask(work).await.map_err(|gone| self.gone(gone))?
    }

    /// The owner takes calls: it is neither gone nor about to close.
    pub fn is_open(&self) -> bool {
        !self.reads.is_closed()
    }

    /// The queue of calls that change something.
    pub fn writes(&self) -> &Desk<C> {
        &self.writes
    }

    /// The error of a call whose owner has ended.
    pub fn gone(&self, _: Gone) -> StoreError {
        StoreError::new(StoreErrorKind::Unavailable, self.stopped)
    }
}

impl<C> Clone for Entrance<C> {
    fn clone(&self) -> Self {
        Self { reads: self.reads.clone(), writes: self.writes.clone(), stopped: self.stopped }
    }
}

impl<C: 'static> Door<C> for Entrance<C> {
    async fn read<T, F>(&self, work: impl FnOnce(Rc<C>) -> F + Send + 'static) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static,
    {
        self.reads.call(work).await.map_err(|gone| self.gone(gone))?
    }

    async fn write<T, F>(&self, work: impl FnOnce(Rc<C>) -> F + Send + 'static) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + 'static,
    {
        self.writes.call(work).await.map_err(|gone| self.gone(gone))?
    }
}
