//! The log as its engine sees it, and its state.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;

use shingle_base::{BLOCK_SIZE, ZoneId};
use shingle_runtime::Runtime;
use shingle_zoned::ZonedDevice;
use tokio::sync::{Notify, oneshot};

use crate::frame::record_blocks;
use crate::header::{HEADER_SIZE, RecordType};
use crate::meta_log::error::MetaLogError;
use crate::meta_log::format::{END, ENTRY_HEAD, JOURNAL, LINK_BLOCKS, PART, START};
use crate::meta_log::opening::MetaLogConfig;
use crate::sequence::SequenceSource;

pub(super) type Done = oneshot::Sender<Result<u64, MetaLogError>>;

/// Something that waits to be written.
pub(super) struct Item {
    pub(super) kind: RecordType,
    pub(super) sequence: u64,
    pub(super) bytes: Vec<u8>,
    /// For parts and ends: the position of the checkpoint's start.
    pub(super) checkpoint: u64,
    /// For ends: how many part records there are.
    pub(super) parts: u64,
    /// For parts: whether the next record goes on with the same part.
    pub(super) more: bool,
    pub(super) done: Done,
}

/// State of a metazone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetaStatus {
    /// Holds nothing that is needed.
    Free {
        /// Its generation; zero if it has none.
        epoch: u64,
    },
    /// Holds what recovery needs.
    Live {
        /// Its generation.
        epoch: u64,
    },
    /// Can no longer be written.
    Bad,
}

/// The zone that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Active {
    /// An index into [`LogState::zones`].
    pub(super) slot: usize,
    /// Its generation.
    pub(super) epoch: u64,
    /// The next block; zero where its head is yet to be written, together with its first records.
    pub(super) next: u32,
}

impl Active {
    /// Blocks that the next write takes beside its records: head and parity, and those of a link.
    pub(super) fn overhead(&self) -> u32 {
        u32::from(self.next == 0) + 1 + LINK_BLOCKS
    }
}

pub(super) struct LogState {
    /// By number, from the first metazone.
    pub(super) zones: Vec<MetaStatus>,
    pub(super) active: Option<Active>,
    /// Next zone, if a link names one.
    pub(super) linked: Option<usize>,
    /// A zone that has to be made full before another is written, because no link leads on from it (RC-LOG-6).
    pub(super) unlinked: Option<usize>,
    /// Zones to reset before another is begun, the newest last (RC-LOG-9).
    pub(super) unneeded: Vec<usize>,
    /// The records found when the log was opened are durable (RC-LOG-5).
    pub(super) settled: bool,
    pub(super) queue: VecDeque<Item>,
    pub(super) writing: bool,
    pub(super) stopped: bool,
    /// The file system that holds the drive is full: items wait (RC-LOG-8).
    pub(super) stalled: bool,
    /// The position of the last record, written or not.
    pub(super) position: u64,
    /// The position of the last record that is durable.
    pub(super) written: u64,
    /// Starts of checkpoints that may yet end: position, epoch of its zone.
    pub(super) starts: Vec<(u64, u64)>,
    /// Blocks of journal records since the newest complete checkpoint.
    pub(super) journal_blocks: u64,
    /// A checkpoint is wanted whose start lies at this position or behind it: records before it may be lost soon.
    pub(super) wanted_after: Option<u64>,
}

/// A metadata log. A cheap handle; stays on the thread of its runtime.
#[derive(Clone)]
pub struct MetaLog {
    pub(super) inner: Rc<LogInner>,
}

pub(super) struct LogInner {
    pub(super) rt: Runtime,
    pub(super) dev: Rc<dyn ZonedDevice>,
    pub(super) config: MetaLogConfig,
    pub(super) sequence: SequenceSource,
    /// Blocks of a metazone.
    pub(super) capacity: u32,
    pub(super) state: RefCell<LogState>,
    /// Tells that the log waits for room (RC-LOG-8).
    pub(super) stall: Notify,
}

impl LogInner {
    fn free(&self) -> u64 {
        self.state.borrow().zones.iter().filter(|zone| matches!(zone, MetaStatus::Free { .. })).count() as u64
    }

    /// Zones that are not out of use.
    fn usable(&self) -> u64 {
        self.state.borrow().zones.iter().filter(|zone| !matches!(zone, MetaStatus::Bad)).count() as u64
    }

    fn checkpoint_zones(&self) -> u64 {
        checkpoint_zones(self.usable())
    }

    /// Puts an item into the queue and sees to it that the queue is written.
    fn enqueue(self: &Rc<Self>, item: Item) {
        let mut state = self.state.borrow_mut();
        if state.stopped {
            let _ = item.done.send(Err(MetaLogError::Stopped));
            return;
        }
        state.queue.push_back(item);
        if !std::mem::replace(&mut state.writing, true) {
            self.rt.spawn(self.clone().write_queue());
        }
    }
}

impl MetaLog {
    /// True while the log waits for room on the file system that holds the drive (RC-LOG-8).
    pub fn is_stalled(&self) -> bool {
        self.inner.state.borrow().stalled
    }

    /// Returns when the log waits for room on the file system that holds the drive, at once if it does already.
    pub fn stalled(&self) -> impl Future<Output = ()> + use<> {
        let inner = self.inner.clone();
        async move {
            loop {
                let stalls = inner.stall.notified();
                if inner.state.borrow().stalled {
                    return;
                }
                stalls.await;
            }
        }
    }

    /// Ends the wait for room on the host: a log that is waiting now stops.
    pub fn give_up_waiting(&self) {
        let state = &mut *self.inner.state.borrow_mut();
        state.stopped |= state.stalled;
    }

    /// Journals an entry, which takes its place at once; the future completes once it is durable (RC-LOG-1).
    ///
    /// # Errors
    /// `Full` or `Device` if it could not be written anywhere; then the log stops: a later entry could never be
    /// acknowledged in front of a missing one.
    pub fn append(&self, entry: Vec<u8>, sequence: u64) -> impl Future<Output = Result<(), MetaLogError>> + use<> {
        let (done, waiting) = oneshot::channel();
        let item = Item { kind: JOURNAL, sequence, bytes: entry, checkpoint: 0, parts: 0, more: false, done };
        self.inner.enqueue(item);
        async move { waiting.await.unwrap_or(Err(MetaLogError::Stopped)).map(drop) }
    }

    /// Marks the start of a checkpoint, at once: entries journaled earlier lie before it. Its parts follow through the
    /// writer, between journal entries. A checkpoint that is never finished does no harm.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn begin_checkpoint(&self) -> impl Future<Output = Result<CheckpointWriter, MetaLogError>> + use<> {
        let (done, waiting) = oneshot::channel();
        let item = Item {
            kind: START,
            sequence: self.inner.sequence.next(),
            bytes: Vec::new(),
            checkpoint: 0,
            parts: 0,
            more: false,
            done,
        };
        self.inner.enqueue(item);
        let log = self.clone();
        async move {
            let start = waiting.await.unwrap_or(Err(MetaLogError::Stopped))?;
            Ok(CheckpointWriter { log, start, parts: 0, pending: VecDeque::new() })
        }
    }

    /// The zone that is written, which is the only one that the log needs open.
    pub fn writes_to(&self) -> Option<ZoneId> {
        let slot = self.inner.state.borrow().active?.slot;
        Some(self.inner.zone(slot))
    }

    /// The longest record of a part. Longer parts take several.
    pub fn part_max(&self) -> usize {
        part_max(self.inner.capacity)
    }

    /// The longest journal entry.
    pub fn entry_max(&self) -> usize {
        self.part_max() - ENTRY_HEAD
    }

    /// True if the journal takes another entry (RC-LOG-4). If not, a checkpoint makes room.
    pub fn has_journal_room(&self) -> bool {
        self.inner.free() > self.inner.checkpoint_zones() + 1
    }

    /// True if it is time for a checkpoint: the journal has grown long, or zones few.
    pub fn needs_checkpoint(&self) -> bool {
        let zones = self.inner.config.zones.len() as u64;
        let long = self.inner.state.borrow().journal_blocks > zones * u64::from(self.inner.capacity) / 4;
        let wanted = self.inner.state.borrow().wanted_after.is_some();
        long || wanted || self.inner.free() <= self.inner.checkpoint_zones() + 2
    }

    /// True if a checkpoint of `bytes` fits.
    pub fn room_for_checkpoint(&self, bytes: u64) -> bool {
        room_for_checkpoint(self.inner.usable(), self.inner.capacity, bytes)
    }

    /// True if a checkpoint of `bytes` fits the free zones.
    pub fn fits_free_zones(&self, bytes: u64) -> bool {
        fits_zones(self.inner.free(), self.inner.capacity, bytes)
    }
}

/// True if a checkpoint of `bytes` fits a log of `zones` zones of `capacity` blocks (RC-LOG-4).
pub fn room_for_checkpoint(zones: u64, capacity: u32, bytes: u64) -> bool {
    fits_zones(checkpoint_zones(zones), capacity, bytes)
}

/// True if a checkpoint of `bytes` fits `zones` zones.
fn fits_zones(zones: u64, capacity: u32, bytes: u64) -> bool {
    let record = record_blocks(part_max(capacity) as u64).0 + 1;
    // A zone has a head and a link beside its writes.
    let in_zone = u64::from(capacity.saturating_sub(1 + LINK_BLOCKS)) / record;
    // A quarter more for the unused ends of pages, and two for the start and the end.
    let records = bytes.saturating_add(bytes / 4).div_ceil(part_max(capacity) as u64) + 2;
    records <= zones.saturating_mul(in_zone)
}

/// Zones that a checkpoint may take: a third of all, so that the one before it and the journal have the rest.
fn checkpoint_zones(zones: u64) -> u64 {
    (zones.saturating_sub(3) / 3).max(1)
}

/// The longest record of a part, in a zone of `capacity` blocks: an eighth of it.
fn part_max(capacity: u32) -> usize {
    ((capacity / 8).max(1) as usize * BLOCK_SIZE - HEADER_SIZE).min(1 << 20)
}

/// Parts on their way before the writer waits for the first of them.
const PARTS_IN_FLIGHT: usize = 4;

/// A checkpoint that is being written.
pub struct CheckpointWriter {
    log: MetaLog,
    start: u64,
    parts: u64,
    pending: VecDeque<oneshot::Receiver<Result<u64, MetaLogError>>>,
}

impl CheckpointWriter {
    fn send(&mut self, kind: RecordType, bytes: Vec<u8>, more: bool) {
        let (done, waiting) = oneshot::channel();
        let sequence = self.log.inner.sequence.next();
        let item = Item { kind, sequence, bytes, checkpoint: self.start, parts: self.parts, more, done };
        self.log.inner.enqueue(item);
        self.pending.push_back(waiting);
    }

    async fn wait(&mut self, in_flight: usize) -> Result<(), MetaLogError> {
        while self.pending.len() > in_flight
            && let Some(oldest) = self.pending.pop_front()
        {
            oldest.await.unwrap_or(Err(MetaLogError::Stopped))?;
        }
        Ok(())
    }

    /// Adds a part of any length; waits while several records are on their way.
    ///
    /// # Errors
    /// As [`MetaLog::append`].
    pub async fn part(&mut self, bytes: Vec<u8>) -> Result<(), MetaLogError> {
        let longest = self.log.part_max();
        if bytes.len() <= longest {
            return self.part_record(bytes, false).await;
        }
        let mut pieces = bytes.chunks(longest).peekable();
        while let Some(piece) = pieces.next() {
            self.part_record(piece.to_vec(), pieces.peek().is_some()).await?;
        }
        Ok(())
    }

    async fn part_record(&mut self, bytes: Vec<u8>, more: bool) -> Result<(), MetaLogError> {
        self.parts += 1;
        self.send(PART, bytes, more);
        self.wait(PARTS_IN_FLIGHT).await
    }

    /// Ends the checkpoint. Once it returns, the checkpoint is the one recovery finds, and older zones are free.
    ///
    /// # Errors
    /// As [`MetaLog::append`]; recovery then finds the checkpoint before.
    pub async fn finish(mut self) -> Result<(), MetaLogError> {
        self.wait(0).await?;
        self.send(END, Vec::new(), false);
        self.wait(0).await
    }
}
