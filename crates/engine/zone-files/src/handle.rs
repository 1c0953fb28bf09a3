//! An open file.

use std::rc::Rc;

use bytes::Bytes;
use shingle_runtime::UnixTime;

use crate::config::{FileKind, WriteLifetime};
use crate::engine::Engine;
use crate::error::{FilesError, FilesResult};

/// A file, as a listing or a handle shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its number, which no other file ever has.
    pub serial: u64,
    /// Its use.
    pub kind: FileKind,
    /// Its expected lifetime.
    pub lifetime: WriteLifetime,
    /// Bytes, those that are not durable yet included.
    pub size: u64,
    /// When it was made.
    pub created: UnixTime,
    /// When its bytes last changed.
    pub modified: UnixTime,
    /// Names that it has.
    pub links: u32,
}

impl Engine {
    pub(crate) fn info(&self, serial: u64) -> Option<FileInfo> {
        let state = self.state.borrow();
        let node = state.tree.file(serial)?;
        let (kind, lifetime, links) = (node.kind, node.lifetime, node.links);
        let (created, modified, size) = (node.created, node.modified, state.size(serial));
        Some(FileInfo { serial, kind, lifetime, size, created, modified, links })
    }
}

/// An open file. A file whose names are all removed can be read and written until its last handle is gone; its space is free then.
///
/// Appends take their places in the order in which they are called, and are seen by reads at once. They survive a power cut once a
/// [sync](Self::sync) that was called later has completed; without it, the file ends with some byte of them, and holds nothing else.
pub struct File {
    engine: Rc<Engine>,
    serial: u64,
}

impl File {
    /// A handle that the file's use has counted already.
    pub(crate) fn new(engine: Rc<Engine>, serial: u64) -> Self {
        Self { engine, serial }
    }

    /// Its state.
    ///
    /// # Errors
    /// `Unavailable` if the files were closed.
    pub fn info(&self) -> FilesResult<FileInfo> {
        self.engine.info(self.serial).ok_or_else(FilesError::closed)
    }

    /// Bytes of it, those that are not durable yet included.
    pub fn size(&self) -> u64 {
        self.engine.state.borrow().size(self.serial)
    }

    /// Appends `data`, in the step of the call. The future completes once few enough bytes of the file wait for the drive.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn append(&self, data: Vec<Bytes>) -> impl Future<Output = FilesResult<()>> + use<> {
        let (taken, pace) = (self.take(data), self.pace());
        async move {
            taken?;
            pace.await
        }
    }

    /// Appends `data`, and says at once whether it was taken. Callers that go on without a look at [`pace`](Self::pace) fill the memory.
    ///
    /// # Errors
    /// `NoSpace` if earlier bytes wait for room, or metadata have none; nothing was taken then. `Unavailable`, `ReadOnly`.
    pub fn take(&self, data: Vec<Bytes>) -> FilesResult<()> {
        self.engine.take_append(self.serial, data, false)
    }

    /// As [`take`](Self::take), of bytes that somebody relies upon already: they are taken also if earlier ones wait for room. That there is
    /// none is told by the flush alone, so callers have a bound of their own.
    ///
    /// # Errors
    /// `NoSpace` if metadata have no room; `Unavailable`, `ReadOnly`.
    pub fn take_or_wait(&self, data: Vec<Bytes>) -> FilesResult<()> {
        self.engine.take_append(self.serial, data, true)
    }

    /// Waits while too many bytes of the file wait for the drive.
    ///
    /// # Errors
    /// `Unavailable` once the files have stopped.
    pub fn pace(&self) -> impl Future<Output = FilesResult<()>> + use<> {
        let (engine, serial) = (self.engine.clone(), self.serial);
        async move { engine.await_pace(serial).await }
    }

    /// Has all appends written that were called before: they survive the end of the process, and those of a log a power cut, too, if the
    /// drive has no volatile cache. Goes on while the files are being closed, which writes these bytes, too.
    ///
    /// # Errors
    /// `NoSpace` if there is no room: the bytes wait, and the call can be repeated. `Unavailable`.
    pub async fn flush(&self) -> FilesResult<()> {
        self.engine.changeable()?;
        self.engine.write_out(self.serial).await
    }

    /// Makes all appends durable that were called before: one write for a log, one more of the journal for other files. Calls that come
    /// together share them.
    ///
    /// # Errors
    /// As [`flush`](Self::flush); `Device`, once, if bytes were lost with a zone.
    pub async fn sync(&self) -> FilesResult<()> {
        self.engine.writable()?;
        self.engine.sync(self.serial).await
    }

    /// Reads `length` bytes at `offset`; fewer at the file's end.
    ///
    /// # Errors
    /// `Corrupt` if bytes are damaged or lost, `Device` if the drive fails.
    pub async fn read(&self, offset: u64, length: u64) -> FilesResult<Bytes> {
        self.engine.read(self.serial, offset, length).await
    }

    /// Cuts all from byte `size` on. Durable when it returns, of bytes that were.
    ///
    /// # Errors
    /// `Invalid` if the file is shorter; as [`sync`](Self::sync).
    pub async fn truncate(&self, size: u64) -> FilesResult<()> {
        self.engine.truncate(self.serial, size).await
    }

    /// Says how many bytes the file will have: one of about a zone or more begins a zone. Reserves nothing.
    pub fn expect(&self, bytes: u64) {
        self.engine.state.borrow_mut().active_mut(self.serial).expected = bytes;
    }

    /// Says how long the file will live, for what is written from now on.
    pub fn set_lifetime(&self, lifetime: WriteLifetime) {
        if let Some(node) = self.engine.state.borrow_mut().tree.file_mut(self.serial) {
            node.lifetime = lifetime;
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.engine.let_go(self.serial);
    }
}
