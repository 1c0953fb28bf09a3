//! The task that makes the batches of a collection, in the order in which transactions were applied.
//!
//! # Invariants
//! - BLU-COMMIT-1: a batch is made when the data of its transaction are written and durable, and all batches before it are on their way. So
//!   what is durable is always what a beginning of the transactions has made.

use std::rc::Rc;

use crate::change::Change;
use crate::engine::Engine;
use crate::error::{BlueError, BlueResult};
use crate::sequence::{Collection, Reply};

impl Engine {
    /// Puts effects behind those of earlier transactions.
    pub(super) fn commit(self: &Rc<Self>, collection: &Rc<Collection>, change: Change, reply: Reply) {
        collection.under_way.set(collection.under_way.get() + 1);
        {
            let mut state = self.state.borrow_mut();
            state.under_way += 1;
            state.waiting_bytes += change.bytes;
        }
        collection.commits.borrow_mut().push_back((change, reply));
        if !collection.committing.replace(true) {
            self.rt.spawn_detached(self.clone().commit_all(collection.clone()));
        }
    }

    async fn commit_all(self: Rc<Self>, collection: Rc<Collection>) {
        loop {
            let next = collection.commits.borrow_mut().pop_front();
            let Some((mut change, reply)) = next else { break };
            let written = self.written(&change).await;
            let durable = match written {
                Err(error) => Err(error),
                Ok(()) => {
                    // The batch takes its place before anything else happens.
                    let (batch, settle) = self.batch(&mut change);
                    Ok((self.kv.write(batch), settle))
                }
            };
            let (engine, of) = (self.clone(), collection.clone());
            let end = async move {
                let ended = match durable {
                    Err(error) => Err(error),
                    Ok((durable, settle)) => match durable.await.map_err(BlueError::from) {
                        Ok(()) => {
                            engine.settle(settle);
                            Ok(())
                        }
                        Err(error) => {
                            engine.stop(&error);
                            Err(error)
                        }
                    },
                };
                engine.end(&of, change, ended, reply);
            };
            self.rt.spawn_detached(end);
        }
        collection.committing.set(false);
        self.wakes.settled.notify_waiters();
    }

    /// Waits until the data of a transaction are durable. (BLU-COMMIT-1)
    async fn written(&self, change: &Change) -> BlueResult<()> {
        self.landed(&change.group).await?;
        if change.wrote { self.flush().await } else { self.state.borrow().running() }
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
