//! A zoned drive under a translation layer of the kernel: bios to zones, and the scheduler that merges them.
//!
//! Writes to a sequential zone wait while one of them is under way, and go on as one command as far as they follow each other. So a
//! layer is charged no turn that the block layer saves it.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::{BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_runtime::Runtime;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use shingle_zoned::{DeviceError, Geometry, ZoneOp, ZonedDevice};
use tokio::sync::oneshot;

/// Blocks of a merged command.
const MERGED_MAX: u64 = 2048;

/// Blocks of one read.
const BIO_MAX: u64 = 256;

/// A write that waits for its turn.
struct Waiting {
    data: Vec<Bytes>,
    blocks: u64,
    done: oneshot::Sender<StoreResult<()>>,
}

/// Writes to a sequential zone.
#[derive(Default)]
struct Queue {
    /// Blocks that are written, or wait.
    given: u64,
    /// Blocks that were sent to the drive.
    sent: u64,
    busy: bool,
    waiting: VecDeque<Waiting>,
}

/// The zones of a drive.
pub(super) struct Zones {
    rt: Runtime,
    device: Rc<dyn ZonedDevice>,
    queues: RefCell<BTreeMap<u32, Queue>>,
}

impl Zones {
    pub(super) fn new(rt: &Runtime, device: Rc<dyn ZonedDevice>) -> Rc<Self> {
        Rc::new(Self { rt: rt.clone(), device, queues: RefCell::default() })
    }

    pub(super) fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    /// Blocks of a zone.
    pub(super) fn blocks(&self) -> u64 {
        self.geometry().zone_capacity.0
    }

    /// Blocks of a sequential zone that are written, or wait.
    pub(super) fn given(&self, zone: u32) -> u64 {
        self.queues.borrow().get(&zone).map_or(0, |queue| queue.given)
    }

    fn at(&self, zone: u32, block: u64) -> Lba {
        self.geometry().start_of(ZoneId(zone)) + Blocks(block)
    }

    /// Writes behind all that was given to a sequential zone so far. It has its place at once.
    pub(super) fn append(
        self: &Rc<Self>,
        zone: u32,
        data: Vec<Bytes>,
    ) -> impl Future<Output = StoreResult<()>> + use<> {
        let (done, receiver) = oneshot::channel();
        let blocks = blocks_of(&data);
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(zone).or_default();
        queue.given += blocks;
        queue.waiting.push_back(Waiting { data, blocks, done });
        if !std::mem::replace(&mut queue.busy, true) {
            self.rt.spawn_detached(self.clone().write_queue(zone));
        }
        async move { receiver.await.unwrap_or_else(|_| Err(failed("a write was lost"))) }
    }

    async fn write_queue(self: Rc<Self>, zone: u32) {
        while let Some((at, some)) = self.next_command(zone) {
            let (mut data, mut told) = (Vec::new(), Vec::new());
            for mut waiting in some {
                data.append(&mut waiting.data);
                told.push(waiting.done);
            }
            let written = self.device.write(self.at(zone, at), data).await.map_err(device_error);
            for done in told {
                // Its caller may have gone.
                let _ = done.send(match &written {
                    Ok(()) => Ok(()),
                    Err(error) => Err(failed(&error.message)),
                });
            }
        }
    }

    /// Writes of the next command, and the block at which it begins.
    fn next_command(&self, zone: u32) -> Option<(u64, Vec<Waiting>)> {
        let mut queues = self.queues.borrow_mut();
        let queue = queues.get_mut(&zone)?;
        let (at, mut some, mut blocks) = (queue.sent, Vec::new(), 0);
        while let Some(next) = queue.waiting.front()
            && (blocks == 0 || blocks + next.blocks <= MERGED_MAX)
        {
            blocks += next.blocks;
            some.extend(queue.waiting.pop_front());
        }
        queue.sent += blocks;
        queue.busy = blocks > 0;
        queue.busy.then_some((at, some))
    }

    /// Writes blocks of a conventional zone.
    pub(super) async fn write(&self, zone: u32, block: u64, data: Vec<Bytes>) -> StoreResult<()> {
        self.device.write(self.at(zone, block), data).await.map_err(device_error)
    }

    /// Reads blocks of a zone.
    pub(super) async fn read(&self, zone: u32, block: u64, blocks: u64) -> StoreResult<Bytes> {
        if blocks <= BIO_MAX {
            return self.device.read(self.at(zone, block), Blocks(blocks)).await.map_err(device_error);
        }
        let starts = (0..blocks).step_by(BIO_MAX as usize);
        let part = |start| self.device.read(self.at(zone, block + start), Blocks(BIO_MAX.min(blocks - start)));
        let parts = join_all(starts.map(part)).await.into_iter().collect::<Result<Vec<_>, _>>();
        Ok(parts.map_err(device_error)?.concat().into())
    }

    /// Empties a sequential zone.
    pub(super) async fn reset(&self, zone: u32) -> StoreResult<()> {
        self.queues.borrow_mut().remove(&zone);
        self.device.manage(ZoneId(zone), ZoneOp::Reset).await.map_err(device_error)
    }

    /// Flushes the drive's cache.
    pub(super) async fn flush(&self) -> StoreResult<()> {
        self.device.flush().await.map_err(device_error)
    }
}

/// Blocks of pieces.
pub(super) fn blocks_of(data: &[Bytes]) -> u64 {
    data.iter().map(|piece| (piece.len() / BLOCK_SIZE) as u64).sum()
}

/// Takes so many blocks off the front.
pub(super) fn take_blocks(data: &mut VecDeque<Bytes>, blocks: u64) -> Vec<Bytes> {
    let (mut left, mut taken) = (Blocks(blocks).bytes() as usize, Vec::with_capacity(1));
    while left > 0
        && let Some(mut first) = data.pop_front()
    {
        let now = first.len().min(left);
        let rest = first.split_off(now);
        if !rest.is_empty() {
            data.push_front(rest);
        }
        left -= now;
        taken.push(first);
    }
    taken
}

/// One piece of several.
pub(super) fn joined(mut parts: Vec<Bytes>) -> Bytes {
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => only,
        (_, last) => parts.into_iter().chain(last).collect::<Vec<_>>().concat().into(),
    }
}

/// A layer's own failure.
pub(super) fn failed(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Device, why)
}

fn device_error(error: DeviceError) -> StoreError {
    StoreError::new(StoreErrorKind::Device, error.to_string())
}
