//! Writing an object or part: a segment is gathered while the one before it is on its way.

use std::mem;

use bytes::Bytes;
use shingle_store_api::{Commit, ObjectInfo, ObjectWriter, StoreFuture, StoreResult, UploadId};
use tokio::sync::oneshot;

use crate::client::ObjectStoreClient;
use crate::engine::objects::{Begun, Written};
use crate::engine::purge::Release;
use crate::errors::unavailable;

/// What is being written.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Object { bucket: String, key: String },
    Part { bucket: String, key: String, id: UploadId, number: u32 },
}

/// An object or part being written. It holds at most one segment beside the one on its way, and no file: a client that
/// stalls costs memory only.
pub(crate) struct Writer {
    client: ObjectStoreClient,
    target: Target,
    written: Written,
    /// Bytes in `written.rest`.
    gathered: u64,
    under_way: Option<oneshot::Receiver<StoreResult<()>>>,
    committed: bool,
}

impl Writer {
    pub(crate) fn new(client: ObjectStoreClient, target: Target, begun: Begun) -> Self {
        let written = Written { begun, segments: 0, rest: Vec::new(), size: 0 };
        Self { client, target, written, gathered: 0, under_way: None, committed: false }
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
        self.written.segments += 1;
        let (reply, answer) = oneshot::channel();
        let job: crate::engine::run::Job = Box::new(move |core| {
            Box::pin(async move {
                let result = core.put_segment(blob, index, data).await;
                drop(permit);
                // The writer may be gone; the segment is then garbage.
                let _ = reply.send(result);
            })
        });
        let sent = self.client.entrance.writes.send(job).await;
        sent.map_err(|_| unavailable("the object store has stopped"))?;
        self.under_way = Some(answer);
        Ok(())
    }

    async fn take(&mut self, mut data: Bytes) -> StoreResult<()> {
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
        let target = self.target.clone();
        let rest = mem::take(&mut self.written.rest);
        let written = Written { rest, ..self.written.clone() };
        let result = self.client.entrance.write(move |core| async move {
            let result = match target {
                Target::Object { bucket, key } => core.commit_put(bucket, key, written, commit).await,
                Target::Part { bucket, key, id, number } => {
                    core.commit_part((bucket, key), id, number, written, commit).await
                }
            };
            drop(permit);
            result
        });
        let result = result.await;
        self.committed = result.is_ok();
        result
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Also after a commit that failed: its last segment may have arrived. If the answer alone was lost, the blob is
        // no longer open, and giving it up changes nothing.
        if !self.committed && (self.written.segments > 0 || self.written.size > 0) {
            let _ = self.client.entrance.releases.send(Release::Writer(self.written.begun.blob));
        }
    }
}

impl ObjectWriter for Writer {
    fn write(&mut self, data: Bytes) -> StoreFuture<'_, ()> {
        Box::pin(self.take(data))
    }

    fn commit(self: Box<Self>, commit: Commit) -> StoreFuture<'static, ObjectInfo> {
        Box::pin(self.finish(commit))
    }
}
