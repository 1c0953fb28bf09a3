//! The calls that callers make.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::future::{Either, select};
use shingle_base::{BLOCK_SIZE, ChunkId, StoreId, ZoneId};
use tokio::sync::{mpsc, oneshot};

use crate::client::{Reply, Request};
use crate::drive::Layout;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Chunk, Handle, IndexMemory};
use crate::read::{Fetched, Fetching};
use crate::stats::{Counters, Forecast};
use crate::types::{ChunkStat, StoreStat, Stream, ZoneStat, ZoneStatus};
use crate::zones::Zone;

/// A chunk store on one zoned drive. A cheap handle; stays on the thread of its runtime.
///
/// Other threads go through [`ChunkClient`](crate::ChunkClient), whose documentation holds for the calls here too.
#[derive(Clone)]
pub struct ChunkStore {
    pub(crate) engine: Rc<Engine>,
}

impl Engine {
    fn stat(&self, id: ChunkId) -> Result<ChunkStat> {
        let state = self.state.borrow();
        let (handle, chunk) = state.chunk(id)?;
        Ok(state.stat(handle, chunk, self.chunk_limit(chunk.stream), self.drive.append_max))
    }

    fn list(&self, after: Option<ChunkId>, limit: usize) -> Vec<ChunkStat> {
        let state = self.state.borrow();
        let seen = |&(handle, chunk): &(Handle, &Chunk)| !state.is_hidden(handle, chunk);
        let chunks = state.chunks.after(after).filter(seen).take(limit);
        chunks
            .map(|(handle, chunk)| state.stat(handle, chunk, self.chunk_limit(chunk.stream), self.drive.append_max))
            .collect()
    }

    async fn close(self: Rc<Self>) -> Result<()> {
        let handles: Vec<Handle> = self.state.borrow().open.keys().copied().collect();
        for &handle in &handles {
            self.move_tail(handle);
        }
        for handle in handles {
            self.drained(handle).await;
        }
        let result = if self.state.borrow().stopped.is_none() { self.last_checkpoint().await } else { Ok(()) };
        self.stop("it was closed");
        self.log.give_up_waiting();
        self.drive.gate.shut().await;
        self.closed.set(true);
        self.wakes.closed.notify_waiters();
        result
    }

    /// The drive's space. (Zones that were lost or turned read-only count for nothing.)
    pub(crate) fn store_stat(&self) -> StoreStat {
        let mut state = self.state.borrow_mut();
        state.zones.settle();
        let zones = &state.zones;
        let sums = zones.census().sums();
        let of = |statuses: &[ZoneStatus]| {
            statuses.iter().map(|&status| u64::from(zones.count(status))).sum::<u64>() * u64::from(self.drive.zone_room)
        };
        let (unused, open, closed) = (
            of(&[ZoneStatus::Free, ZoneStatus::Garbage]),
            of(&[ZoneStatus::Opened, ZoneStatus::Activated]),
            of(&[ZoneStatus::Closed]),
        );
        let kept = u64::from(crate::zones::GC_RESERVE) * u64::from(self.drive.zone_room);
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
            host_full: self.host.is_full(),
        }
    }
}

impl ChunkStore {
    /// The store's identity.
    pub fn id(&self) -> StoreId {
        self.engine.store
    }

    /// Division of the drive.
    pub fn layout(&self) -> &Layout {
        &self.engine.layout
    }

    /// See [`ChunkClient::create`](crate::ChunkClient::create).
    ///
    /// # Errors
    /// As there.
    pub async fn create(&self, id: ChunkId, stream: Stream) -> Result<()> {
        self.engine.create(id, stream).await
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
        self.engine.start_append(id, offset, data, reply);
        async move {
            answer.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Stopped, "the chunk store has stopped").of(id)))
        }
    }

    /// See [`ChunkClient::read`](crate::ChunkClient::read).
    ///
    /// # Errors
    /// As there.
    pub async fn read(&self, id: ChunkId, offset: u64, length: u64) -> Result<Bytes> {
        self.engine.read(id, offset, length).await
    }

    /// See [`ChunkClient::seal`](crate::ChunkClient::seal).
    ///
    /// # Errors
    /// As there.
    pub async fn seal(&self, id: ChunkId) -> Result<u64> {
        self.engine.seal(id).await
    }

    /// See [`ChunkClient::delete`](crate::ChunkClient::delete).
    ///
    /// # Errors
    /// As there.
    pub async fn delete(&self, id: ChunkId) -> Result<()> {
        self.engine.delete(id).await
    }

    /// One chunk.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn stat(&self, id: ChunkId) -> Result<ChunkStat> {
        self.engine.stat(id)
    }

    /// Chunks with ids above `after`, by id, at most `limit`.
    pub fn list(&self, after: Option<ChunkId>, limit: usize) -> Vec<ChunkStat> {
        self.engine.list(after, limit)
    }

    /// The drive's space.
    pub fn store_stat(&self) -> StoreStat {
        self.engine.store_stat()
    }

    /// Every data zone.
    pub fn zones(&self) -> Vec<ZoneStat> {
        let state = self.engine.state.borrow();
        let stat = |(zone, slot): (ZoneId, &Zone)| ZoneStat {
            zone,
            status: slot.status,
            stream: slot.stream,
            written_blocks: slot.written,
            live_blocks: slot.live,
            capacity_blocks: self.engine.drive.zone_room,
        };
        state.zones.iter().map(stat).collect()
    }

    /// Counters since the store was opened.
    pub fn counters(&self) -> Counters {
        let corrupt_reads = self.engine.verifier.corrupt_reads.load(Ordering::Relaxed);
        Counters { corrupt_reads, ..self.engine.state.borrow().counters }
    }

    /// Memory of the index. Looks at every chunk: for metrics now and then, not for every request.
    pub fn index_memory(&self) -> IndexMemory {
        self.engine.state.borrow().index_memory()
    }

    /// When free zones will run out.
    pub fn forecast(&self) -> Forecast {
        self.engine.collector.trend.borrow().forecast()
    }

    /// Writes a checkpoint, so that the next opening has little to replay.
    ///
    /// # Errors
    /// `Device` if it could not be written; the store goes on from the one before.
    pub async fn checkpoint(&self) -> Result<()> {
        self.engine.checkpoint().await
    }

    /// Answers requests until all clients are gone, then closes the store.
    ///
    /// Appends take their places in the order of the requests; everything else runs side by side.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub async fn serve(&self, requests: mpsc::Receiver<Request>) -> Result<()> {
        self.serve_until(requests, std::future::pending()).await
    }

    /// As [`serve`](Self::serve), or until `end`: requests made by then are still answered, and clients that stay get `Stopped`.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub async fn serve_until(
        &self,
        mut requests: mpsc::Receiver<Request>,
        end: impl Future<Output = ()>,
    ) -> Result<()> {
        let mut end = pin!(end);
        while let Either::Right((Some(request), _)) = select(end.as_mut(), pin!(requests.recv())).await {
            self.answer(request);
        }
        requests.close();
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
        let fetching = Fetching::default();
        let read = Box::pin(self.engine.fetch(id, offset, length, &fetching));
        let read = match select(read, Box::pin(reply.closed())).await {
            Either::Left((read, _)) => read,
            Either::Right((_, read)) => {
                fetching.leave();
                // A command that the drive has begun takes memory until it ends (CS-READ-5).
                let _ = read.await;
                return;
            }
        };
        let verified = |read: Fetched| read.verify().map(Fetched::from);
        let _ = reply.send(if verify { read.and_then(verified) } else { read });
    }

    /// Creates for a caller that may go away at any time: then there is no chunk (CS-CREATE-1).
    async fn create_for(&self, mut reply: Reply<()>, id: ChunkId, stream: Stream) {
        if reply.is_closed() {
            return;
        }
        let create = Box::pin(self.create(id, stream));
        let created = match select(create, Box::pin(reply.closed())).await {
            Either::Left((created, _)) => created,
            Either::Right(_) => return,
        };
        let made = created.is_ok();
        if reply.send(created).is_err() && made {
            self.engine.undo_create(id).await;
        }
    }

    /// Begins to answer one request.
    fn answer(&self, request: Request) {
        let store = self.clone();
        // A caller that went away needs no answer.
        match request {
            Request::Append { id, offset, data, reply } => self.engine.start_append(id, offset, data, reply),
            Request::Stat { id, reply } => drop(reply.send(self.stat(id))),
            Request::List { after, limit, reply } => drop(reply.send(Ok(self.list(after, limit)))),
            Request::StoreStat { reply } => drop(reply.send(Ok(self.store_stat()))),
            Request::Create { id, stream, reply } => {
                self.engine.rt.spawn(async move { store.create_for(reply, id, stream).await });
            }
            Request::Read { id, offset, length, verify, reply } => {
                self.engine.rt.spawn_detached(async move { store.read_for(reply, id, (offset, length), verify).await });
            }
            Request::Seal { id, reply } => {
                self.engine.rt.spawn(async move { drop(reply.send(store.seal(id).await)) });
            }
            Request::Delete { id, reply } => {
                self.engine.rt.spawn(async move { drop(reply.send(store.delete(id).await)) });
            }
        }
    }

    /// Waits for outstanding appends, writes a checkpoint and stops. Nothing acknowledged depends on it: it only makes
    /// the next opening quick. Once it returns, to whichever caller, nothing of the store changes the drive any more (CS-CLOSE-1). A
    /// close that was begun ends, even if its caller goes away.
    ///
    /// # Errors
    /// `Device` if the checkpoint could not be written; the first of several callers hears of it.
    pub async fn close(&self) -> Result<()> {
        if !self.engine.closing.replace(true) {
            let closing = self.engine.rt.spawn(self.engine.clone().close());
            return closing.await.unwrap_or(Ok(()));
        }
        loop {
            let closed = self.engine.wakes.closed.notified();
            if self.engine.closed.get() {
                return Ok(());
            }
            closed.await;
        }
    }
}
