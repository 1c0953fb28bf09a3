//! The way to a drive's bytes in its file: blocking threads, or what another crate brings.
//!
//! **Owns** the threads' version. **Knows nothing of** zones and their table.

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_runtime::{LocalBoxFuture, Runtime};

use crate::file::host::{self, Claimed};

/// The open file of a drive. The drive's lock is held for as long as anybody has it.
#[derive(Clone)]
pub struct HostFile(Arc<Claimed>);

impl HostFile {
    pub(crate) fn new(file: Arc<Claimed>) -> Self {
        Self(file)
    }
}

impl AsFd for HostFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        File::as_fd(&self.0)
    }
}

/// Reads, writes and syncs of the file that holds a drive.
///
/// Commands go side by side, in any order; each begins at the latest when its future is first polled, and goes on if that
/// is dropped. An error of kind `NotConnected` says that nothing is known of the command any more, nor will be of later
/// ones: the drive is gone.
///
/// Dropping it waits for what the operating system has, and lets go of the file.
pub trait HostIo {
    /// Reads `length` blocks from byte `at`.
    fn read(&self, at: u64, length: Blocks) -> LocalBoxFuture<'_, io::Result<Bytes>>;
    /// Writes the pieces one behind the other from byte `at`. Once it is done, a later open file has them, whatever
    /// becomes of this process.
    fn write(&self, at: u64, data: Vec<Bytes>) -> LocalBoxFuture<'_, io::Result<()>>;
    /// Makes durable what was written, and the length of the file.
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

    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> impl Future<Output = io::Result<T>> {
        let (file, runtime) = (self.file.clone(), self.runtime.clone());
        async move { runtime.blocking(move || work(&file.0)).await.unwrap_or_else(|lost| Err(io::Error::other(lost))) }
    }
}

impl HostIo for Threads {
    fn read(&self, at: u64, length: Blocks) -> LocalBoxFuture<'_, io::Result<Bytes>> {
        Box::pin(self.run(move |file| host::read(file, at, length)))
    }

    fn write(&self, at: u64, data: Vec<Bytes>) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(self.run(move |file| host::write_all(file, at, &data)))
    }

    fn sync(&self) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(self.run(File::sync_data))
    }
}
