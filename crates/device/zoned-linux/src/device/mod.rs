//! A kernel zoned block device as a drive of the contract.
//!
//! The state machine decides which commands are allowed, so the drive sees only legal ones; lanes keep the order within
//! a zone, the gate that of places for open zones. Reads, writes and flushes go through a ring that is driven on the
//! owner's own thread: commands that start while others are polled are submitted together. Zone commands have no
//! io_uring operation and run on a blocking thread.
//!
//! **Owns** the drive, alone: others are refused while it is open. **Knows nothing of** the stored data.
//!
//! # Invariants
//! - ZL-KD-1: at most one write or zone command of a zone is with the drive at a time.
//! - ZL-KD-2: after a failed command its zone is reported before anything else is sent to it, and the commands queued
//!   behind it fail, so that the state machine again agrees with the drive.
//! - ZL-KD-3: dropping the device waits for the drive's commands, and closes the node: it can be opened again at once.
//!   Commands that still waited for their turn are not done.
//! - ZL-KD-4: if the kernel refuses to go on with the ring, every command is answered with `Gone`.
//! - ZL-KD-5: after a failed flush every command is answered with `Gone`, as on a drive in a file: acknowledged data may
//!   be lost, and no later flush could say that it is not. One flush runs at a time.

mod command;
mod fail;
mod open;
mod shared;
mod work;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_runtime::Runtime;
use shingle_zoned::lanes::Lanes;
use shingle_zoned::{DeviceErrorKind, DeviceFuture, Flushes, Geometry, Target, ZoneInfo, ZoneOp, ZonedDevice};
use tokio::sync::oneshot;

use crate::drive::Drive;
use crate::driver::{self, Owner, Seat};
use crate::error::{OpenError, OpenErrorKind};
use crate::gate::Gate;
use crate::ring::{Completed, TRANSFER_MAX};
use shared::{Shared, State};
use work::Work;

pub use open::OpenOptions;
pub(crate) use open::{Opened, claim, describe, open as take, refuse_used};

/// A kernel zoned block device: `/dev/sdX`, `/dev/nvmeXnY` and the like.
///
/// Must be opened and used in [`shingle_runtime::real`], whose executor watches its ring.
pub struct KernelDevice {
    shared: Rc<Shared>,
    drive: Drive,
}

impl KernelDevice {
    /// Opens the drive whose node is at `path`, for this process alone. Closes zones that were left open, unless
    /// told to keep them. Blocks for as
    /// long as the drive takes to report its zones.
    ///
    /// # Errors
    /// `NotFound`, `NotABlockDevice`, `NotZoned`, `Permission`, `InUse`, `Mounted`, `Partitioned`, `Held`, `Foreign`,
    /// `ReadOnly`, `Unsupported`, `NoRing` or `System`.
    ///
    /// # Panics
    /// Outside of [`shingle_runtime::real`].
    pub fn open(path: &Path, runtime: &Runtime, options: OpenOptions) -> Result<Self, OpenError> {
        let opened = open::open(path, options)?;
        Self::start(opened, runtime).map_err(|error| OpenError::new(OpenErrorKind::NoRing(error), path))
    }

    pub(crate) fn start(opened: open::Opened, runtime: &Runtime) -> std::io::Result<Self> {
        let open::Opened { node, drive, machine } = opened;
        let seat = Seat::new(node.clone())?;
        let geometry = machine.geometry().clone();
        let states = machine.report(ZoneId(0), u32::MAX);
        let gate = Gate::new(&geometry, states.into_iter().map(|info| (info.zone, info.state)));
        let shared = Rc::new(Shared {
            runtime: runtime.clone(),
            geometry,
            state: RefCell::new(State { machine, lanes: Lanes::default(), gate, stale: BTreeSet::new() }),
            seat,
            node: RefCell::new(Some(node)),
            write_max: write_max(&drive),
            gone: Cell::new(false),
            flushes: Flushes::default(),
        });
        runtime.spawn_detached(driver::drive(shared.clone()));
        Ok(Self { shared, drive })
    }

    /// The kernel's description of the drive when it was opened.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// The drive at `path`, its shape and its zones, beside its owner: for looking only. A write pointer within a block
    /// is rounded down.
    ///
    /// # Errors
    /// `NotFound`, `NotABlockDevice`, `NotZoned`, `Permission`, `Unsupported` or `System`.
    pub fn look(path: &Path) -> Result<(Drive, Geometry, Vec<ZoneInfo>), OpenError> {
        open::look(path)
    }
}

/// The most pages in the kernel's first form of a write (`BIO_MAX_VECS`), before it cuts that to the drive's limits.
const PAGES_MAX: u64 = 256;

/// Without a scheduler that keeps writes of a zone in order, kernels before 6.10 may swap the parts of a write that they
/// cut up; so the parts are then sent one by one. The kernel cuts where bytes, pages or segments are too many.
fn write_max(drive: &Drive) -> usize {
    let ordered = drive.scheduler.as_deref() == Some("mq-deadline") || crate::kernel_at_least(6, 10);
    if ordered { TRANSFER_MAX } else { uncut(drive) }
}

/// The longest write that is certainly one command, whole blocks: each may lie in a page and a segment of its own.
fn uncut(drive: &Drive) -> usize {
    let pages = drive.segments_max.map_or(PAGES_MAX, |segments| u64::from(segments).min(PAGES_MAX));
    let blocks = drive.transfer_max_bytes.map_or(pages, |most| (most / BLOCK_SIZE as u64).min(pages));
    blocks.max(1) as usize * BLOCK_SIZE
}

impl ZonedDevice for KernelDevice {
    fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        Box::pin(async move {
            self.shared.begin(self.shared.geometry.start_of(first))?;
            self.shared.refresh(first, count).await?;
            Ok(self.shared.state.borrow().machine.report(first, count))
        })
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        Box::pin(async move { self.shared.answer(at, self.shared.start_read(at, length)?).await })
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            let receiver = self.shared.start_write(Target::At(at), data)?;
            self.shared.answer(at, receiver).await.map(drop)
        })
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        Box::pin(async move {
            let receiver = self.shared.start_write(Target::Append(zone), data)?;
            self.shared.answer(self.shared.geometry.start_of(zone), receiver).await
        })
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            match self.shared.start_manage(zone, op)? {
                Some(receiver) => self.shared.answer(self.shared.geometry.start_of(zone), receiver).await,
                None => Ok(()),
            }
        })
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            self.shared.begin(Lba(0))?;
            let shared = self.shared.clone();
            let task = self.shared.runtime.spawn(async move {
                let flush = async || {
                    shared.begin(Lba(0))?;
                    let (answer, receiver) = oneshot::channel();
                    shared.push(crate::ring::Io::Flush, Lba(0), Work::Flush(answer));
                    shared.answer(Lba(0), receiver).await
                };
                shared.flushes.call(flush).await
            });
            task.await.unwrap_or_else(|_| Err(self.shared.error(DeviceErrorKind::Gone, Lba(0))))
        })
    }
}

impl Drop for KernelDevice {
    fn drop(&mut self) {
        self.shared.gone.set(true);
        for completed in self.shared.seat.close() {
            // Commands that succeeded are answered so; the rest hear that the device is gone.
            if completed.result.is_ok() {
                self.shared.complete(completed);
            }
        }
        self.shared.let_go();
        let node = self.shared.node.borrow_mut().take();
        if let Some(node) = node {
            node.close();
        }
    }
}

impl Owner for Shared {
    type Work = Work;

    fn seat(&self) -> &Seat<Work> {
        &self.seat
    }

    fn done(self: &Rc<Self>, completed: Completed<Work>) {
        self.complete(completed);
    }

    fn refused(&self) {
        self.gone.set(true);
        self.let_go();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::{join_all, join4, poll_immediate};
    use shingle_runtime::real;
    use shingle_zoned::{DeviceErrorKind, Machine, Violation};

    use super::*;
    use crate::node::Node;
    use crate::zones::tests::drive;

    /// A device on a plain file, which takes writes but no zone commands, nor says what its zones are.
    fn no_drive(runtime: &Runtime, file: std::fs::File) -> KernelDevice {
        let machine = Machine::new(Geometry::zns(Blocks(4), Blocks(4), 10, 2, 2)).unwrap();
        KernelDevice::start(open::Opened { node: Node::of(file), drive: drive(), machine }, runtime).unwrap()
    }

    fn temporary(name: &str) -> std::fs::File {
        let path = std::env::temp_dir().join(format!("shingle-kernel-{name}-{}", std::process::id()));
        let file = std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    fn block() -> Vec<Bytes> {
        vec![shingle_base::AlignedBuf::zeroed(Blocks(1)).freeze()]
    }

    /// ZL-KD-5.
    #[test]
    fn after_a_failed_flush_the_drive_is_gone() {
        let (file, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        real::run(|runtime| async move {
            // A socket has nothing to flush, and says so.
            let device = no_drive(&runtime, std::os::fd::OwnedFd::from(file).into());
            assert!(matches!(device.flush().await.unwrap_err().kind, DeviceErrorKind::Gone));
            assert!(matches!(device.flush().await.unwrap_err().kind, DeviceErrorKind::Gone));
            assert!(matches!(device.append(ZoneId(0), block()).await.unwrap_err().kind, DeviceErrorKind::Gone));
        })
        .unwrap();
    }

    /// ZL-KD-4.
    #[test]
    fn a_drive_whose_ring_the_kernel_refuses_is_gone() {
        real::run(|runtime| async move {
            let device = no_drive(&runtime, temporary("refused"));
            device.append(ZoneId(0), block()).await.unwrap();
            device.shared.seat.sever();
            let (first, second) = (device.append(ZoneId(0), block()), device.append(ZoneId(0), block()));
            for answer in join_all([first, second]).await {
                assert!(matches!(answer.unwrap_err().kind, DeviceErrorKind::Gone));
            }
            assert!(matches!(device.read(Lba(0), Blocks(1)).await.unwrap_err().kind, DeviceErrorKind::Gone));
            assert!(matches!(device.flush().await.unwrap_err().kind, DeviceErrorKind::Gone));
        })
        .unwrap();
    }

    /// ZL-KD-1.
    #[test]
    fn the_next_write_of_a_zone_waits_for_the_one_before() {
        real::run(|runtime| async move {
            let device = no_drive(&runtime, temporary("lane"));
            let mut writes: Vec<_> = [0, 0, 1, 0].map(|zone| device.append(ZoneId(zone), block())).into();
            for write in &mut writes {
                // It has started, and the driver has not had its turn.
                assert!(poll_immediate(write).await.is_none());
            }
            assert_eq!(device.shared.seat.under_way(), 2, "one of each zone");
            let places: Vec<Lba> = join_all(writes).await.into_iter().map(Result::unwrap).collect();
            assert_eq!(places, [0, 1, 4, 2].map(Lba));
        })
        .unwrap();
    }

    /// ZL-GT-3: the resets cannot be done, so their zones stay active; the writes were promised their places.
    #[test]
    fn a_write_whose_place_is_not_freed_is_refused() {
        real::run(|runtime| async move {
            let device = no_drive(&runtime, temporary("place"));
            for zone in [0, 1] {
                device.append(ZoneId(zone), block()).await.unwrap();
            }
            let (first, second, third, fourth) = join4(
                device.manage(ZoneId(0), ZoneOp::Reset),
                device.manage(ZoneId(1), ZoneOp::Reset),
                device.append(ZoneId(2), block()),
                device.append(ZoneId(3), block()),
            )
            .await;
            assert!(first.is_err() && second.is_err());
            for refused in [third, fourth] {
                let limit = DeviceErrorKind::Rule(Violation::TooManyActive { limit: 2 });
                assert_eq!(format!("{:?}", refused.unwrap_err().kind), format!("{limit:?}"));
            }
            // A command that has its place goes on.
            device.append(ZoneId(0), block()).await.unwrap();
            assert!(device.append(ZoneId(4), block()).await.unwrap_err().violation().is_some());
        })
        .unwrap();
    }

    /// Commands that wait for their turn or for a place keep nothing of a device that was dropped.
    #[test]
    fn nothing_is_left_of_a_dropped_device() {
        let left = real::run(|runtime| async move {
            let device = no_drive(&runtime, temporary("left"));
            for zone in [0, 1] {
                device.append(ZoneId(zone), block()).await.unwrap();
            }
            let _ = poll_immediate(device.manage(ZoneId(0), ZoneOp::Finish)).await;
            for zone in [0, 2, 2] {
                let _ = poll_immediate(device.append(ZoneId(zone), block())).await;
            }
            let left = Rc::downgrade(&device.shared);
            drop(device);
            for _ in 0..100 {
                if left.strong_count() == 0 {
                    break;
                }
                runtime.sleep(std::time::Duration::from_millis(10)).await;
            }
            left.strong_count()
        });
        assert_eq!(left.unwrap(), 0);
    }

    #[test]
    fn the_longest_write_that_the_kernel_does_not_cut() {
        let of = |kib: Option<u64>, segments_max| {
            uncut(&Drive { transfer_max_bytes: kib.map(|kib| kib * 1024), segments_max, ..drive() }) / 1024
        };
        assert_eq!(of(Some(128), Some(168)), 128);
        assert_eq!(of(Some(1280), Some(127)), 508, "pages scattered in memory are segments");
        assert_eq!(of(Some(32768), Some(65535)), 1024);
        assert_eq!(of(Some(127), None), 124, "whole blocks");
        assert_eq!((of(None, None), of(Some(0), Some(0))), (1024, 4));
    }
}
