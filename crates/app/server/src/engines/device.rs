//! Drives and partitions by their paths.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_base::ZoneId;
use shingle_runtime::Runtime;
use shingle_zoned::{PeekDevice, ZoneRange, ZonedDevice};
use shingle_zoned_linux::{OpenOptions, TakenDrive};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::partition::{self, PartitionDevice};
use super::whole;
use crate::drive_path::split;
use crate::error::{Error, ErrorKind, Result};

/// Opens the drive at `path`: a zoned block device, an emulated drive on an ordinary one or in a file, or a partition of one of these
/// (`PATH#NAME`), beside other partitions that this process has. Locks it against others. One that is mounted is refused with any
/// options.
///
/// # Errors
/// `Denied`, `Drive`, `InUse`, `NewerVersion`, `System`.
pub fn open_drive(path: &Path, runtime: &Runtime, options: OpenOptions) -> Result<Rc<dyn ZonedDevice>> {
    take(path, options)?.start(runtime)
}

/// As [`open_drive`], without blocking the caller's thread: a drive that does not answer within two minutes is an error of kind `Drive`. `System` is the want of something that is no fault of the drive.
///
/// # Errors
/// As [`open_drive`].
pub async fn open_drive_in_time(path: &Path, runtime: &Runtime, options: OpenOptions) -> Result<Rc<dyn ZonedDevice>> {
    let node = path.to_owned();
    in_time(path, runtime, PATIENCE, move || take(&node, options)).await?.start(runtime)
}

/// Longest time for a drive to be opened, which takes a report of its zones: the kernel gives up commands by then.
const PATIENCE: Duration = Duration::from_mins(2);

/// Openings that were given up and have not ended: they still have their drives. Each receiver completes at its end.
static HUNG: Mutex<Vec<(PathBuf, oneshot::Receiver<()>)>> = Mutex::new(Vec::new());

fn hung() -> MutexGuard<'static, Vec<(PathBuf, oneshot::Receiver<()>)>> {
    HUNG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes note that the opening of the drive at `path` was given up; `ended` completes when it ends all the same.
pub(super) fn give_up(path: &Path, ended: oneshot::Receiver<()>) -> Error {
    hung().push((path.to_owned(), ended));
    silent(path)
}

/// Refuses a drive whose last opening still hangs: it would be in use.
///
/// # Errors
/// `Drive`.
pub(super) fn refuse_hung(path: &Path) -> Result<()> {
    let mut hung = hung();
    hung.retain_mut(|(_, ended)| matches!(ended.try_recv(), Err(TryRecvError::Empty)));
    if hung.iter().any(|(other, _)| other == path) { Err(silent(path)) } else { Ok(()) }
}

fn silent(path: &Path) -> Error {
    let words = "the drive does not answer, and hangs while it is opened: look at it, its cable and the kernel's log";
    Error::new(ErrorKind::Drive, format!("{}: {words}", path.display()))
}

/// Has `work`, which opens the drive at `path`, done by a thread of its own. One that hangs keeps no other thread, and holds its drive.
async fn in_time<T: Send + 'static>(
    path: &Path,
    runtime: &Runtime,
    patience: Duration,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    refuse_hung(path)?;
    let (tell, told) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let work = move || {
        // If nobody waits any more, the drive is let go here.
        drop(tell.send(work()));
        drop(end);
    };
    let spawned = std::thread::Builder::new().name("opening".to_owned()).spawn(work);
    spawned.map_err(|error| Error::system(format_args!("no thread to open {}", path.display()), error))?;
    match select(told, pin!(runtime.sleep(patience))).await {
        Either::Left((Ok(taken), _)) => taken,
        Either::Left((Err(_), _)) => {
            Err(Error::new(ErrorKind::System, format!("{}: its opening ended without a result", path.display())))
        }
        Either::Right(_) => Err(give_up(path, ended)),
    }
}

/// A drive or partition that was taken and has no runtime yet.
enum Taken {
    Whole(TakenDrive),
    Partition(PartitionDevice),
}

/// The half of [`open_drive`] that may block.
fn take(path: &Path, options: OpenOptions) -> Result<Taken> {
    match split(path) {
        (path, None) => whole::take(&path, options).map(Taken::Whole),
        (path, Some(name)) => partition::open(&path, &name, options).map(Taken::Partition),
    }
}

impl Taken {
    fn start(self, runtime: &Runtime) -> Result<Rc<dyn ZonedDevice>> {
        match self {
            Self::Whole(taken) => whole::start(taken, runtime),
            Self::Partition(device) => Ok(Rc::new(device)),
        }
    }
}

/// A drive or partition that may be open elsewhere, to be read.
pub struct Look {
    /// It.
    pub device: Rc<dyn ZonedDevice>,
    drive: Rc<PeekDevice>,
}

impl Look {
    /// As [`PeekDevice::hold`], of the whole drive.
    pub fn hold(&self) -> bool {
        self.drive.hold()
    }
}

/// Looks at the drive or partition at `path`, which may be open elsewhere; changes nothing.
///
/// # Errors
/// `Drive`, `NewerVersion`.
pub async fn look_at_drive(path: &Path, runtime: &Runtime) -> Result<Look> {
    let (path, name) = split(path);
    let drive = Rc::new(whole::look(&path, runtime)?);
    let all: Rc<dyn ZonedDevice> = drive.clone();
    let Some(name) = name else { return Ok(Look { device: all, drive }) };
    let failed = |error: &dyn std::fmt::Display| Error::new(ErrorKind::Drive, format!("{}: {error}", path.display()));
    let there = shingle_partitions::look(runtime, &all).await.map_err(|error| failed(&error))?;
    let found = there.into_iter().find(|partition| partition.name == name);
    let found = found.ok_or_else(|| failed(&format_args!("the drive has no partition `{name}`")))?;
    let count = found.zones.end - found.zones.start;
    let view = ZoneRange::new(all, ZoneId(found.zones.start), count, found.share).await;
    Ok(Look { device: Rc::new(view.map_err(|error| failed(&error))?), drive })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use shingle_runtime::real;

    use super::*;

    /// The thread of an array goes on, and later tries hear the same until the drive answers.
    #[test]
    fn a_drive_that_hangs_while_it_is_opened_is_given_up_and_stays_so_until_it_answers() {
        real::run(|runtime| async move {
            let (answer, answered) = mpsc::channel::<()>();
            let path = Path::new("/dev/a-drive-that-hangs");
            let hanging = in_time(path, &runtime, Duration::from_millis(50), move || {
                let _ = answered.recv();
                Ok(1)
            });
            let soon = || in_time(path, &runtime, Duration::from_secs(20), || Ok(2));
            for error in [hanging.await.unwrap_err(), soon().await.unwrap_err()] {
                assert_eq!(error.kind, ErrorKind::Drive);
                assert!(error.message.contains("a-drive-that-hangs: the drive does not answer"), "{error}");
            }
            drop(answer);
            let began = runtime.now();
            while let Err(error) = soon().await {
                assert!(runtime.now().since(began) < Duration::from_secs(20), "{error}");
                runtime.sleep(Duration::from_millis(5)).await;
            }
        })
        .unwrap();
    }
}
