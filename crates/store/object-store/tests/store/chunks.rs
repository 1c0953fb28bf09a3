//! A chunk store in memory: the contract of `ChunkClient` and nothing else, with cuts and faults.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use shingle_chunk_store::{
    ChunkClient, ChunkId, ChunkStat, Error, ErrorKind, Reply, Request, Result, StoreStat, Stream,
};
use shingle_runtime::Runtime;
use shingle_sim::Random;
use tokio::sync::{Notify, mpsc};

/// Bytes of an append beside its data.
const OVERHEAD: u64 = 64;

#[derive(Clone, Debug)]
struct Chunk {
    stream: Stream,
    data: BytesMut,
    sealed: bool,
    /// Ranges that cannot be read.
    corrupt: Vec<(u64, u64, ErrorKind)>,
}

/// Faults of appends, as probabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Faults {
    /// The append fails; the chunk is sealed.
    pub(crate) device: f64,
    /// The append fails although it has landed; the chunk is sealed.
    pub(crate) landed: f64,
    /// The chunk says that it is full.
    pub(crate) full: f64,
    /// A create fails.
    pub(crate) create: f64,
    /// Every change is answered by an error, and appends have landed all the same.
    pub(crate) mute: bool,
    /// Every change is answered by an error, and nothing has changed.
    pub(crate) dead: bool,
}

#[derive(Clone)]
struct Disk {
    chunks: BTreeMap<ChunkId, Chunk>,
    capacity: u64,
    limit: u64,
    random: Random,
    faults: Faults,
    /// Deletions of chunks that are not there.
    deletes_of_nothing: u64,
}

/// Power of a machine, which all its drives share: when it fails, all stop.
#[derive(Default)]
pub(crate) struct Power {
    requests: Cell<u64>,
    cut_at: Cell<Option<u64>>,
    cut: Notify,
}

impl Power {
    /// The power fails at the request of this number, from 0, counted from now.
    pub(crate) fn cut_after(&self, requests: Option<u64>) {
        self.requests.set(0);
        self.cut_at.set(requests);
    }

    /// Requests since the last call of [`Power::cut_after`].
    pub(crate) fn requests(&self) -> u64 {
        self.requests.get()
    }

    fn is_off(&self) -> bool {
        self.cut_at.get().is_some_and(|cut| self.requests.get() > cut)
    }

    /// Completes when the power fails.
    pub(crate) async fn fails(&self) {
        loop {
            let cut = self.cut.notified();
            if self.is_off() {
                return;
            }
            cut.await;
        }
    }
}

/// A drive's chunks, which survive the simulation that made them.
#[derive(Clone)]
pub(crate) struct MemoryChunks {
    disk: Rc<RefCell<Disk>>,
    power: Rc<Power>,
    hung: Rc<RefCell<Hung>>,
    /// It stops at its next request.
    ends: Rc<Cell<bool>>,
    /// Ends of chunks that cannot be seen now.
    hidden: Rc<RefCell<BTreeMap<ChunkId, (u64, BytesMut)>>>,
}

/// Requests that take effect and are not answered, while a drive hangs.
#[derive(Default)]
struct Hung {
    which: Option<fn(&Request) -> bool>,
    held: Vec<Request>,
}

impl MemoryChunks {
    pub(crate) fn new(seed: u64, capacity: u64, limit: u64, power: Rc<Power>) -> Self {
        let (chunks, random, faults) = (BTreeMap::new(), Random::new(seed), Faults::default());
        let disk = Disk { chunks, capacity, limit, random, faults, deletes_of_nothing: 0 };
        Self {
            disk: Rc::new(RefCell::new(disk)),
            power,
            hung: Rc::default(),
            ends: Rc::default(),
            hidden: Rc::default(),
        }
    }

    /// True if the next opening reports that it could not read all.
    pub(crate) fn hides(&self) -> bool {
        !self.hidden.borrow().is_empty()
    }

    /// Takes a chunk's end away for good, as rot of the last write does.
    pub(crate) fn truncate(&self, id: ChunkId, size: u64) -> BytesMut {
        self.disk.borrow_mut().chunks.get_mut(&id).expect("a chunk to cut").data.split_off(size as usize)
    }

    /// Hides all bytes from `size` on: they cannot be read at the next opening.
    pub(crate) fn hide(&self, id: ChunkId, size: u64) {
        let end = self.truncate(id, size);
        self.hidden.borrow_mut().insert(id, (size, end));
    }

    /// Hidden bytes can be read again, but for those of chunks that were gone on with, sealed or deleted meanwhile.
    pub(crate) fn show(&self) {
        for (id, (size, end)) in std::mem::take(&mut *self.hidden.borrow_mut()) {
            if let Some(chunk) = self.disk.borrow_mut().chunks.get_mut(&id)
                && !chunk.sealed
                && chunk.data.len() as u64 == size
            {
                chunk.data.extend_from_slice(&end);
            }
        }
    }

    /// From now on such requests are not answered.
    pub(crate) fn hang(&self, which: fn(&Request) -> bool) {
        self.hung.borrow_mut().which = Some(which);
    }

    /// The drive is gone from its next request on.
    pub(crate) fn end(&self) {
        self.ends.set(true);
    }

    /// All requests that were not answered end with an error.
    pub(crate) fn release(&self) {
        self.hung.borrow_mut().held.clear();
    }

    /// Requests that nobody answers.
    pub(crate) fn held(&self) -> usize {
        self.hung.borrow().held.len()
    }

    /// A copy that shares nothing with this one.
    pub(crate) fn fork(&self, power: Rc<Power>) -> Self {
        Self {
            disk: Rc::new(RefCell::new(self.disk.borrow().clone())),
            power,
            hung: Rc::default(),
            ends: Rc::default(),
            hidden: Rc::new(RefCell::new(self.hidden.borrow().clone())),
        }
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.disk.borrow_mut().faults = faults;
    }

    /// Chunks of a stream.
    pub(crate) fn chunks(&self, stream: Stream) -> Vec<ChunkId> {
        let disk = self.disk.borrow();
        disk.chunks.iter().filter(|(_, chunk)| chunk.stream == stream).map(|(id, _)| *id).collect()
    }

    /// Chunks of a stream that are not sealed.
    pub(crate) fn open_chunks(&self, stream: Stream) -> usize {
        let disk = self.disk.borrow();
        disk.chunks.values().filter(|chunk| chunk.stream == stream && !chunk.sealed).count()
    }

    /// Deletions of chunks that were not there.
    pub(crate) fn deletes_of_nothing(&self) -> u64 {
        self.disk.borrow().deletes_of_nothing
    }

    /// Makes a part of a chunk unreadable, for good.
    pub(crate) fn corrupt(&self, id: ChunkId, from: u64, to: u64) {
        self.spoil(id, (from, to, ErrorKind::Corrupt));
    }

    /// Makes a part of a chunk unreadable for now.
    pub(crate) fn fail_reads(&self, id: ChunkId, from: u64, to: u64) {
        self.spoil(id, (from, to, ErrorKind::Device));
    }

    /// Heals places that could not be read for now.
    pub(crate) fn heal(&self) {
        let lasts = |spoilt: &(u64, u64, ErrorKind)| spoilt.2 != ErrorKind::Device;
        self.disk.borrow_mut().chunks.values_mut().for_each(|chunk| chunk.corrupt.retain(lasts));
    }

    fn spoil(&self, id: ChunkId, range: (u64, u64, ErrorKind)) {
        self.disk.borrow_mut().chunks.get_mut(&id).expect("a chunk to spoil").corrupt.push(range);
    }

    /// Changes a byte behind the checksums' back.
    pub(crate) fn flip(&self, id: ChunkId, at: usize) {
        self.disk.borrow_mut().chunks.get_mut(&id).expect("a chunk to spoil").data[at] ^= 0x10;
    }

    pub(crate) fn size(&self, id: ChunkId) -> u64 {
        self.disk.borrow().chunks[&id].data.len() as u64
    }

    /// Serves in `runtime`, until the power fails or the client is gone.
    pub(crate) fn serve(&self, runtime: &Runtime) -> ChunkClient {
        let (client, requests) = ChunkClient::channel(16);
        drop(runtime.spawn(self.clone().run(runtime.clone(), requests)));
        client
    }

    async fn run(self, runtime: Runtime, mut requests: mpsc::Receiver<Request>) {
        // Held, so that callers wait for ever after a cut, as after a power failure.
        while let Some(request) = requests.recv().await.filter(|_| !self.ends.get()) {
            let number = self.power.requests.get();
            self.power.requests.set(number + 1);
            if self.power.cut_at.get().is_some_and(|cut| number >= cut) {
                self.cut(&request, number);
                self.power.cut.notify_waiters();
                std::future::pending::<()>().await;
            }
            self.answer(&runtime, request);
        }
    }

    /// The request under way when the power fails has its effect or has not; later ones have none.
    fn cut(&self, request: &Request, number: u64) {
        let mut disk = self.disk.borrow_mut();
        if Some(number) == self.power.cut_at.get() && disk.random.chance(0.5) {
            let _ = disk.change(request);
        }
    }

    /// A request takes effect at once, and is answered some time later.
    fn answer(&self, runtime: &Runtime, request: Request) {
        let mut disk = self.disk.borrow_mut();
        let delay = Duration::from_nanos(disk.random.below(20_000));
        let result = disk.change(&request);
        let mut hung = self.hung.borrow_mut();
        if hung.which.is_some_and(|which| which(&request)) {
            return hung.held.push(request);
        }
        fn later<T: 'static>(runtime: &Runtime, delay: Duration, reply: Reply<T>, result: Result<T>) {
            let clock = runtime.clone();
            drop(runtime.spawn(async move {
                clock.sleep(delay).await;
                let _ = reply.send(result);
            }));
        }
        match request {
            Request::Create { reply, .. } | Request::Delete { reply, .. } => {
                later(runtime, delay, reply, result.map(drop));
            }
            Request::Append { reply, .. } | Request::Seal { reply, .. } => later(runtime, delay, reply, result),
            Request::Read { id, offset, length, reply, .. } => {
                later(runtime, delay, reply, disk.read(id, offset, length).map(Into::into));
            }
            Request::Stat { id, reply } => later(runtime, delay, reply, disk.stat(id)),
            Request::List { after, limit, reply } => {
                let ids: Vec<_> = disk.chunks.keys().filter(|id| after.is_none_or(|after| **id > after)).collect();
                let found = ids.into_iter().take(limit).map(|id| disk.stat(*id)).collect();
                later(runtime, delay, reply, found);
            }
            Request::StoreStat { reply } => later(runtime, delay, reply, Ok(disk.store_stat())),
        }
    }
}

fn error<T>(kind: ErrorKind) -> Result<T> {
    Err(Error::new(kind, format!("the chunk store in memory says {kind:?}")))
}

impl Disk {
    fn used(&self) -> u64 {
        self.chunks.values().map(|chunk| chunk.data.len() as u64 + OVERHEAD).sum()
    }

    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used())
    }

    fn store_stat(&self) -> StoreStat {
        StoreStat {
            capacity_bytes: self.capacity,
            free_bytes: self.free(),
            garbage_bytes: 0,
            live_bytes: self.used(),
            chunks: self.chunks.len() as u64,
            queued_appends: 0,
            host_full: false,
        }
    }

    fn chunk(&mut self, id: ChunkId) -> Result<&mut Chunk> {
        self.chunks.get_mut(&id).map_or_else(|| error(ErrorKind::NotFound), Ok)
    }

    fn stat(&self, id: ChunkId) -> Result<ChunkStat> {
        let Some(chunk) = self.chunks.get(&id) else { return error(ErrorKind::NotFound) };
        let size = chunk.data.len() as u64;
        // A chunk reports a little more than it takes in the end: records have headers, too.
        let room = if chunk.sealed { 0 } else { self.limit.saturating_sub(size) };
        Ok(ChunkStat { id, stream: chunk.stream, size, sealed: chunk.sealed, room })
    }

    fn read(&self, id: ChunkId, offset: u64, length: u64) -> Result<Bytes> {
        let Some(chunk) = self.chunks.get(&id) else { return error(ErrorKind::NotFound) };
        let size = chunk.data.len() as u64;
        if offset + length > size {
            return error(ErrorKind::OutOfRange { size });
        }
        if let Some((_, _, kind)) = chunk.corrupt.iter().find(|(from, to, _)| offset < *to && *from < offset + length) {
            return error(*kind).map_err(|error| error.of(id));
        }
        Ok(Bytes::copy_from_slice(&chunk.data[offset as usize..(offset + length) as usize]))
    }

    /// Change made by a request.
    fn change(&mut self, request: &Request) -> Result<u64> {
        if self.faults.mute || self.faults.dead {
            if self.faults.mute
                && let Request::Append { id, offset, data, .. } = request
            {
                self.append(*id, *offset, data)?;
            }
            return error(ErrorKind::Device);
        }
        match request {
            Request::Create { id, stream, .. } => {
                if self.random.chance(self.faults.create) {
                    return error(ErrorKind::Device);
                }
                if self.free() <= OVERHEAD {
                    return error(ErrorKind::NoSpace);
                }
                let chunk = Chunk { stream: *stream, data: BytesMut::new(), sealed: false, corrupt: Vec::new() };
                match self.chunks.insert(*id, chunk) {
                    None => Ok(0),
                    Some(_) => panic!("chunk {id} was created twice: a file number was used again"),
                }
            }
            Request::Append { id, offset, data, .. } => self.append(*id, *offset, data),
            Request::Seal { id, .. } => {
                let chunk = self.chunk(*id)?;
                chunk.sealed = true;
                Ok(chunk.data.len() as u64)
            }
            Request::Delete { id, .. } => match self.chunks.remove(id) {
                Some(_) => Ok(0),
                None => {
                    self.deletes_of_nothing += 1;
                    error(ErrorKind::NotFound)
                }
            },
            _ => Ok(0),
        }
    }

    fn append(&mut self, id: ChunkId, offset: u64, data: &[Bytes]) -> Result<u64> {
        let (free, limit, faults) = (self.free(), self.limit, self.faults);
        let (fails, lands, fills) =
            (self.random.chance(faults.device), self.random.chance(faults.landed), self.random.chance(faults.full));
        let chunk = self.chunk(id)?;
        let size = chunk.data.len() as u64;
        let length: u64 = data.iter().map(|piece| piece.len() as u64).sum();
        if chunk.sealed {
            return error(ErrorKind::Sealed);
        }
        if offset != size {
            return error(ErrorKind::WrongOffset { size });
        }
        if size + length > limit || (fills && size > 0) {
            return error(ErrorKind::ChunkFull);
        }
        if length > free {
            return error(ErrorKind::NoSpace);
        }
        if fails {
            chunk.sealed = true;
            return error(ErrorKind::Device);
        }
        data.iter().for_each(|piece| chunk.data.extend_from_slice(piece));
        if lands {
            chunk.sealed = true;
            return error(ErrorKind::Device);
        }
        Ok(chunk.data.len() as u64)
    }
}
