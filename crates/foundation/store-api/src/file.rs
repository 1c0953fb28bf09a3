//! The contract of a file store: files that grow at their end and are read anywhere, as databases with logs and sorted tables
//! need them.
//!
//! A store has one owner and lives on its thread. There are no folders: a `/` is a letter of a name like any other.
//!
//! # Invariants
//! - API-FIL-1: bytes survive a power cut once a [sync](StoredFile::sync) completed that was called after their append;
//!   without it, they are there up to some byte, and nothing behind it.
//! - API-FIL-2: a file that is open can be read until its last handle is gone, also if its name is deleted or given to another.

use std::rc::Rc;

use bytes::Bytes;

use crate::block::LocalStoreFuture;

/// A store of files.
pub trait FileStore {
    /// Creates an empty file, in place of one that has the name. The name is durable when a sync of the file completes.
    fn create(&self, name: &str) -> LocalStoreFuture<'_, Rc<dyn StoredFile>>;

    /// Opens a file. `NoSuchKey` if there is none of that name.
    fn open(&self, name: &str) -> LocalStoreFuture<'_, Rc<dyn StoredFile>>;

    /// Gives a file another name, durably; one that has it is deleted in the same step. `NoSuchKey` if there is no file `from`.
    fn rename(&self, from: &str, to: &str) -> LocalStoreFuture<'_, ()>;

    /// Deletes a name. `NoSuchKey` if there is no file of that name.
    fn delete(&self, name: &str) -> LocalStoreFuture<'_, ()>;

    /// All names, in order.
    fn names(&self) -> LocalStoreFuture<'_, Vec<String>>;
}

/// An open file.
pub trait StoredFile {
    /// Bytes appended so far.
    fn length(&self) -> u64;

    /// Appends `data`. Calls take their places in the order in which they are made.
    fn append(&self, data: Vec<Bytes>) -> LocalStoreFuture<'_, ()>;

    /// Makes all appends durable that were called before.
    fn sync(&self) -> LocalStoreFuture<'_, ()>;

    /// Reads `length` bytes at `offset`, of appends that completed; fewer at the file's end.
    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes>;
}
