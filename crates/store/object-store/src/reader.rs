//! Reading an object that is open: what it lies in stays until the reader is dropped.
//!
//! # Invariants
//! - READER-1: the engine is asked once for each segment that is read from front to back, however small the pieces are: its place is kept until another segment is
//!   read. `a_segment_is_looked_up_once`.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use shingle_buckets::Client;
use shingle_store_api::{ObjectInfo, ObjectReader, StoreFuture, StoreResult};

use crate::direct::{Opened, Source};
use crate::engine::Core;
use crate::engine::reading::{Located, SegmentRange, ranges};
use crate::errors::{for_client, invalid};
use crate::pins::Release;

/// An object open for reading.
pub(crate) struct Reader {
    client: Client<Core>,
    bucket: String,
    opened: Opened,
    /// The segment that was found last.
    last: Mutex<Option<Arc<Located>>>,
}

impl Reader {
    pub(crate) fn new(client: Client<Core>, bucket: String, opened: Opened) -> Self {
        Self { client, bucket, opened, last: Mutex::default() }
    }

    async fn bytes(&self, offset: u64, length: u64) -> StoreResult<Bytes> {
        match &self.opened.source {
            // Straight to the drive: the pinned file keeps its chunk.
            Source::Whole { client, chunk, offset: at, .. } => {
                client.read_here(*chunk, at + offset, length).await.map_err(for_client)
            }
            Source::Blobs(blobs) => {
                let mut pieces = Vec::new();
                for range in ranges(blobs, offset, length) {
                    pieces.push(self.locate(range).await?.read(&range).await?);
                }
                Ok(joined(pieces))
            }
        }
    }

    /// The place of a range's segment.
    async fn locate(&self, range: SegmentRange) -> StoreResult<Arc<Located>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(last) = last.filter(|last| last.holds(&range)) {
            return Ok(last);
        }
        let releases = self.client.link.releases.clone();
        let locate = move |core: Rc<Core>| async move { core.locate(range, releases).await };
        let found = Arc::new(self.client.door.ask(locate).await?);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.clone());
        Ok(found)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Source::Blobs(blobs) = &self.opened.source else { return };
        let release = Release::Blobs(blobs.iter().map(|blob| blob.blob).collect());
        // The engine may have stopped; then nothing is pinned.
        let _ = self.client.link.releases.send(release);
    }
}

impl ObjectReader for Reader {
    fn info(&self) -> &ObjectInfo {
        &self.opened.info
    }

    fn read(&self, offset: u64, length: u64) -> StoreFuture<'_, Bytes> {
        let size = self.opened.info.size;
        Box::pin(async move {
            if offset.checked_add(length).is_none_or(|end| end > size) {
                return Err(invalid(format!("{length} bytes from {offset} are not inside an object of {size}")));
            }
            if length == 0 {
                return Ok(Bytes::new());
            }
            let bytes = self.bytes(offset, length).await;
            let bytes = bytes.map_err(|error| error.about(&self.bucket, &self.opened.info.key))?;
            self.client.link.direct.read_bytes.fetch_add(length, Ordering::Relaxed);
            Ok(bytes)
        })
    }
}

/// Pieces as one: a copy only of a range over several segments, which callers avoid by reading along their borders.
fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    if pieces.len() == 1 {
        return pieces.swap_remove(0);
    }
    let mut whole = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
    whole.freeze()
}
