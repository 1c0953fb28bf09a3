//! Drives in files, read and written through a ring: commands cross no thread, as they do twice on `zoned`'s blocking
//! threads.
//!
//! **Owns** the ring of such a file. **Knows nothing of** zones and the file's format.

use std::cell::Cell;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_runtime::{LocalBoxFuture, Runtime};
use shingle_zoned::{FileDevice, FileDeviceError, FileDeviceErrorKind, Held, HostFile, HostIo, TakenFile};
use tokio::sync::oneshot;

use crate::driver::{self, Owner, Seat};
use crate::ring::{Completed, Io, TRANSFER_MAX};

/// Tries of a drive in use, and the pause between them: after a process is killed the kernel holds its file, and the
/// drive's lock with it, until it has ended the operations in its ring.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Unwritten bytes after which the kernel is asked to begin writing to the medium, as drives do. Without that it leaves
/// them in memory until a flush, which then has to wait for all of them, behind a medium that was idle before.
const DESTAGE_MIN: usize = 64 << 10;

/// Smaller writes are copied into the page cache on the owner's thread: less work than the kernel's workers and two wakes, for which most file
/// systems need a ring's buffered writes.
const HERE_MAX: usize = DESTAGE_MIN - 1;

/// Longest time of a usual sync for which the owner's thread waits itself, and does not hand it to a thread of the kernel's: that costs two wakes,
/// which take as long. Nothing else happens on the drive meanwhile.
const QUICK_SYNC: Duration = Duration::from_micros(500);

/// Opens the emulated drive in the file, or on the ordinary block device, at `path`, as [`FileDevice::open`] does; its
/// commands go through io_uring, or by blocking threads where the kernel has none or forbids it.
///
/// A drive that is `alone` on its thread may have the thread wait for small writes and quick syncs. An array has several drives on one thread:
/// one that hangs must not stop the others there.
///
/// # Errors
/// As [`FileDevice::open`]; `InUse` only after a second, in which the last of a killed process may end.
///
/// # Panics
/// Outside of [`shingle_runtime::real`], whose executor watches the ring.
pub fn open_file(path: &Path, runtime: &Runtime, alone: bool) -> Result<FileDevice, FileDeviceError> {
    Ok(start_file(take_file(path)?, path, runtime, alone))
}

/// The half of [`open_file`] that may block.
#[expect(clippy::disallowed_methods, reason = "opening blocks its caller")]
pub(crate) fn take_file(path: &Path) -> Result<TakenFile, FileDeviceError> {
    for _ in 1..LOCK_TRIES {
        match FileDevice::take(path) {
            Err(FileDeviceError { kind: FileDeviceErrorKind::InUse, .. }) => std::thread::sleep(LOCK_PAUSE),
            other => return other,
        }
    }
    FileDevice::take(path)
}

/// The other half of [`open_file`].
pub(crate) fn start_file(taken: TakenFile, path: &Path, runtime: &Runtime, alone: bool) -> FileDevice {
    FileDevice::start(taken, runtime, |file| {
        match FileRing::new(Arc::new(file.clone()), alone.then(|| file.clone()), runtime) {
            Ok(ring) => Some(Box::new(ring)),
            Err(error) => {
                tracing::info!(%error, path = %path.display(), "no io_uring here: commands of this drive go by threads");
                None
            }
        }
    })
}

/// Waiter of an operation, and the value dropped at its end.
struct Work {
    answer: oneshot::Sender<io::Result<Bytes>>,
    held: Option<Held>,
}

/// The ring of a file. Dropping it closes the ring.
struct FileRing {
    runtime: Runtime,
    shared: Rc<Shared>,
    /// For small writes and quick syncs, if the drive has its thread for itself.
    file: Option<HostFile>,
    /// Usual time of a sync; unknown ones count as slow.
    sync_time: Cell<Duration>,
    /// Writes that the ring has: they hold the file's lock, so a small one waits for it as they do, and not on the owner's thread.
    writes: Cell<u32>,
}

struct Shared {
    seat: Seat<Work>,
}

impl FileRing {
    fn new(ring: Arc<dyn AsFd>, file: Option<HostFile>, runtime: &Runtime) -> io::Result<Self> {
        let shared = Rc::new(Shared { seat: Seat::new(ring)? });
        runtime.spawn_detached(driver::drive(shared.clone()));
        Ok(Self { runtime: runtime.clone(), shared, file, sync_time: Cell::new(Duration::MAX), writes: Cell::new(0) })
    }

    /// Queues an operation at byte `at`; the future waits for it.
    fn run(&self, io: Option<Io>, at: u64, held: Option<Held>) -> LocalBoxFuture<'static, io::Result<Bytes>> {
        let (answer, answered) = oneshot::channel();
        let work = Work { answer, held };
        match io {
            Some(io) => self.shared.seat.push(io, at, work),
            None => drop(work),
        }
        Box::pin(async move { answered.await.unwrap_or_else(|_| Err(io::ErrorKind::NotConnected.into())) })
    }
}

impl HostIo for FileRing {
    fn read(&self, at: u64, length: Blocks, held: Held) -> LocalBoxFuture<'static, io::Result<Bytes>> {
        let buffer = self.shared.seat.read_buffer(length.bytes() as usize);
        self.run(buffer.map(Io::Read), at, Some(held))
    }

    fn write(&self, at: u64, data: Vec<Bytes>) -> LocalBoxFuture<'_, io::Result<()>> {
        let length: usize = data.iter().map(Bytes::len).sum();
        Box::pin(async move {
            if let Some(file) = self.file.as_ref().filter(|_| length <= HERE_MAX && self.writes.get() == 0) {
                return file.write_all_at(at, &data);
            }
            self.writes.set(self.writes.get() + 1);
            let written = self.run(Some(Io::Write(data, TRANSFER_MAX)), at, None).await;
            self.writes.set(self.writes.get() - 1);
            written?;
            if length >= DESTAGE_MIN {
                // Nobody waits for it, nor does a failure count: a flush finds and reports unwritten bytes.
                drop(self.run(Some(Io::Destage(length)), at, None));
            }
            Ok(())
        })
    }

    fn sync(&self) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            let began = self.runtime.now();
            let here = self.file.as_ref().filter(|_| self.sync_time.get() <= QUICK_SYNC && self.writes.get() == 0);
            let synced = match here {
                Some(file) => file.sync(),
                None => self.run(Some(Io::Flush), 0, None).await.map(drop),
            };
            // The last few count: one slow sync is enough to hand the next ones over.
            let (last, took) = (self.sync_time.get().min(QUICK_SYNC * 4), self.runtime.now().since(began));
            self.sync_time.set((last * 3 + took) / 4);
            synced
        })
    }
}

impl Drop for FileRing {
    fn drop(&mut self) {
        // Nobody waits any more: commands hold the drive, and with it this, until they are done.
        drop(self.shared.seat.close());
    }
}

impl Owner for Shared {
    type Work = Work;

    fn seat(&self) -> &Seat<Work> {
        &self.seat
    }

    fn done(self: &Rc<Self>, Completed { tag, result }: Completed<Work>) {
        let Work { answer, held } = tag;
        // First, so that the waiter finds the lane free.
        drop(held);
        let _ = answer.send(result);
    }

    /// Waiters hear of it by the loss of their answers.
    fn refused(&self) {}
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use futures_util::future::join;
    use shingle_runtime::real;

    use super::*;

    /// ZL-DR-1: without the answer to the first read the second would fail alone.
    #[test]
    fn commands_under_way_hear_of_a_ring_that_the_kernel_refuses() {
        let (file, _other) = UnixStream::pair().unwrap();
        real::run(|runtime| async move {
            let ring = FileRing::new(Arc::new(file), None, &runtime).unwrap();
            let first = ring.read(0, Blocks(1), Box::new(()));
            let second = async {
                // By now the kernel has the first, for which no byte ever comes.
                runtime.sleep(Duration::from_millis(20)).await;
                ring.shared.seat.sever();
                ring.read(0, Blocks(1), Box::new(())).await
            };
            let (first, second) = join(first, second).await;
            let third = ring.sync().await.map(|()| Bytes::new());
            for answer in [first, second, third] {
                assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::NotConnected);
            }
        })
        .unwrap();
    }
}
