//! Reading objects: what a reader has open stays, whatever happens to the object meanwhile.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use shingle_array_store::{ErrorKind, Reader};
use shingle_store_api::{ObjectInfo, StoreError, StoreErrorKind, StoreResult};

use super::readers::Source;
use super::{Core, object_info};
use crate::errors::{from_array, gone};
use crate::names::{self, Blob};

/// Blobs of one reader that are kept open: the one being read, and the one before it, whose end may still be asked for.
const KEPT: usize = 2;

impl Core {
    /// Opens the present version of an object: a number for it, and what is known of it.
    pub(crate) fn open_object(&self, bucket: &str, key: &str) -> StoreResult<(u64, ObjectInfo)> {
        self.names.require(bucket)?;
        let (object, record) = self.find_object(bucket, key)?.ok_or_else(|| StoreError::no_key(bucket, key))?;
        let source = match &record.manifest {
            None => Source::Whole(self.store.open_object(names::object(bucket, key)).map_err(from_array)?),
            Some(manifest) => {
                // At once: nothing can have condemned them, since nobody else ran since the record was found.
                self.purge.pin(manifest.blobs());
                let ends = manifest.blobs.iter().scan(0u64, |end, (_, _, size)| {
                    *end += size;
                    Some(*end)
                });
                Source::Blobs { ends: ends.collect(), manifest: manifest.clone(), open: RefCell::default() }
            }
        };
        let number = self.next_number();
        self.readers.insert(number, source);
        Ok((number, object_info(key, &object, record)))
    }

    /// Reads `length` bytes from `offset`, which are in the object.
    pub(crate) async fn read(&self, number: u64, mut offset: u64, length: u64) -> StoreResult<Bytes> {
        let open = self.readers.get(number);
        let open = open.ok_or_else(|| gone(shingle_runtime::owner::Gone))?;
        let mut pieces = Vec::new();
        let mut left = length;
        while left > 0 {
            let piece = match &open.source {
                Source::Whole(reader) => reader.read(offset, left).await,
                Source::Blobs { manifest, ends, .. } => {
                    let at = ends.partition_point(|end| *end <= offset);
                    let Some((_, _, size)) = manifest.blobs.get(at) else {
                        return Err(crate::errors::invalid(format!("offset {offset} is not in the object")));
                    };
                    let start = ends.get(at).copied().unwrap_or(0) - size;
                    let reader = self.blob_reader(&open.source, at)?;
                    if reader.object().size != *size {
                        let (part, has) = (at + 1, reader.object().size);
                        let message = format!("its part {part} has {has} bytes, not the {size} that it had");
                        return Err(StoreError::new(StoreErrorKind::Corrupt, message));
                    }
                    reader.read(offset - start, left).await
                }
            };
            let piece = piece.map_err(from_array)?;
            if piece.is_empty() {
                return Err(StoreError::new(StoreErrorKind::Corrupt, format!("no bytes are at offset {offset}")));
            }
            offset += piece.len() as u64;
            left = left.saturating_sub(piece.len() as u64);
            pieces.push(piece);
        }
        if pieces.len() == 1 {
            return Ok(pieces.swap_remove(0));
        }
        // The only copy: a range over several segments.
        let mut whole = BytesMut::with_capacity(length as usize);
        pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
        Ok(whole.freeze())
    }

    /// The reader of the blob of number `at`.
    fn blob_reader(&self, source: &Source, at: usize) -> StoreResult<Rc<Reader>> {
        let Source::Blobs { manifest, open, .. } = source else { return Err(gone(shingle_runtime::owner::Gone)) };
        let found = open.borrow().iter().find(|(number, _)| *number == at).map(|(_, reader)| reader.clone());
        if let Some(reader) = found {
            return Ok(reader);
        }
        let blob = manifest.blobs.get(at).map(|&(number, tag, _)| Blob { owner: manifest.owner, number, tag });
        let blob = blob.ok_or_else(|| gone(shingle_runtime::owner::Gone))?;
        let opened = self.store.open_object(blob.name()).map_err(|error| match error.kind {
            ErrorKind::NotFound => {
                StoreError::new(StoreErrorKind::Corrupt, format!("the bytes of its part {} are not there", at + 1))
            }
            _ => from_array(error),
        });
        let reader = Rc::new(opened?);
        let mut open = open.borrow_mut();
        while open.len() >= KEPT {
            open.pop_front();
        }
        open.push_back((at, reader.clone()));
        Ok(reader)
    }

    /// Lets go of what a reader has open.
    pub(crate) fn close_reader(&self, number: u64) {
        let open = self.readers.remove(number);
        if let Some(Source::Blobs { manifest, .. }) = open.as_deref().map(|open| &open.source) {
            self.purge.unpin(manifest.blobs());
        }
    }

    pub(super) fn close_readers(&self) {
        self.readers.all().into_iter().for_each(|number| self.close_reader(number));
    }
}
