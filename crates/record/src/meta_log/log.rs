//! The log as its engine sees it, and its state.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;

use shingle_base::{Blocks, ZoneId};
use shingle_runtime::Runtime;
use shingle_zoned::ZonedDevice;
use tokio::sync::oneshot;

use crate::frame::RecordType;
use crate::meta_log::format::{END, ENTRY_HEAD, JOURNAL, PART, START};
use crate::meta_log::{MetaLogConfig, MetaLogError};
use crate::sequence::SequenceSource;

pub(super) type Done = oneshot::Sender<Result<u64, MetaLogError>>;

/// Something that waits to be written.
pub(super) struct Item {
    pub(super) kind: RecordType,
    pub(super) sequence: u64,
    pub(super) bytes: Vec<u8>,
    /// For parts and ends: the position of the checkpoint's start.
    pub(super) checkpoint: u64,
    /// For ends: how many parts there are.
    pub(super) parts: u64,
    pub(super) done: Done,
}

/// What a metazone holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetaStatus {
    /// Holds nothing that is needed.
    Free,
    /// Holds what recovery needs.
    Live {
        /// Its life.
        epoch: u64,
    },
    /// Can no longer be written.
    Bad,
}

pub(super) struct LogState {
    /// By number, from the first metazone.
    pub(super) zones: Vec<MetaStatus>,
    /// The zone that is written (an index into `zones`), its epoch, and its next block.
    pub(super) active: Option<(usize, u64, u32)>,
    pub(super) queue: VecDeque<Item>,
    pub(super) writing: bool,
    pub(super) stopped: bool,
    /// The position of the last record.
    pub(super) position: u64,
    /// Where each checkpoint's start that may yet end lies: position, epoch of its zone.
    pub(super) starts: Vec<(u64, u64)>,
    /// Blocks of journal since the newest complete checkpoint.
    pub(super) journal_blocks: u64,
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
}

impl LogInner {
    fn free(&self) -> u64 {
        self.state.borrow().zones.iter().filter(|zone| **zone == MetaStatus::Free).count() as u64
    }

    /// Zones that a checkpoint may take: a third of all, so that the one before it and the journal have the rest.
    fn checkpoint_zones(&self) -> u64 {
        ((self.config.zones.len() as u64).saturating_sub(3) / 3).max(1)
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
    /// Journals an entry, which takes its place at once; the future waits until it is durable (LOG-1).
    ///
    /// # Errors
    /// `Full` or `Device` if it could not be written anywhere; then the log stops: a later entry could never be
    /// acknowledged in front of a missing one.
    pub fn append(&self, entry: Vec<u8>, sequence: u64) -> impl Future<Output = Result<(), MetaLogError>> + use<> {
        let (done, waiting) = oneshot::channel();
        let item = Item { kind: JOURNAL, sequence, bytes: entry, checkpoint: 0, parts: 0, done };
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
        let slot = self.inner.state.borrow().active?.0;
        Some(self.inner.zone(slot))
    }

    /// The longest part.
    pub fn part_max(&self) -> usize {
        let blocks = (self.inner.capacity / 8).max(1);
        (Blocks(u64::from(blocks)).bytes() as usize - crate::frame::HEADER_SIZE).min(1 << 20)
    }

    /// The longest journal entry.
    pub fn entry_max(&self) -> usize {
        self.part_max() - ENTRY_HEAD
    }

    /// Whether the journal takes another entry (LOG-4). Where it does not, a checkpoint makes room.
    pub fn has_journal_room(&self) -> bool {
        self.inner.free() > self.inner.checkpoint_zones() + 1
    }

    /// Whether it is time for a checkpoint: the journal has grown long, or zones few.
    pub fn needs_checkpoint(&self) -> bool {
        let zones = self.inner.config.zones.len() as u64;
        let long = self.inner.state.borrow().journal_blocks > zones * u64::from(self.inner.capacity) / 4;
        long || self.inner.free() <= self.inner.checkpoint_zones() + 2
    }

    /// Whether a checkpoint of that many bytes fits.
    pub fn room_for_checkpoint(&self, bytes: u64) -> bool {
        // A quarter more for frames and for what parts leave unused at the ends of zones.
        let blocks = Blocks::holding(bytes).0 * 5 / 4 + 8;
        blocks <= self.inner.checkpoint_zones() * u64::from(self.inner.capacity - 1)
    }
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
    fn send(&mut self, kind: RecordType, bytes: Vec<u8>) {
        let (done, waiting) = oneshot::channel();
        let sequence = self.log.inner.sequence.next();
        let item = Item { kind, sequence, bytes, checkpoint: self.start, parts: self.parts, done };
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

    /// Adds a part; waits while several are on their way.
    ///
    /// # Errors
    /// As [`MetaLog::append`].
    pub async fn part(&mut self, bytes: Vec<u8>) -> Result<(), MetaLogError> {
        self.parts += 1;
        self.send(PART, bytes);
        self.wait(PARTS_IN_FLIGHT).await
    }

    /// Ends the checkpoint. Once it returns, the checkpoint is the one recovery finds, and older zones are free.
    ///
    /// # Errors
    /// As [`MetaLog::append`]; recovery then finds the checkpoint before.
    pub async fn finish(mut self) -> Result<(), MetaLogError> {
        self.wait(0).await?;
        self.send(END, Vec::new());
        self.wait(0).await
    }
}
