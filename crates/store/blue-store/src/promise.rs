//! Promises of room in the metadata.
//!
//! # Invariants
//! - BLU-META-1: a transaction that brings metadata has their room from before it happens until its batch is durable, or it has failed; no
//!   other one is told of that room. So no batch of transactions meets full metadata.

use std::cell::Cell;
use std::rc::Rc;

/// All promises that are kept for somebody.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promises(Rc<Cell<u64>>);

impl Promises {
    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.get()
    }

    /// One more.
    pub(crate) fn promise(&self, bytes: u64) -> Promise {
        self.0.set(self.0.get().saturating_add(bytes));
        Promise { all: self.clone(), bytes }
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
        self.all.0.set(self.all.0.get().saturating_sub(self.bytes));
    }
}
