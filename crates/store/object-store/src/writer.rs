//! Writing an object or part: a segment is gathered while the one before it is on its way.

use std::mem;
use std::rc::Rc;

use bytes::Bytes;
use shingle_runtime::memory::Hold;
use shingle_store_api::{
    Commit, ObjectInfo, ObjectWriter, StoreError, StoreErrorKind, StoreFuture, StoreResult, UploadId,
};
use tokio::sync::oneshot;

use crate::client::ObjectStoreClient;
use crate::engine::Core;
use crate::engine::objects::{Begun, Written};
use crate::engine::purge::BlobHold;
use crate::engine::run::gone;
use crate::errors::unavailable;

/// What is being written.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Object { bucket: String, key: String },
    Part { bucket: String, key: String, id: UploadId, number: u32 },
}

impl Target {
    /// An error of writing it.
    fn name(&self, error: StoreError) -> StoreError {
        let (Self::Object { bucket, key } | Self::Part { bucket, key, .. }) = self;
        error.about(bucket, key)
    }
}

/// An object or part being written. It holds at most one segment beside the one on its way, and no file: a client that
/// stalls costs memory only. Where there is little of it, segments are small.
pub(crate) struct Writer {
    client: ObjectStoreClient,
    target: Target,
    written: Written,
    /// Bytes in `written.rest`.
    gathered: u64,
    /// Memory for `written.rest`, once bytes are expected.
    memory: Option<Hold>,
    under_way: Option<oneshot::Receiver<StoreResult<()>>>,
    hold: BlobHold,
}

impl Writer {
    pub(crate) fn new(client: ObjectStoreClient, target: Target, begun: Begun) -> Self {
        let written = Written { begun, segments: 0, rest: Vec::new(), size: 0 };
        let hold = BlobHold::new(begun.blob, client.entrance.releases.clone());
        Self { client, target, written, gathered: 0, memory: None, under_way: None, hold }
    }

    /// Takes memory for `length` bytes, or for the segments that they are cut into.
    fn take_memory(&mut self, length: u64) {
        let begun = &mut self.written.begun;
        let memory = self.client.memory.take(length.min(u64::from(begun.segment_bytes)) as usize);
        if (memory.bytes() as u64) < length {
            begun.segment_bytes = begun.segment_bytes.min(u32::try_from(memory.bytes()).unwrap_or(u32::MAX));
        }
        self.memory = Some(memory);
    }

    /// Waits for the segment on its way.
    async fn arrive(&mut self) -> StoreResult<()> {
        let Some(under_way) = self.under_way.as_mut() else { return Ok(()) };
        let result = under_way.await.map_err(|_| unavailable("the object store has stopped"));
        self.under_way = None;
        result?
    }

    /// Sends the gathered segment off, once the one before it has arrived.
    async fn send_segment(&mut self) -> StoreResult<()> {
        self.arrive().await?;
        let share = self.client.share(self.gathered);
        let budget = self.client.entrance.budget.clone();
        let permit = budget.acquire_many_owned(share).await.map_err(|_| unavailable("the object store has stopped"))?;
        let data = mem::take(&mut self.written.rest);
        self.gathered = 0;
        let (blob, index) = (self.written.begun.blob, self.written.segments);
        let put = move |core: Rc<Core>| async move {
            // The writer may be gone by then; the segment is garbage.
            let result = core.put_segment(blob, index, data).await;
            drop(permit);
            result
        };
        let answer = self.client.entrance.writes.begin(put).await.map_err(gone)?;
        self.written.segments += 1;
        self.hold.sent += 1;
        self.under_way = Some(answer);
        Ok(())
    }

    async fn take(&mut self, mut data: Bytes) -> StoreResult<()> {
        if self.memory.is_none() {
            self.take_memory(u64::MAX);
        }
        let segment_bytes = u64::from(self.written.begun.segment_bytes);
        self.written.size += data.len() as u64;
        while !data.is_empty() {
            // A full segment goes only when more follows: the last one travels with the commit.
            if self.gathered == segment_bytes {
                self.send_segment().await?;
            }
            let room = (segment_bytes - self.gathered) as usize;
            let piece = data.split_to(room.min(data.len()));
            self.gathered += piece.len() as u64;
            self.written.rest.push(piece);
        }
        Ok(())
    }

    async fn finish(mut self, commit: Commit) -> StoreResult<ObjectInfo> {
        self.arrive().await?;
        let budget = self.client.entrance.budget.clone();
        let share = self.client.share(self.gathered);
        let permit = budget.acquire_many_owned(share).await.map_err(|_| unavailable("the object store has stopped"))?;
        let Self { client, target, written, hold, .. } = self;
        let work = move |core: Rc<Core>| async move {
            let result = match target {
                Target::Object { bucket, key } => core.commit_put(bucket, key, written, commit).await,
                Target::Part { bucket, key, id, number } => {
                    core.commit_part((bucket, key), id, number, written, commit).await
                }
            };
            // Where the drive or the engine failed, the commit may have landed: the next start finds out, and until
            // then its segments stay.
            let unsure = |error: &StoreError| {
                matches!(error.kind, StoreErrorKind::Device | StoreErrorKind::Corrupt | StoreErrorKind::Unavailable)
            };
            if result.as_ref().map_or_else(unsure, |_| true) {
                hold.keep();
            }
            drop(permit);
            result
        };
        client.entrance.write(work).await
    }
}

impl ObjectWriter for Writer {
    fn expect(&mut self, length: u64) {
        if self.memory.is_none() {
            self.take_memory(length);
        }
    }

    fn write(&mut self, data: Bytes) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let result = self.take(data).await;
            result.map_err(|error| self.target.name(error))
        })
    }

    fn commit(self: Box<Self>, commit: Commit) -> StoreFuture<'static, ObjectInfo> {
        let target = self.target.clone();
        Box::pin(async move { self.finish(commit).await.map_err(|error| target.name(error)) })
    }
}
