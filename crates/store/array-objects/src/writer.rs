//! Writing an object or part: gathered while it is small, handed on piece by piece once it is not.

use std::mem;
use std::rc::Rc;

use bytes::Bytes;
use shingle_runtime::memory::Hold;
use shingle_store_api::{Commit, ObjectInfo, ObjectWriter, StoreError, StoreFuture, StoreResult, UploadId};
use tokio::sync::OwnedSemaphorePermit;

use crate::client::ArrayClient;
use crate::engine::Core;
use crate::engine::objects::Written;
use crate::engine::run::Notice;
use crate::errors::gone;

/// What is being written.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Object { bucket: String, key: String },
    Part { bucket: String, key: String, id: UploadId },
}

impl Target {
    /// An error of writing it.
    fn name(&self, error: StoreError) -> StoreError {
        let (Self::Object { bucket, key } | Self::Part { bucket, key, .. }) = self;
        error.about(bucket, key)
    }
}

/// An object or part being written.
pub(crate) struct Writer {
    client: ArrayClient,
    target: Target,
    /// The part it is, by upload and number.
    part: Option<(u64, u16)>,
    /// Its bytes, where its writer knows.
    length: Option<u64>,
    /// What was not handed on yet.
    gathered: Vec<Bytes>,
    gathered_bytes: usize,
    /// Memory for `gathered`, once there is something.
    memory: Option<Hold>,
    blob: Option<Blob>,
}

/// A blob that the owner writes for us, until this is dropped.
struct Blob {
    client: ArrayClient,
    number: u64,
    /// Calls that brought bytes.
    calls: u64,
    _place: OwnedSemaphorePermit,
}

impl Drop for Blob {
    fn drop(&mut self) {
        // The owner may be gone; then nothing is being written.
        let _ = self.client.notices.send(Notice::WriterGone(self.number));
    }
}

impl Writer {
    pub(crate) fn new(client: ArrayClient, target: Target, part: Option<(u64, u16)>) -> Self {
        Self { client, target, part, length: None, gathered: Vec::new(), gathered_bytes: 0, memory: None, blob: None }
    }

    /// Hands on what was gathered; begins the blob if need be, once there is a place for it.
    async fn hand_on(&mut self) -> StoreResult<u64> {
        let blob = match &mut self.blob {
            Some(blob) => blob,
            None => {
                let place = self.client.places.take().await?;
                let (client, part, length) = (self.client.clone(), self.part, self.length);
                let begin = move |core: Rc<Core>| async move {
                    let number = core.begin_blob(part, length)?;
                    // Made here, so that it is let go even if the caller has gone away.
                    Ok(Blob { client, number, calls: 0, _place: place })
                };
                self.blob.insert(self.client.write(begin).await?)
            }
        };
        let number = blob.number;
        let pieces = mem::take(&mut self.gathered);
        self.gathered_bytes = 0;
        if !pieces.is_empty() {
            // What the call waits in the queue is not the client's time. An owner that is gone is told by the call.
            let _ = self.client.notices.send(Notice::BytesCame { writer: number, call: blob.calls });
            blob.calls += 1;
            self.client.write(move |core| async move { core.write_blob(number, pieces).await }).await?;
        }
        Ok(number)
    }

    async fn take(&mut self, data: Bytes) -> StoreResult<()> {
        self.gathered_bytes += data.len();
        self.gathered.push(data);
        let (whole, length) = (self.client.whole_bytes_max, self.length);
        let wanted = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(usize::MAX).min(whole);
        let memory = self.memory.get_or_insert_with(|| self.client.memory.take(wanted));
        // Held whole only where there is memory for all of it.
        if self.blob.is_some() || self.gathered_bytes > memory.bytes() {
            self.hand_on().await?;
        }
        Ok(())
    }

    async fn finish(mut self, commit: Commit) -> StoreResult<ObjectInfo> {
        // A part is a blob whatever its size: it is named by the object it will belong to.
        let written = if self.blob.is_some() || self.part.is_some() {
            Written::Blob(self.hand_on().await?)
        } else {
            Written::Whole(mem::take(&mut self.gathered))
        };
        let Self { client, target, blob, .. } = self;
        let work = move |core: Rc<Core>| async move {
            let result = match (target, written) {
                (Target::Object { bucket, key }, written) => core.commit_put(bucket, key, written, commit).await,
                (Target::Part { bucket, key, id }, Written::Blob(writer)) => {
                    core.commit_part((bucket, key, id), writer, commit).await
                }
                (Target::Part { .. }, Written::Whole(_)) => Err(gone(shingle_runtime::owner::Gone)),
            };
            drop(blob);
            result
        };
        client.write(work).await
    }
}

impl ObjectWriter for Writer {
    fn expect(&mut self, length: u64) {
        self.length = Some(length);
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
