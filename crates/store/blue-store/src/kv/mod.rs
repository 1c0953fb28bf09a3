//! The contract of the store of metadata: ordered keys, atomic batches, merge operators. (Dissertation, sections 4.4.1 and 5.7.1.)
//!
//! **Owns** the contract. **Knows nothing of** keys' meaning, and of who keeps them: [`LogKv`] does here, for simulations and for drives
//! with few objects; a database can do it as well.
//!
//! # Invariants
//! - BLU-KV-1: a batch is durable as a whole once its write has completed; after a crash there are the effects of the batches of some
//!   beginning of the calls, in the order of calls.

mod log;

use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use shingle_runtime::{LocalBoxFuture, Runtime};
use shingle_zone_files::ZoneFiles;

pub use log::{LogKv, LogKvOptions, parse_record};

/// The result of a call.
pub type KvResult<T> = Result<T, KvError>;

/// A call's result, some time later.
pub type KvFuture<'a, T> = LocalBoxFuture<'a, KvResult<T>>;

/// The caller's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KvErrorKind {
    /// There is no room for more.
    NoSpace,
    /// Stored bytes failed their check.
    Corrupt,
    /// The drive failed a command.
    Device,
    /// The store of metadata was closed, or has stopped after an error.
    Unavailable,
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvError {
    /// The caller's next action.
    pub kind: KvErrorKind,
    /// Description for a person.
    pub message: Arc<str>,
}

impl KvError {
    /// An error of `kind` that says `message`.
    pub fn new(kind: KvErrorKind, message: impl Into<Arc<str>>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl fmt::Display for KvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for KvError {}

/// A change of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key has this value.
    Put(Bytes, Bytes),
    /// The key is gone, if it was there.
    Delete(Bytes),
    /// All keys from the first on and before the second are gone.
    DeleteRange(Bytes, Bytes),
    /// The key has the value that its operator makes of the one it has, and this operand.
    Merge(Bytes, Bytes),
}

/// Changes that happen as a whole, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The changes in their order.
    pub changes: Vec<Change>,
}

impl Batch {
    /// Adds a value.
    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.changes.push(Change::Put(key.into(), value.into()));
    }

    /// Takes a key away.
    pub fn delete(&mut self, key: impl Into<Bytes>) {
        self.changes.push(Change::Delete(key.into()));
    }

    /// Takes all keys from `from` on and before `to` away.
    pub fn delete_range(&mut self, from: impl Into<Bytes>, to: impl Into<Bytes>) {
        self.changes.push(Change::DeleteRange(from.into(), to.into()));
    }

    /// Merges an operand into a key's value.
    pub fn merge(&mut self, key: impl Into<Bytes>, operand: impl Into<Bytes>) {
        self.changes.push(Change::Merge(key.into(), operand.into()));
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> u64 {
        let of = |change: &Change| match change {
            Change::Delete(key) => key.len(),
            Change::Put(one, other) | Change::DeleteRange(one, other) | Change::Merge(one, other) => {
                one.len() + other.len()
            }
        };
        self.changes.iter().map(|change| of(change) as u64 + 8).sum()
    }
}

/// The operator for keys with a prefix: makes a value of the one that is there, and an operand. It never fails: a value that makes no
/// sense is kept.
#[derive(Clone, Copy, Debug)]
pub struct MergeOperator {
    /// Beginning of the keys.
    pub prefix: &'static [u8],
    /// The operator.
    pub merge: fn(Option<&[u8]>, &[u8]) -> Vec<u8>,
}

/// The value that a key has after a merge. Keys without an operator take the operand.
pub fn merged(operators: &[MergeOperator], key: &[u8], value: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
    let operator = operators.iter().find(|operator| key.starts_with(operator.prefix));
    operator.map_or_else(|| operand.to_vec(), |operator| (operator.merge)(value, operand))
}

/// The order of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// From the first key on.
    Forward,
    /// From the last key on.
    Backward,
}

/// A store of metadata. Stays on the thread of its runtime.
pub trait KeyValue {
    /// The value of a key. Sees the batches that have completed, and perhaps those under way.
    fn get(&self, key: &[u8]) -> KvFuture<'_, Option<Bytes>>;

    /// Keys of a range with their values: up to `limit` of them, fewer only where no others are in the range.
    fn scan(&self, range: Range<Bytes>, order: Order, limit: usize) -> KvFuture<'_, Vec<(Bytes, Bytes)>>;

    /// Writes a batch, which takes its place among others in the step of the call, and is durable when the future completes (BLU-KV-1).
    /// Batches that come together share one sync. Dropping the future undoes nothing.
    fn write(&self, batch: Batch) -> KvFuture<'static, ()>;

    /// Bytes that batches can still bring, those that have not completed perhaps not counted.
    fn room(&self) -> u64;

    /// Wins room that can be won for a caller who needs more than there is. `room` tells how much there is then.
    fn win_room(&self) -> KvFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Ends the background work, and makes all that was written durable.
    fn close(&self) -> KvFuture<'_, ()>;
}

/// Opens a store of metadata on files, or makes an empty one. It has the files for itself.
pub trait OpenKeyValue {
    /// Opens it. With `read_only`, nothing is written.
    fn open(
        &self,
        rt: &Runtime,
        files: ZoneFiles,
        operators: &'static [MergeOperator],
        read_only: bool,
    ) -> KvFuture<'static, Rc<dyn KeyValue>>;
}
