//! The store: its parts, and the calls that callers make.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::future::{Either, select};
use shingle_base::{BLOCK_SIZE, Blocks, BufferPool, ChunkId, StoreId, ZoneId};
use shingle_record::{MetaLog, SequenceSource};
use shingle_runtime::Runtime;
use shingle_zoned::{Geometry, ZonedDevice};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::append::OpenChunk;
use crate::client::{Reply, Request};
use crate::config::Options;
use crate::error::{Error, ErrorKind, Result};
use crate::flush::Flusher;
use crate::format::JournalEntry;
use crate::gc::{GcState, Throttle};
use crate::index::Handle;
use crate::index::IndexMemory;
use crate::journal::LogRoom;
use crate::layout::Layout;
use crate::read::{Fetched, Verifier};
use crate::state::State;
use crate::stats::{Counters, Forecast, ZoneTrend};
use crate::types::ZoneStatus;
use crate::types::{ChunkStat, StoreStat, Stream, ZoneStat};
use crate::zones::Zone;

/// The largest append, where zones are large enough for it.
const APPEND_MAX: u64 = 16 << 20;

/// Everything the tasks of one store share.
pub(crate) struct Inner {
    pub(crate) rt: Runtime,
    pub(crate) dev: Rc<dyn ZonedDevice>,
    pub(crate) geometry: Geometry,
    pub(crate) options: Options,
    pub(crate) store: StoreId,
    pub(crate) layout: Layout,
    pub(crate) sequence: SequenceSource,
    /// The last sequence number when the store was opened.
    pub(crate) first_sequence: u64,
    pub(crate) log: MetaLog,
    pub(crate) flush: Rc<Flusher>,
    pub(crate) buffers: BufferPool,
    pub(crate) verifier: Verifier,
    pub(crate) throttle: Throttle,
    pub(crate) trend: RefCell<ZoneTrend>,
    pub(crate) state: RefCell<State>,
    /// Blocks of records that a zone holds beside its head.
    pub(crate) zone_room: u32,
    /// The longest append in bytes.
    pub(crate) append_max: u64,
    /// Wakes the task that opens, closes and resets zones.
    pub(crate) keeper: Notify,
    /// Wakes the task that moves landed bytes.
    pub(crate) mover: Notify,
    pub(crate) gc_wake: Notify,
    pub(crate) gc: RefCell<GcState>,
    pub(crate) checkpoint_wake: Notify,
    pub(crate) mark_wake: Notify,
    pub(crate) checkpoint_lock: tokio::sync::Mutex<()>,
    pub(crate) closing: Cell<bool>,
    /// The file system that holds the drive was full when something was last written.
    pub(crate) host_full: Cell<bool>,
    pub(crate) host_wake: Notify,
    pub(crate) log_room: LogRoom,
}

/// Parts of an `Inner`, made by recovery.
pub(crate) struct Parts {
    pub(crate) rt: Runtime,
    pub(crate) dev: Rc<dyn ZonedDevice>,
    pub(crate) options: Options,
    pub(crate) store: StoreId,
    pub(crate) layout: Layout,
    pub(crate) sequence: SequenceSource,
    pub(crate) log: MetaLog,
    pub(crate) state: State,
    pub(crate) gc: GcState,
}

/// A chunk store on one zoned drive. A cheap handle; stays on the thread of its runtime.
///
/// Other threads go through [`ChunkClient`](crate::ChunkClient), whose documentation holds for the calls here too.
#[derive(Clone)]
pub struct ChunkStore {
    pub(crate) inner: Rc<Inner>,
}

impl Inner {
    pub(crate) fn new(parts: Parts) -> Rc<Self> {
        let geometry = parts.dev.geometry().clone();
        let zone_room = (geometry.zone_capacity.0 - 1).min(u64::from(u32::MAX)) as u32;
        let append_max = shingle_record::sliced_capacity(Blocks(u64::from(zone_room))).min(APPEND_MAX);
        let buffers = BufferPool::new(parts.options.buffer_bytes);
        // Never on a drive that keeps payload.
        let hollow = parts.options.hollow && !geometry.keeps_payload;
        let verifier = Verifier { buffers: buffers.clone(), hollow, corrupt_reads: Arc::default() };
        Rc::new(Self {
            flush: Flusher::new(parts.rt.clone(), parts.dev.clone()),
            buffers,
            verifier,
            throttle: Throttle::new(parts.options.gc_latency_factor),
            trend: RefCell::default(),
            state: RefCell::new(parts.state),
            zone_room,
            append_max,
            keeper: Notify::new(),
            mover: Notify::new(),
            gc_wake: Notify::new(),
            gc: RefCell::new(parts.gc),
            checkpoint_wake: Notify::new(),
            mark_wake: Notify::new(),
            checkpoint_lock: tokio::sync::Mutex::new(()),
            closing: Cell::new(false),
            host_full: Cell::new(false),
            host_wake: Notify::new(),
            log_room: LogRoom::default(),
            geometry,
            rt: parts.rt,
            dev: parts.dev,
            options: parts.options,
            store: parts.store,
            layout: parts.layout,
            first_sequence: parts.sequence.last(),
            sequence: parts.sequence,
            log: parts.log,
        })
    }

    /// Journals a change that the caller makes in memory in the same step (CS-CKPT-1): the entry takes its place at once,
    /// the future waits until it is durable. If it cannot be made so, the store stops: memory is ahead of the drive.
    pub(crate) fn journal(
        self: &Rc<Self>,
        entry: JournalEntry,
        sequence: u64,
    ) -> impl Future<Output = Result<()>> + use<> {
        let written = self.log.append(entry.encode(), sequence);
        let inner = self.clone();
        async move {
            if inner.log.needs_checkpoint() {
                inner.checkpoint_wake.notify_one();
            }
            let Err(error) = written.await else {
                inner.state.borrow_mut().counters.journal_entries += 1;
                return Ok(());
            };
            let why = format!("the journal could not be written: {error}");
            inner.state.borrow_mut().stopped.get_or_insert(why.clone());
            inner.fail_all(&why);
            Err(Error::new(ErrorKind::Stopped, format!("the chunk store has stopped: {why}")).caused_by(error))
        }
    }

    /// Fails every append that waits; used when the store stops.
    pub(crate) fn fail_all(self: &Rc<Self>, why: &str) {
        let mut state = self.state.borrow_mut();
        self.unland_all(&mut state);
        let handles: Vec<Handle> = state.open.keys().copied().collect();
        for handle in handles {
            self.fail_appends(&mut state, handle, ErrorKind::Stopped, why);
        }
        self.keeper.notify_one();
        self.mover.notify_one();
        self.host_wake.notify_one();
        self.gc_wake.notify_one();
        self.checkpoint_wake.notify_one();
        self.mark_wake.notify_one();
        self.wake_for_log();
    }

    fn stat(&self, id: ChunkId) -> Result<ChunkStat> {
        let state = self.state.borrow();
        let (handle, chunk) = state.chunk(id)?;
        Ok(state.stat(handle, chunk, self.chunk_limit(chunk.stream), self.append_max))
    }

    fn list(&self, after: Option<ChunkId>, limit: usize) -> Vec<ChunkStat> {
        let state = self.state.borrow();
        let seen = |handle: &Handle| !state.open.get(handle).is_some_and(OpenChunk::hidden);
        let chunks = state.chunks.after(after).filter(|(handle, _)| seen(handle)).take(limit);
        chunks
            .map(|(handle, chunk)| state.stat(handle, chunk, self.chunk_limit(chunk.stream), self.append_max))
            .collect()
    }

    /// The drive's space. (Zones that were lost or turned read-only count for nothing.)
    pub(crate) fn store_stat(&self) -> StoreStat {
        let mut state = self.state.borrow_mut();
        state.zones.settle();
        let zones = &state.zones;
        let sums = zones.census().sums();
        let of = |statuses: &[ZoneStatus]| {
            statuses.iter().map(|&status| u64::from(zones.count(status))).sum::<u64>() * u64::from(self.zone_room)
        };
        let (unused, open, closed) = (
            of(&[ZoneStatus::Free, ZoneStatus::Garbage]),
            of(&[ZoneStatus::Opened, ZoneStatus::Activated]),
            of(&[ZoneStatus::Closed]),
        );
        let kept = u64::from(crate::zones::GC_RESERVE) * u64::from(self.zone_room);
        let free = (unused + open).saturating_sub(sums.open_written).saturating_sub(kept);
        let garbage = sums.open_garbage + closed.saturating_sub(sums.closed_live);
        let bytes = |blocks: u64| blocks * BLOCK_SIZE as u64;
        StoreStat {
            chunks: state.chunks.len() as u64,
            queued_appends: state.queued_appends(),
            capacity_bytes: bytes(unused + open + closed),
            live_bytes: bytes(sums.live),
            garbage_bytes: bytes(garbage),
            free_bytes: bytes(free),
        }
    }
}

impl ChunkStore {
    /// The store's identity.
    pub fn id(&self) -> StoreId {
        self.inner.store
    }

    /// Division of the drive.
    pub fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    /// See [`ChunkClient::create`](crate::ChunkClient::create).
    ///
    /// # Errors
    /// As there.
    pub async fn create(&self, id: ChunkId, stream: Stream) -> Result<()> {
        self.inner.create(id, stream).await
    }

    /// See [`ChunkClient::append`](crate::ChunkClient::append). Takes its place among the chunk's appends at once, even
    /// before the future is polled.
    ///
    /// # Errors
    /// As there.
    pub fn append(
        &self,
        id: ChunkId,
        offset: u64,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<u64>> + 'static + use<> {
        let (reply, answer) = oneshot::channel();
        self.inner.start_append(id, offset, data, reply);
        async move {
            answer.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Stopped, "the chunk store has stopped").of(id)))
        }
    }

    /// See [`ChunkClient::read`](crate::ChunkClient::read).
    ///
    /// # Errors
    /// As there.
    pub async fn read(&self, id: ChunkId, offset: u64, length: u64) -> Result<Bytes> {
        self.inner.read(id, offset, length).await
    }

    /// See [`ChunkClient::seal`](crate::ChunkClient::seal).
    ///
    /// # Errors
    /// As there.
    pub async fn seal(&self, id: ChunkId) -> Result<u64> {
        self.inner.seal(id).await
    }

    /// See [`ChunkClient::delete`](crate::ChunkClient::delete).
    ///
    /// # Errors
    /// As there.
    pub async fn delete(&self, id: ChunkId) -> Result<()> {
        self.inner.delete(id).await
    }

    /// One chunk.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn stat(&self, id: ChunkId) -> Result<ChunkStat> {
        self.inner.stat(id)
    }

    /// Chunks with ids above `after`, by id, at most `limit`.
    pub fn list(&self, after: Option<ChunkId>, limit: usize) -> Vec<ChunkStat> {
        self.inner.list(after, limit)
    }

    /// The drive's space.
    pub fn store_stat(&self) -> StoreStat {
        self.inner.store_stat()
    }

    /// Every data zone.
    pub fn zones(&self) -> Vec<ZoneStat> {
        let state = self.inner.state.borrow();
        let stat = |(zone, slot): (ZoneId, &Zone)| ZoneStat {
            zone,
            status: slot.status,
            stream: slot.stream,
            written_blocks: slot.written,
            live_blocks: slot.live,
            capacity_blocks: self.inner.zone_room,
        };
        state.zones.iter().map(stat).collect()
    }

    /// Counters since the store was opened.
    pub fn counters(&self) -> Counters {
        let corrupt_reads = self.inner.verifier.corrupt_reads.load(Ordering::Relaxed);
        Counters { corrupt_reads, ..self.inner.state.borrow().counters }
    }

    /// Memory of the index. Looks at every chunk: for metrics now and then, not for every request.
    pub fn index_memory(&self) -> IndexMemory {
        self.inner.state.borrow().index_memory()
    }

    /// When free zones will run out.
    pub fn forecast(&self) -> Forecast {
        self.inner.trend.borrow().forecast()
    }

    /// Writes a checkpoint, so that the next opening has little to replay.
    ///
    /// # Errors
    /// `Device` if it could not be written; the store goes on from the one before.
    pub async fn checkpoint(&self) -> Result<()> {
        self.inner.checkpoint().await
    }

    /// Answers requests until all clients are gone, then closes the store.
    ///
    /// Appends take their places in the order of the requests; everything else runs side by side.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub async fn serve(&self, mut requests: mpsc::Receiver<Request>) -> Result<()> {
        while let Some(request) = requests.recv().await {
            self.answer(request);
        }
        self.close().await
    }

    /// Reads for a caller that may go away at any time: then nothing more is read (CS-READ-4).
    async fn read_for(&self, mut reply: Reply<Fetched>, id: ChunkId, (offset, length): (u64, u64), verify: bool) {
        if reply.is_closed() {
            return;
        }
        let read = Box::pin(self.inner.fetch(id, offset, length));
        let read = match select(read, Box::pin(reply.closed())).await {
            Either::Left((read, _)) => read,
            Either::Right(_) => return,
        };
        let verified = |read: Fetched| read.verify().map(Fetched::from);
        let _ = reply.send(if verify { read.and_then(verified) } else { read });
    }

    /// Begins to answer one request.
    fn answer(&self, request: Request) {
        let store = self.clone();
        // A caller that went away needs no answer.
        match request {
            Request::Append { id, offset, data, reply } => self.inner.start_append(id, offset, data, reply),
            Request::Stat { id, reply } => drop(reply.send(self.stat(id))),
            Request::List { after, limit, reply } => drop(reply.send(Ok(self.list(after, limit)))),
            Request::StoreStat { reply } => drop(reply.send(Ok(self.store_stat()))),
            Request::Create { id, stream, reply } => {
                self.inner.rt.spawn(async move { drop(reply.send(store.create(id, stream).await)) });
            }
            Request::Read { id, offset, length, verify, reply } => {
                self.inner.rt.spawn_detached(async move { store.read_for(reply, id, (offset, length), verify).await });
            }
            Request::Seal { id, reply } => {
                self.inner.rt.spawn(async move { drop(reply.send(store.seal(id).await)) });
            }
            Request::Delete { id, reply } => {
                self.inner.rt.spawn(async move { drop(reply.send(store.delete(id).await)) });
            }
        }
    }

    /// Waits for outstanding appends, writes a checkpoint and stops. Nothing acknowledged depends on it: it only makes
    /// the next opening quick.
    ///
    /// # Errors
    /// `Device` if the checkpoint could not be written.
    pub async fn close(&self) -> Result<()> {
        if self.inner.closing.replace(true) {
            return Ok(());
        }
        let handles: Vec<Handle> = self.inner.state.borrow().open.keys().copied().collect();
        for &handle in &handles {
            self.inner.move_tail(handle);
        }
        for handle in handles {
            self.inner.drained(handle).await;
        }
        let result =
            if self.inner.state.borrow().stopped.is_none() { self.inner.last_checkpoint().await } else { Ok(()) };
        self.inner.state.borrow_mut().stopped.get_or_insert_with(|| "it was closed".to_owned());
        self.inner.fail_all("it was closed");
        self.inner.log.give_up_waiting();
        result
    }
}
