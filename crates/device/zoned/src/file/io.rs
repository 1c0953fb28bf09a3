//! I/O on a drive's file: on blocking threads, or by another crate's means.
//!
//! **Owns** the threads' version. **Knows nothing of** zones and their table.

use std::any::Any;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_runtime::{LocalBoxFuture, Runtime};

use crate::file::host::{self, Claimed};

/// The open file of a drive. The drive's lock is held as long as a clone exists.
#[derive(Clone)]
pub struct HostFile(Arc<Claimed>);

impl HostFile {
    pub(crate) fn new(file: Arc<Claimed>) -> Self {
        Self(file)
    }

    /// Writes the pieces one behind the other from byte `at`, on this thread: into the page cache.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn write_all_at(&self, at: u64, data: &[Bytes]) -> io::Result<()> {
        host::write_all(&self.0, at, data)
    }

    /// Makes all writes and the length of the file durable, and waits for that on this thread.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

impl AsFd for HostFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        File::as_fd(&self.0)
    }
}

/// Value to drop when a command is done, on the owner's thread: the command's place in its lane.
pub type Held = Box<dyn Any>;

/// Reads, writes and syncs of the file that holds a drive.
///
/// Commands go side by side, in any order; each begins at the latest when its future is first polled, and goes on if
/// that is dropped. An error of kind `NotConnected` says that nothing is known of the command any more, nor will be of
/// later ones: the drive is gone.
///
/// Dropping it waits for the operating system's commands, and closes the file.
pub trait HostIo {
    /// Reads `length` blocks from byte `at`, and then drops `held`, even if the caller has gone.
    fn read(&self, at: u64, length: Blocks, held: Held) -> LocalBoxFuture<'static, io::Result<Bytes>>;
    /// Writes the pieces one behind the other from byte `at`. Once it is done, a later open file has them, even if this
    /// process is killed.
    fn write(&self, at: u64, data: Vec<Bytes>) -> LocalBoxFuture<'_, io::Result<()>>;
    /// Makes the writes and the length of the file durable.
    fn sync(&self) -> LocalBoxFuture<'_, io::Result<()>>;
}

/// Each command on a blocking thread.
pub(crate) struct Threads {
    runtime: Runtime,
    file: HostFile,
}

impl Threads {
    pub(crate) fn new(runtime: &Runtime, file: HostFile) -> Self {
        Self { runtime: runtime.clone(), file }
    }

    /// `work` on a thread, begun when the future is first polled.
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> LocalBoxFuture<'static, io::Result<T>> {
        let (file, runtime) = (self.file.clone(), self.runtime.clone());
        Box::pin(async move {
            runtime.blocking(move || work(&file.0)).await.unwrap_or_else(|lost| Err(io::Error::other(lost)))
        })
    }
}

impl HostIo for Threads {
    fn read(&self, at: u64, length: Blocks, held: Held) -> LocalBoxFuture<'static, io::Result<Bytes>> {
        let (runtime, read) = (self.runtime.clone(), self.run(move |file| host::read(file, at, length)));
        Box::pin(async move {
            let task = runtime.spawn(async move {
                let done = read.await;
                drop(held);
                done
            });
            task.await.unwrap_or_else(|lost| Err(io::Error::other(lost)))
        })
    }

    fn write(&self, at: u64, data: Vec<Bytes>) -> LocalBoxFuture<'_, io::Result<()>> {
        self.run(move |file| host::write_all(file, at, &data))
    }

    fn sync(&self) -> LocalBoxFuture<'_, io::Result<()>> {
        self.run(File::sync_data)
    }
}
