//! Promises of room in the metadata.
//!
//! # Invariants
//! - BLU-META-1: a transaction that brings metadata has their room from before it happens until its batch is durable, or it has failed; no
//!   other one is told of that room. So no batch of transactions meets full metadata.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;

/// All promises that are kept for somebody.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promises(Rc<Kept>);

#[derive(Debug, Default)]
struct Kept {
    bytes: Cell<u64>,
    given_back: Notify,
}

impl Promises {
    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes.get()
    }

    /// One more.
    pub(crate) fn promise(&self, bytes: u64) -> Promise {
        self.0.bytes.set(self.bytes().saturating_add(bytes));
        Promise { all: self.clone(), bytes }
    }

    /// Completes when one is given back from now on.
    pub(crate) fn given_back(&self) -> impl Future<Output = ()> {
        self.0.given_back.notified()
    }
}

/// A promise, for as long as somebody has it.
#[derive(Debug)]
pub(crate) struct Promise {
    all: Promises,
    bytes: u64,
}

impl Drop for Promise {
    fn drop(&mut self) {
        let kept = &self.all.0;
        kept.bytes.set(kept.bytes.get().saturating_sub(self.bytes));
        kept.given_back.notify_waiters();
    }
}
