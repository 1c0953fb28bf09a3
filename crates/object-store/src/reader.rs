//! Reading an object that is open: what it lies in stays until the reader is dropped.

use bytes::Bytes;
use shingle_store_api::{ObjectInfo, ObjectReader, StoreFuture};

use crate::engine::Opened;
use crate::engine::purge::Release;
use crate::engine::reading::Source;
use crate::engine::run::Entrance;
use crate::errors::{from_chunk, invalid};

/// An object open for reading.
pub(crate) struct Reader {
    entrance: Entrance,
    opened: Opened,
}

impl Reader {
    pub(crate) fn new(entrance: Entrance, opened: Opened) -> Self {
        Self { entrance, opened }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let release = match &self.opened.source {
            Source::Whole { file, .. } => Release::File(*file),
            Source::Blobs(blobs) => Release::Blobs(blobs.iter().map(|blob| blob.blob).collect()),
        };
        // The engine may have stopped; then nothing is pinned.
        let _ = self.entrance.releases.send(release);
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
            match &self.opened.source {
                // Straight to the drive: the pinned file keeps its chunk.
                Source::Whole { client, chunk, offset: at, .. } => {
                    client.read(*chunk, at + offset, length).await.map_err(from_chunk)
                }
                Source::Blobs(blobs) => {
                    let blobs = blobs.clone();
                    self.entrance.read(move |core| async move { core.read_blobs(&blobs, offset, length).await }).await
                }
            }
        })
    }
}
