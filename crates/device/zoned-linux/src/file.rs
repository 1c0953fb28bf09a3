//! Drives in files, read and written through a ring: commands cross no thread, as they do twice on `zoned`'s blocking
//! threads.
//!
//! **Owns** the ring of such a file. **Knows nothing of** zones and the file's format.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_runtime::{LocalBoxFuture, Runtime};
use shingle_zoned::{FileDevice, FileDeviceError, FileDeviceErrorKind, Held, HostIo};
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

/// Opens the emulated drive in the file, or on the ordinary block device, at `path`, as [`FileDevice::open`] does; its
/// commands go through io_uring, or by blocking threads where the kernel has none or forbids it.
///
/// # Errors
/// As [`FileDevice::open`]; `InUse` only after a second, in which the last of a killed process may end.
///
/// # Panics
/// Outside of [`shingle_runtime::real`], whose executor watches the ring.
#[expect(clippy::disallowed_methods, reason = "opening blocks its caller")]
pub fn open_file(path: &Path, runtime: &Runtime) -> Result<FileDevice, FileDeviceError> {
    for _ in 1..LOCK_TRIES {
        match open_once(path, runtime) {
            Err(FileDeviceError { kind: FileDeviceErrorKind::InUse, .. }) => std::thread::sleep(LOCK_PAUSE),
            other => return other,
        }
    }
    open_once(path, runtime)
}

fn open_once(path: &Path, runtime: &Runtime) -> Result<FileDevice, FileDeviceError> {
    FileDevice::open_with(path, runtime, |file| match FileRing::new(Arc::new(file.clone()), runtime) {
        Ok(ring) => Some(Box::new(ring)),
        Err(error) => {
            tracing::info!(%error, path = %path.display(), "no io_uring here: commands of this drive go by threads");
            None
        }
    })
}

/// Waiter of an operation, and the value dropped at its end.
struct Work {
    answer: oneshot::Sender<io::Result<Bytes>>,
    held: Option<Held>,
}

/// The ring of a file. Dropping it closes the ring.
struct FileRing(Rc<Shared>);

struct Shared {
    seat: Seat<Work>,
}

impl FileRing {
    fn new(file: Arc<dyn AsFd>, runtime: &Runtime) -> io::Result<Self> {
        let shared = Rc::new(Shared { seat: Seat::new(file)? });
        runtime.spawn_detached(driver::drive(shared.clone()));
        Ok(Self(shared))
    }

    /// Queues an operation at byte `at`; the future waits for it.
    fn run(&self, io: Option<Io>, at: u64, held: Option<Held>) -> LocalBoxFuture<'static, io::Result<Bytes>> {
        let (answer, answered) = oneshot::channel();
        let work = Work { answer, held };
        match io {
            Some(io) => self.0.seat.push(io, at, work),
            None => drop(work),
        }
        Box::pin(async move { answered.await.unwrap_or_else(|_| Err(io::ErrorKind::NotConnected.into())) })
    }
}

impl HostIo for FileRing {
    fn read(&self, at: u64, length: Blocks, held: Held) -> LocalBoxFuture<'static, io::Result<Bytes>> {
        let buffer = self.0.seat.read_buffer(length.bytes() as usize);
        self.run(buffer.map(Io::Read), at, Some(held))
    }

    fn write(&self, at: u64, data: Vec<Bytes>) -> LocalBoxFuture<'_, io::Result<()>> {
        let length: usize = data.iter().map(Bytes::len).sum();
        Box::pin(async move {
            self.run(Some(Io::Write(data, TRANSFER_MAX)), at, None).await?;
            if length >= DESTAGE_MIN {
                // Nobody waits for it, nor does a failure count: a flush finds and reports unwritten bytes.
                drop(self.run(Some(Io::Destage(length)), at, None));
            }
            Ok(())
        })
    }

    fn sync(&self) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(async move { self.run(Some(Io::Flush), 0, None).await.map(drop) })
    }
}

impl Drop for FileRing {
    fn drop(&mut self) {
        // Nobody waits any more: commands hold the drive, and with it this, until they are done.
        drop(self.0.seat.close());
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
            let ring = FileRing::new(Arc::new(file), &runtime).unwrap();
            let first = ring.read(0, Blocks(1), Box::new(()));
            let second = async {
                // By now the kernel has the first, for which no byte ever comes.
                runtime.sleep(Duration::from_millis(20)).await;
                ring.0.seat.sever();
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
