//! The node of a drive, held open.
//!
//! **Owns** the open file, its lock, and the count of commands that other threads give it.

use std::fs::{File, OpenOptions as FileOptions, TryLockError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::drive::Drive;
use crate::error::{OpenError, OpenErrorKind};

/// Tries of the lock of a node, and the pause between them: the device manager holds it while it looks at a drive that
/// has just appeared.
const LOCK_TRIES: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// A drive's node, open as a drive only here.
pub(crate) struct Node {
    file: File,
    /// The drive's directory in sysfs: gone when the drive is.
    sysfs: PathBuf,
    /// Commands that other threads have.
    busy: Mutex<u32>,
    idle: Condvar,
}

impl Node {
    /// Opens the node at `path` for this process alone, for direct reads and writes.
    pub(crate) fn claim(path: &Path, drive: &Drive, sysfs: PathBuf) -> Result<Arc<Self>, OpenError> {
        let flags = libc::O_DIRECT | libc::O_EXCL;
        let opened = FileOptions::new().read(true).write(true).custom_flags(flags).open(path);
        let file = opened.map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => OpenError::new(OpenErrorKind::InUse, path),
            Some(libc::EROFS) => OpenError::new(OpenErrorKind::ReadOnly, path),
            _ => OpenError::from_io(error, path),
        })?;
        let number = file.metadata().map_err(|error| OpenError::from_io(error, path))?.rdev();
        if (rustix::fs::major(number), rustix::fs::minor(number)) != drive.number {
            // The link leads elsewhere since: the description is the other drive's.
            let changed = io::Error::other("the path has just come to name another drive: try again");
            return Err(OpenError::new(OpenErrorKind::System(changed), path));
        }
        lock(&file, path)?;
        if drive.read_only {
            return Err(OpenError::new(OpenErrorKind::ReadOnly, path));
        }
        Ok(Arc::new(Self { file, sysfs, busy: Mutex::new(0), idle: Condvar::new() }))
    }

    /// Any open file in place of a node; there for as long as there is a `/proc`.
    #[cfg(test)]
    pub(crate) fn of(file: File) -> Arc<Self> {
        Arc::new(Self { file, sysfs: PathBuf::from("/proc"), busy: Mutex::new(0), idle: Condvar::new() })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// True if the kernel still has the drive.
    pub(crate) fn present(&self) -> bool {
        self.sysfs.exists()
    }

    /// Holds the node for a command on another thread.
    pub(crate) fn hold(self: &Arc<Self>) -> Held {
        *self.busy.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Held(self.clone())
    }

    /// Waits until no other thread has a command, and closes the node.
    pub(crate) fn close(self: Arc<Self>) {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        while *busy > 0 {
            busy = self.idle.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        drop(busy);
        let mut node = self;
        // The last of them is about to let go.
        while let Err(held) = Arc::try_unwrap(node).map(drop) {
            node = held;
            std::thread::yield_now();
        }
    }
}

impl AsFd for Node {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Closing the file would not do: a child process that another thread is just starting still has it, and the
        // lock with it, until it becomes another program.
        let _ = self.file.unlock();
    }
}

/// A node with a command of another thread.
pub(crate) struct Held(Arc<Node>);

impl std::ops::Deref for Held {
    type Target = Node;
    fn deref(&self) -> &Node {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.busy.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.idle.notify_all();
    }
}

/// Takes the lock that tells others, the device manager among them, to leave the drive alone.
#[expect(clippy::disallowed_methods, reason = "opening blocks its caller, and no runtime is at hand")]
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), OpenError> {
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(OpenError::from_io(error, path)),
        }
    }
    Err(OpenError::new(OpenErrorKind::InUse, path))
}

/// Opens the node at `path` only to look, beside its owner.
pub(crate) fn look(path: &Path) -> io::Result<File> {
    FileOptions::new().read(true).open(path)
}
