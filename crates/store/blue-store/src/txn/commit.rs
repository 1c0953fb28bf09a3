//! The task that makes batches: of each collection in the order in which transactions were applied.
//!
//! It goes in rounds. A round takes all transactions whose data have been written by then, of all collections; they share a flush of the
//! data, and the metadata's sync. So a disk leaves its stream of data once for all of them, as with BlueStore's one thread for commits; and a
//! round on a disk begins when no new data are on their way any more, or a short time has passed. No transaction needs the data of others
//! but those before it in its collection.
//!
//! # Invariants
//! - BLU-COMMIT-1: a batch is made when the data of its transaction are written and durable (BLU-KEPT-2), and all batches before it are on their way. So
//!   what is durable is always what a beginning of the transactions has made.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};

use crate::change::Change;
use crate::engine::Engine;
use crate::error::{BlueError, BlueResult};
use crate::sequence::{Collection, Reply};

/// Time for which a round waits, on a disk, for data that are being written: the arm leaves them once for all that come in it.
const GATHERING: Duration = Duration::from_millis(200);

/// A transaction whose data are written.
struct Ready {
    collection: Rc<Collection>,
    change: Change,
    reply: Reply,
}

impl Engine {
    /// Puts effects behind those of earlier transactions.
    pub(super) fn commit(self: &Rc<Self>, collection: &Rc<Collection>, change: Change, reply: Reply) {
        collection.under_way.set(collection.under_way.get() + 1);
        {
            let mut state = self.state.borrow_mut();
            state.under_way += 1;
            state.waiting_bytes += change.bytes;
        }
        let mut commits = collection.commits.borrow_mut();
        commits.push_back((change, reply));
        if commits.len() == 1 {
            self.committing.borrow_mut().push(collection.clone());
        }
        if self.commits.replace(true) {
            self.wakes.landed.notify_one();
        } else {
            self.rt.spawn_detached(self.clone().commit_all());
        }
    }

    async fn commit_all(self: Rc<Self>) {
        loop {
            if self.is_ready() {
                self.gather_commits().await;
                let ready = self.ready();
                self.commit_round(ready).await;
            } else if self.committing.borrow().is_empty() {
                break;
            } else {
                // `notify_one` leaves a permit for this.
                self.wakes.landed.notified().await;
            }
        }
        self.commits.set(false);
        self.wakes.settled.notify_waiters();
    }

    /// A transaction is ready for its batch.
    fn is_ready(&self) -> bool {
        let stopped = self.state.borrow().stopped.is_some();
        self.committing.borrow().iter().any(|collection| {
            let commits = collection.commits.borrow();
            commits.front().is_some_and(|(change, _)| stopped || change.group.is_over())
        })
    }

    /// Waits while new data are being written to a disk, for a short time at most.
    async fn gather_commits(&self) {
        if self.drive.geometry.revolution.is_none() {
            return;
        }
        let mut over = pin!(self.rt.sleep(GATHERING));
        while self.state.borrow().streams() {
            let landed = pin!(self.wakes.landed.notified());
            if let Either::Right(_) = select(landed, &mut over).await {
                break;
            }
        }
    }

    /// Takes transactions whose data are written, and those before them in their collections, too. All, once the store has stopped.
    fn ready(&self) -> Vec<Ready> {
        let stopped = self.state.borrow().stopped.is_some();
        let mut ready = Vec::new();
        self.committing.borrow_mut().retain(|collection| {
            let mut commits = collection.commits.borrow_mut();
            while let Some((change, reply)) = commits.pop_front_if(|(change, _)| stopped || change.group.is_over()) {
                ready.push(Ready { collection: collection.clone(), change, reply });
            }
            !commits.is_empty()
        });
        ready
    }

    /// Makes data durable, and then their metadata. (BLU-COMMIT-1)
    async fn commit_round(self: &Rc<Self>, ready: Vec<Ready>) {
        let wrote = ready.iter().any(|one| one.change.wrote);
        let mut durable = if wrote { self.flush().await } else { self.state.borrow().running() };
        if durable.is_ok() {
            durable = self.reads_back(ready.iter().flat_map(|one| &one.change.written)).await;
        }
        let ends = ready.into_iter().map(|Ready { collection, mut change, reply }| {
            let failed = change.group.failed.get().then(BlueError::no_space);
            let good = durable.clone().and(failed.map_or(Ok(()), Err));
            // Batches take their places before anything else happens.
            let batch = good.map(|()| {
                let (batch, settle) = self.batch(&mut change);
                (self.kv.write(batch), settle)
            });
            let engine = self.clone();
            async move {
                let ended = match batch {
                    Err(error) => Err(error),
                    Ok((written, settle)) => match written.await.map_err(BlueError::from) {
                        Ok(()) => {
                            engine.settle(settle);
                            // Of a write that failed before the flush the store may hear only now.
                            engine.reads_back(change.written.iter()).await
                        }
                        Err(error) => {
                            // The batch may be there at the next opening, so nobody is told that nothing has happened.
                            engine.stop(&error);
                            engine.state.borrow().running()
                        }
                    },
                };
                engine.end(&collection, change, ended, reply);
            }
        });
        let ends: Vec<_> = ends.collect();
        join_all(ends).await;
    }

    fn end(&self, collection: &Collection, change: Change, ended: BlueResult<()>, reply: Reply) {
        {
            let mut state = self.state.borrow_mut();
            state.under_way -= 1;
            state.waiting_bytes -= change.bytes;
            state.counters.transactions += u64::from(ended.is_ok() && change.counts);
        }
        collection.under_way.set(collection.under_way.get() - 1);
        drop(change);
        // The caller may have gone.
        let _ = reply.send(ended);
        collection.settled.notify_waiters();
        self.wakes.settled.notify_waiters();
        self.keeper.wake();
        self.state.borrow_mut().objects.trim();
    }
}
