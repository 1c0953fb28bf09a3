//! Sequencers: the transactions of a collection, one after the other. Those of other collections never wait for them.
//!
//! One task applies transactions to the state in memory, in the order of their submission; another one, of all collections, makes their
//! batches of metadata, in the same order, as soon as their data are written. So several are under way at once, and what the metadata say
//! is always what a beginning of the transactions has made; but for those that pass one that waits for room. The store's own moves happen
//! between two transactions, in one step, and wait for nobody.
//!
//! **Owns** the order. **Knows nothing of** what transactions do.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use tokio::sync::{Notify, oneshot};

use crate::change::Change;
use crate::error::BlueResult;
use crate::ids::CollectionInfo;
use crate::transaction::Transaction;

/// The end of a job, for the one who waits for it.
pub(crate) type Reply = oneshot::Sender<BlueResult<()>>;

/// Something that is done to a collection, in its turn.
pub(crate) enum Job {
    Transaction(Transaction, Reply),
    /// The first is told that all before it were applied; nothing behind it begins before the second is let go.
    Hold(oneshot::Sender<()>, oneshot::Receiver<()>),
}

/// A collection of an open store.
pub(crate) struct Collection {
    pub(crate) info: Cell<CollectionInfo>,
    /// It was removed, or has become a part of another one.
    pub(crate) gone: Cell<bool>,
    pub(crate) queue: RefCell<VecDeque<Job>>,
    /// A job has come, for a transaction that waits for room. (BLU-PASS-1)
    pub(crate) queued: Notify,
    /// Not even the store's own moves happen.
    pub(crate) held: Cell<bool>,
    /// A task applies the queue.
    pub(crate) applying: Cell<bool>,
    /// Changes that were applied, whose batches are not made.
    pub(crate) commits: RefCell<VecDeque<(Change, Reply)>>,
    /// Changes that were applied, and are not durable.
    pub(crate) under_way: Cell<u32>,
    pub(crate) settled: Notify,
}

impl Collection {
    pub(crate) fn new(info: CollectionInfo) -> Self {
        Self {
            info: Cell::new(info),
            gone: Cell::new(false),
            queue: RefCell::default(),
            queued: Notify::new(),
            held: Cell::new(false),
            applying: Cell::new(false),
            commits: RefCell::default(),
            under_way: Cell::new(0),
            settled: Notify::new(),
        }
    }
}
