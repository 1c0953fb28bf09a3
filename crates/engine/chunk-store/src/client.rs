//! The way to a chunk store from other threads: requests over a bounded channel to its owner.

use bytes::Bytes;
use shingle_base::ChunkId;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, ErrorKind, Result};
use crate::read::Fetched;
use crate::types::{ChunkStat, StoreStat, Stream};

/// Sender of the owner's answer.
pub type Reply<T> = oneshot::Sender<Result<T>>;

/// One call, on its way to the owner.
#[expect(missing_docs, reason = "each variant and field is described at the method of ChunkClient that sends it")]
pub enum Request {
    Create { id: ChunkId, stream: Stream, reply: Reply<()> },
    Append { id: ChunkId, offset: u64, data: Vec<Bytes>, reply: Reply<u64> },
    Read { id: ChunkId, offset: u64, length: u64, verify: bool, reply: Reply<Fetched> },
    Seal { id: ChunkId, reply: Reply<u64> },
    Delete { id: ChunkId, reply: Reply<()> },
    Stat { id: ChunkId, reply: Reply<ChunkStat> },
    List { after: Option<ChunkId>, limit: usize, reply: Reply<Vec<ChunkStat>> },
    StoreStat { reply: Reply<StoreStat> },
}

/// A chunk store, from any thread. Cheap to clone. A full engine slows its callers.
#[derive(Clone)]
pub struct ChunkClient {
    requests: mpsc::Sender<Request>,
}

impl ChunkClient {
    /// A client, and the receiver its owner serves; at most `depth` requests wait between them.
    pub fn channel(depth: usize) -> (Self, mpsc::Receiver<Request>) {
        let (requests, receiver) = mpsc::channel(depth);
        (Self { requests }, receiver)
    }

    /// True once the owner takes no more requests: it is gone, or closes.
    pub fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    /// Creates a chunk. Durable when it returns.
    ///
    /// # Errors
    /// `Exists`; `NoSpace` if the metazones could not hold one more chunk.
    pub async fn create(&self, id: ChunkId, stream: Stream) -> Result<()> {
        self.call(|reply| Request::Create { id, stream, reply }).await
    }

    /// Appends `data` (its pieces, one after the other) and returns the chunk's new size. `offset` is the size the
    /// caller believes the chunk has, counting appends it has not yet had an answer to.
    ///
    /// **Durability:** when it returns, the whole append survives a power cut; before, any of it may or may not.
    /// It is never half there: a power cut leaves the whole append or nothing of it.
    ///
    /// # Errors
    /// `WrongOffset`, `Sealed`, `ChunkFull`, `NotFound`, `NoSpace`: nothing was written.
    pub async fn append(&self, id: ChunkId, offset: u64, data: Vec<Bytes>) -> Result<u64> {
        self.call(|reply| Request::Append { id, offset, data, reply }).await
    }

    /// Reads `length` bytes from `offset`, verified.
    ///
    /// # Errors
    /// `OutOfRange` if the range is not wholly inside the chunk; `Corrupt`, `Device`: other ranges may be fine.
    pub async fn read(&self, id: ChunkId, offset: u64, length: u64) -> Result<Bytes> {
        self.call(|reply| Request::Read { id, offset, length, verify: true, reply }).await?.verify()
    }

    /// As [`ChunkClient::read`], but the bytes are verified and copied on the caller's thread: for a caller who has one to itself and
    /// sends them on, and so has them in its cache.
    ///
    /// # Errors
    /// As there.
    pub async fn read_here(&self, id: ChunkId, offset: u64, length: u64) -> Result<Bytes> {
        self.call(|reply| Request::Read { id, offset, length, verify: false, reply }).await?.verify()
    }

    /// Seals a chunk and returns its size. Waits for its outstanding appends, and takes no others meanwhile. Sealing a sealed
    /// chunk changes nothing, so a seal that failed can be tried again.
    ///
    /// # Errors
    /// `NotFound`. `Device` if the metadata log takes no entry, and `HostFull`: an append to the chunk tells the
    /// outcome of the seal. If the seal did not reach the log, the chunk is as it was and takes appends. A seal that is
    /// in the log and waits for room on the host is not undone, for it may be durable: appends get `Sealed`, and the
    /// next try, or an opening, tells. `Stopped`: only the next opening can tell.
    pub async fn seal(&self, id: ChunkId) -> Result<u64> {
        self.call(|reply| Request::Seal { id, reply }).await
    }

    /// Deletes a chunk, sealed or not. Durable when it returns.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn delete(&self, id: ChunkId) -> Result<()> {
        self.call(|reply| Request::Delete { id, reply }).await
    }

    /// One chunk.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn stat(&self, id: ChunkId) -> Result<ChunkStat> {
        self.call(|reply| Request::Stat { id, reply }).await
    }

    /// Chunks with ids above `after`, by id, at most `limit`.
    ///
    /// # Errors
    /// `Stopped`.
    pub async fn list(&self, after: Option<ChunkId>, limit: usize) -> Result<Vec<ChunkStat>> {
        self.call(|reply| Request::List { after, limit, reply }).await
    }

    /// The drive's space.
    ///
    /// # Errors
    /// `Stopped`.
    pub async fn store_stat(&self) -> Result<StoreStat> {
        self.call(|reply| Request::StoreStat { reply }).await
    }

    async fn call<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T> {
        let stopped = || Error::new(ErrorKind::Stopped, "the chunk store has stopped");
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}
