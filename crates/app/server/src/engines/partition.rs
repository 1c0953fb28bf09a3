//! Partitions of a drive for several owners in one process: the drive has a thread of its own, and each partition's owner reaches it
//! as a device.
//!
//! **Owns** the drives that have partitions in use. **Knows nothing of** the stores on them.
//!
//! # Invariants
//! - SV-PART-1: a partition has one owner at a time, and a drive one process. (`partitions.rs`)
//! - SV-PART-2: commands reach the drive in the order in which they were started, by whatever task.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak as LocalWeak};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_partitions::PartitionTable;
use shingle_runtime::owner::Job;
use shingle_runtime::{Runtime, real};
use shingle_store_api::{StoreError, StoreErrorKind};
use shingle_zoned::{
    DeviceError, DeviceErrorKind, DeviceFuture, DeviceResult, Geometry, ZoneInfo, ZoneOp, ZoneRange, ZonedDevice,
};
use shingle_zoned_linux::OpenOptions;
use tokio::sync::{mpsc, oneshot};

use super::whole;
use crate::error::{Error, ErrorKind, Result};

/// Pause between two looks for the end of a former owner's commands.
const OLD_PAUSE: Duration = Duration::from_millis(5);

/// Longest wait for them: a drive that hangs is an error for its next owner.
const OLD_PATIENCE: Duration = Duration::from_secs(30);

/// Longest wait for commands under way when the last owner is gone.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// A drive's place in the list: locked while the drive is opened.
type Place = Arc<Mutex<Weak<SharedDrive>>>;

/// Drives that have partitions in use, by their path.
static DRIVES: Mutex<BTreeMap<PathBuf, Place>> = Mutex::new(BTreeMap::new());

/// Opens a partition of the drive at `path`. Blocks while it does.
///
/// # Errors
/// `Drive`, `InUse`, `NewerVersion`, `System`.
pub(super) fn open(path: &Path, name: &str, options: OpenOptions) -> Result<PartitionDevice> {
    let drive = SharedDrive::of(path, options)?;
    let (tell, told) = sync_channel(1);
    let wanted = name.to_owned();
    let asked = drive.start(move |core| async move {
        // Its caller waits.
        let _ = tell.send(core.take(&wanted).await);
    });
    let taken = asked.and_then(|()| told.recv().ok());
    let gone = || Error::new(ErrorKind::Drive, format!("{}: the drive's thread has ended", path.display()));
    let (slot, geometry) =
        taken.ok_or_else(gone)?.map_err(|(kind, words)| Error::new(kind, format!("{}: {words}", path.display())))?;
    Ok(PartitionDevice { drive, slot, geometry })
}

/// A drive with partitions in use: its thread ends with the last of them.
struct SharedDrive {
    jobs: Option<mpsc::UnboundedSender<Job<Core>>>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl SharedDrive {
    fn of(path: &Path, options: OpenOptions) -> Result<Arc<Self>> {
        let key = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let place = {
            let mut drives = held(&DRIVES);
            // One that somebody opens just now has a second holder.
            drives.retain(|_, place| Arc::strong_count(place) > 1 || held(place).strong_count() > 0);
            drives.entry(key).or_default().clone()
        };
        // Those who want the same drive wait until it is open; a drive that hangs holds up no other.
        let mut open = held(&place);
        if let Some(drive) = open.upgrade() {
            return Ok(drive);
        }
        let drive = Arc::new(Self::open(path, options)?);
        *open = Arc::downgrade(&drive);
        Ok(drive)
    }

    fn open(path: &Path, options: OpenOptions) -> Result<Self> {
        let (jobs, queue) = mpsc::unbounded_channel();
        let (tell, told) = sync_channel(1);
        let node = path.to_owned();
        let main = move |rt: Runtime| async move {
            match Core::open(&rt, &node, options).await {
                Ok(core) => {
                    let _ = tell.send(Ok(()));
                    serve(rt, Rc::new(core), queue).await;
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        };
        let failed = |error: std::io::Error| Error::system(format_args!("no thread for {}", path.display()), error);
        let thread = real::spawn_thread("partitions", main).map_err(failed)?;
        // From here on its drop ends the thread.
        let drive = Self { jobs: Some(jobs), thread: Some(thread) };
        let lost = |_| Error::new(ErrorKind::Drive, format!("{}: the drive's thread ended", path.display()));
        told.recv().map_err(lost)??;
        Ok(drive)
    }

    /// Starts work on the drive's thread, behind all that was started before. `None` if the thread is gone.
    fn start<F: Future<Output = ()> + 'static>(&self, work: impl FnOnce(Rc<Core>) -> F + Send + 'static) -> Option<()> {
        self.jobs.as_ref()?.send(Box::new(|core| Box::pin(work(core)))).ok()
    }
}

impl Drop for SharedDrive {
    fn drop(&mut self) {
        self.jobs = None;
        // The drive is free once its thread has ended, and its next owner may come at once.
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of a drive with partitions has panicked");
        }
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(rt: Runtime, core: Rc<Core>, mut queue: mpsc::UnboundedReceiver<Job<Core>>) {
    while let Some(job) = queue.recv().await {
        // Tasks begin in the order in which they are spawned (SV-PART-2).
        rt.spawn_detached(job(core.clone()));
    }
    // Commands that were started are done, though nobody waits for them; a drive that hangs is left then.
    let begun = rt.now();
    while Rc::strong_count(&core) > 1 && rt.now().since(begun) < END_PATIENCE {
        rt.sleep(OLD_PAUSE).await;
    }
}

/// State of the drive's thread.
struct Core {
    rt: Runtime,
    table: PartitionTable,
    slots: RefCell<Vec<Slot>>,
}

/// A partition that has, or had, an owner.
struct Slot {
    name: String,
    view: Option<Rc<ZoneRange>>,
    /// The view, as long as commands use it.
    used: LocalWeak<ZoneRange>,
}

impl Core {
    async fn open(rt: &Runtime, path: &Path, options: OpenOptions) -> Result<Self> {
        let device = whole::open(path, rt, options)?;
        let table = PartitionTable::open(rt, &device).await;
        let table = table.map_err(|error| Error::new(kind_of(&error), format!("{}: {error}", path.display())))?;
        Ok(Self { rt: rt.clone(), table, slots: RefCell::default() })
    }

    /// Gives a partition to an owner: its slot, and its shape.
    async fn take(&self, name: &str) -> std::result::Result<(usize, Geometry), (ErrorKind, String)> {
        let there = self.slots.borrow().iter().any(|slot| slot.name == name && slot.view.is_some());
        if there {
            return Err((ErrorKind::InUse, format!("partition `{name}` is in use")));
        }
        let begun = self.rt.now();
        while self.slots.borrow().iter().any(|slot| slot.name == name && slot.used.strong_count() > 0) {
            if self.rt.now().since(begun) >= OLD_PATIENCE {
                let words = format!("partition `{name}`: the drive does not answer commands of the last owner");
                return Err((ErrorKind::Drive, words));
            }
            self.rt.sleep(OLD_PAUSE).await;
        }
        let view = Rc::new(self.table.view(name).await.map_err(|error| (kind_of(&error), error.message))?);
        let geometry = view.geometry().clone();
        let mut slots = self.slots.borrow_mut();
        if slots.iter().any(|slot| slot.name == name && slot.view.is_some()) {
            return Err((ErrorKind::InUse, format!("partition `{name}` is in use")));
        }
        slots.push(Slot { name: name.to_owned(), used: Rc::downgrade(&view), view: Some(view) });
        Ok((slots.len() - 1, geometry))
    }

    fn view(&self, slot: usize) -> Option<Rc<ZoneRange>> {
        self.slots.borrow().get(slot)?.view.clone()
    }

    fn leave(&self, slot: usize) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(slot) {
            slot.view = None;
        }
    }
}

fn kind_of(error: &StoreError) -> ErrorKind {
    match error.kind {
        StoreErrorKind::Invalid if error.message.contains("version") => ErrorKind::NewerVersion,
        _ => ErrorKind::Drive,
    }
}

/// A partition, for its owner's thread.
pub(super) struct PartitionDevice {
    drive: Arc<SharedDrive>,
    slot: usize,
    geometry: Geometry,
}

impl PartitionDevice {
    /// Runs a command on the drive's thread.
    fn run<T, F>(&self, at: Lba, command: impl FnOnce(Rc<ZoneRange>) -> F + Send + 'static) -> DeviceFuture<'_, T>
    where
        T: Send + 'static,
        F: Future<Output = DeviceResult<T>> + 'static,
    {
        Box::pin(async move {
            let gone = || DeviceError::new(DeviceErrorKind::Gone, at, self.geometry.zone_of(at));
            let (reply, answer) = oneshot::channel();
            let slot = self.slot;
            let started = self.drive.start(move |core| async move {
                if let Some(view) = core.view(slot) {
                    // A caller that is gone does not undo it.
                    let _ = reply.send(command(view).await);
                }
            });
            started.ok_or_else(gone)?;
            answer.await.unwrap_or_else(|_| Err(gone()))
        })
    }
}

impl Drop for PartitionDevice {
    fn drop(&mut self) {
        let slot = self.slot;
        // A thread that is gone has no slots.
        let _ = self.drive.start(move |core| async move { core.leave(slot) });
    }
}

impl ZonedDevice for PartitionDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        self.run(self.geometry.start_of(first), move |view| async move { view.report(first, count).await })
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        self.run(at, move |view| async move { view.read(at, length).await })
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        self.run(at, move |view| async move { view.write(at, data).await })
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        self.run(self.geometry.start_of(zone), move |view| async move { view.append(zone, data).await })
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        self.run(self.geometry.start_of(zone), move |view| async move { view.manage(zone, op).await })
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        self.run(Lba(0), |view| async move { view.flush().await })
    }
}
