//! Reading an object that is open: what it lies in stays until the reader is dropped.
//!
//! # Invariants
//! - OS-READER-1: the engine is asked once for each segment that is read from front to back, however small the pieces are: its place is kept until another segment is
//!   read. `a_segment_is_looked_up_once`.
//! - OS-READER-2: whoever goes on to a second segment gets the places of the next ones, too, and asks once for [`AHEAD`] of them; at most as many files are
//!   held. `whoever_reads_on_asks_once_for_several_segments`.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use shingle_buckets::Client;
use shingle_store_api::{ObjectInfo, ObjectReader, StoreFuture, StoreResult};

use crate::client::direct::{Opened, Source};
use crate::engine::Core;
use crate::engine::reading::{Located, SegmentRange, ranges};
use crate::errors::{for_client, invalid, unavailable};
use crate::files::pins::Release;
use crate::format::BlobRef;

/// Segments that are looked for at once.
const AHEAD: usize = 4;

/// An object open for reading.
pub(crate) struct Reader {
    client: Client<Core>,
    bucket: String,
    opened: Opened,
    /// The segment that was read last, and those found behind it.
    found: Mutex<VecDeque<Arc<Located>>>,
}

impl Reader {
    pub(crate) fn new(client: Client<Core>, bucket: String, opened: Opened) -> Self {
        Self { client, bucket, opened, found: Mutex::default() }
    }

    async fn bytes(&self, offset: u64, length: u64) -> StoreResult<Bytes> {
        match &self.opened.source {
            // Straight to the drive: the pinned file keeps its chunk.
            Source::Whole { client, chunk, offset: at, .. } => {
                client.read_here(*chunk, at + offset, length).await.map_err(for_client)
            }
            Source::Blobs(blobs) => {
                let (mut pieces, mut at) = (Vec::new(), offset);
                for range in ranges(blobs, offset, length) {
                    pieces.push(self.locate(blobs, at, range).await?.read(&range).await?);
                    at += range.length();
                }
                Ok(joined(pieces))
            }
        }
    }

    /// The place of the segment of a range that begins at byte `at` of the object.
    async fn locate(&self, blobs: &[BlobRef], at: u64, range: SegmentRange) -> StoreResult<Arc<Located>> {
        let reads_on = {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(place) = found.iter().position(|segment| segment.holds(&range)) {
                found.drain(..place);
            }
            if let Some(segment) = found.front().filter(|segment| segment.holds(&range)) {
                return Ok(segment.clone());
            }
            let before = at.checked_sub(1).and_then(|before| ranges(blobs, before, 1).pop());
            before.is_some_and(|before| found.back().is_some_and(|last| last.is_of(&before)))
        };
        let mut want = vec![range];
        if reads_on {
            let longest = blobs.iter().map(|blob| u64::from(blob.segment_bytes)).max().unwrap_or(0);
            let behind = ranges(blobs, at + range.length(), AHEAD as u64 * longest);
            want.extend(behind.into_iter().filter(|behind| !behind.is_beside(&range)).take(AHEAD - 1));
        }
        let releases = self.client.link.releases.clone();
        let locate = move |core: Rc<Core>| async move { core.locate(want, releases).await };
        let located: VecDeque<_> = self.client.door.ask(locate).await?.into_iter().map(Arc::new).collect();
        let first = located.front().cloned().ok_or_else(|| unavailable("a segment was not looked for"))?;
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = located;
        Ok(first)
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
