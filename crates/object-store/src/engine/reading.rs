//! Reading objects: a reader holds what it reads from, whatever happens to the object meanwhile.

use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use shingle_chunk_store::{ChunkClient, ChunkId};
use shingle_store_api::{ObjectInfo, StoreError, StoreErrorKind, StoreResult};

use crate::engine::objects::sizes_of;
use crate::engine::{Core, object_info};
use crate::errors::{from_chunk, from_record};
use crate::format::{BlobRef, ChunkName};
use crate::index::Space;
use crate::keys;
use crate::records::Location;

/// An object opened for reading.
pub(crate) struct Opened {
    pub(crate) info: ObjectInfo,
    pub(crate) source: Source,
}

/// Where a reader finds the bytes.
#[derive(Clone)]
pub(crate) enum Source {
    /// In one place: `file` is pinned.
    Whole { file: u64, client: ChunkClient, chunk: ChunkId, offset: u64 },
    /// In segments: the blobs are pinned.
    Blobs(Arc<[BlobRef]>),
}

impl Core {
    /// Opens the present version, and pins what it lies in.
    pub(crate) async fn open_object(&self, bucket: &str, key: &str) -> StoreResult<Opened> {
        loop {
            self.working()?;
            self.require_bucket(bucket)?;
            let (item, record) = self.find(bucket, key).await?.ok_or_else(|| StoreError::no_key(bucket, key))?;
            if !record.large {
                let Some((client, chunk)) = self.pin(item.location.file, item.location.ordinal)? else { continue };
                let offset = item.location.offset + u64::from(item.location.head);
                let source = Source::Whole { file: item.location.file, client, chunk, offset };
                let info = object_info(key, item.version, record.size, record.attributes, Vec::new());
                self.stats.borrow_mut().opens += 1;
                return Ok(Opened { info, source });
            }
            let Some(manifest) = self.manifest(item.version).await? else { continue };
            let blobs: Arc<[BlobRef]> = manifest.blobs.iter().copied().collect();
            self.pin_blobs(&blobs);
            // Pinned too late if the version was replaced meanwhile and its segments are being forgotten.
            let present = self.find(bucket, key).await;
            if !present.as_ref().is_ok_and(|found| found.as_ref().is_some_and(|(now, _)| now.version == item.version)) {
                self.release(crate::engine::purge::Release::Blobs(blobs.iter().map(|blob| blob.blob).collect()));
                present?;
                continue;
            }
            let info = object_info(key, item.version, record.size, record.attributes, sizes_of(&manifest));
            self.stats.borrow_mut().opens += 1;
            return Ok(Opened { info, source: Source::Blobs(blobs) });
        }
    }

    fn pin_blobs(&self, blobs: &[BlobRef]) {
        let mut pins = self.blob_pins.borrow_mut();
        for blob in blobs {
            *pins.entry(blob.blob).or_default() += 1;
        }
    }

    /// Pins a file and says how to read its chunk; none if the file has just gone, and what was in it has moved.
    ///
    /// # Errors
    /// `Device` if its drive is missing.
    fn pin(&self, number: u64, ordinal: u32) -> StoreResult<Option<(ChunkClient, ChunkId)>> {
        let mut files = self.files.borrow_mut();
        if !files.pin(number) {
            return Ok(None);
        }
        let Some(file) = files.get(number) else { return Ok(None) };
        let Some(drive) = file.drive else {
            let store = file.record.store;
            files.unpin(number);
            return Err(StoreError::new(StoreErrorKind::Device, format!("drive {store:016x} is missing")));
        };
        let name = ChunkName { file: number, ordinal, stream: file.stream, set: self.set };
        Ok(Some((self.drives.borrow()[drive].client.clone(), name.id())))
    }

    /// Reads bytes of an entry's data, wherever GC has taken it meanwhile.
    async fn read_segment(&self, blob: u64, index: u32, offset: u64, length: u64) -> StoreResult<Bytes> {
        loop {
            self.working()?;
            let key = keys::segment(blob, index);
            let found = self.read(move |view| view.get(Space::Segments, &key)).await?;
            let Some(bytes) = found else {
                let message = format!("segment {index} of blob {blob} is lost");
                return Err(StoreError::new(StoreErrorKind::Corrupt, message));
            };
            let location = Location::decode(&bytes).map_err(from_record)?;
            if offset + length > u64::from(location.data) {
                let message = format!("segment {index} of blob {blob} is shorter than its object says");
                return Err(StoreError::new(StoreErrorKind::Corrupt, message));
            }
            let Some((client, chunk)) = self.pin(location.file, location.ordinal)? else {
                // What pointed there has moved, or will have as soon as GC's changes are in the index.
                self.runtime.yield_now().await;
                continue;
            };
            let data = client.read(chunk, location.offset + u64::from(location.head) + offset, length).await;
            self.release(crate::engine::purge::Release::File(location.file));
            self.stats.borrow_mut().read_bytes += length;
            return data.map_err(from_chunk);
        }
    }

    /// Reads `length` bytes from `offset` of a large object.
    pub(crate) async fn read_blobs(
        self: &Rc<Self>,
        blobs: &[BlobRef],
        mut offset: u64,
        length: u64,
    ) -> StoreResult<Bytes> {
        let mut pieces = Vec::new();
        let mut left = length;
        for blob in blobs {
            if left == 0 {
                break;
            }
            if offset >= blob.size {
                offset -= blob.size;
                continue;
            }
            let segment_bytes = u64::from(blob.segment_bytes);
            while left > 0 && offset < blob.size {
                let index = offset / segment_bytes;
                let end = ((index + 1) * segment_bytes).min(blob.size);
                let take = left.min(end - offset);
                pieces.push(self.read_segment(blob.blob, index as u32, offset - index * segment_bytes, take).await?);
                offset += take;
                left -= take;
            }
            offset = 0;
        }
        if pieces.len() == 1 {
            return Ok(pieces.swap_remove(0));
        }
        // The only copy: a range over several segments, which callers avoid by reading along their borders.
        let mut whole = BytesMut::with_capacity(length as usize);
        pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
        Ok(whole.freeze())
    }
}
