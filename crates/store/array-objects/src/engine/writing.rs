//! Blobs being written: the array's side of a writer that is somewhere else.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use shingle_array_store::PutHints;
use shingle_store_api::{StoreResult, UploadId};
use tokio::sync::Mutex;

use super::Core;
use super::writers::OpenBlob;
use crate::errors::{from_array, gone, invalid};
use crate::names::Blob;

impl Core {
    /// Begins a blob: `part` of an upload, or the bytes of an object; of `length` bytes, where that is known.
    pub(crate) fn begin_blob(&self, part: Option<(UploadId, u32)>, length: Option<u64>) -> StoreResult<u64> {
        let (owner, number) = match part {
            Some((upload, number)) => {
                (upload.0, u16::try_from(number).map_err(|_| invalid("a part's number is too large"))?)
            }
            None => (self.fresh()?, 0),
        };
        let blob = Blob { owner, number, tag: self.fresh()? };
        // Parts of an upload end together.
        let hints = PutHints { length, group: part.map(|(upload, _)| upload.0) };
        let put = self.store.begin_put_with(blob.name(), hints).map_err(from_array)?;
        let writer = self.next_number();
        let open = OpenBlob {
            blob,
            put: Mutex::new(Some(put)),
            bytes: Cell::default(),
            calls: Cell::default(),
            idle: Cell::default(),
            since: Cell::new(self.rt.now()),
            came: Cell::default(),
        };
        self.writers.insert(writer, open);
        Ok(writer)
    }

    fn open(&self, writer: u64) -> StoreResult<Rc<OpenBlob>> {
        self.writers.get(writer).ok_or_else(|| gone(shingle_runtime::owner::Gone))
    }

    /// Bytes for a writer's call have come: from here on they are not waited for.
    pub(crate) fn bytes_came(&self, writer: u64, call: u64) {
        // A call that found no queue is there first.
        if let Ok(open) = self.open(writer)
            && open.calls.get() == call
        {
            open.came.set(Some(self.rt.now()));
        }
    }

    pub(crate) async fn write_blob(&self, writer: u64, pieces: Vec<Bytes>) -> StoreResult<()> {
        let open = self.open(writer)?;
        let mut put = open.put.lock().await;
        let Some(put) = put.as_mut() else { return Err(gone(shingle_runtime::owner::Gone)) };
        let came = open.came.take().unwrap_or_else(|| self.rt.now());
        open.calls.set(open.calls.get() + 1);
        open.idle.set(open.idle.get() + came.since(open.since.get()));
        open.bytes.set(open.bytes.get() + pieces.iter().map(|piece| piece.len() as u64).sum::<u64>());
        self.places.may_go_on(open.bytes.get(), open.idle.get())?;
        for piece in pieces {
            put.write(piece).await.map_err(from_array)?;
        }
        open.since.set(self.rt.now());
        Ok(())
    }

    /// Makes a blob durable. Its name, size and version.
    pub(super) async fn finish_blob(&self, writer: u64, attributes: Bytes) -> StoreResult<(Blob, u64, u64)> {
        let open = self.open(writer)?;
        self.writers.drop(writer);
        let put = open.put.lock().await.take();
        let Some(put) = put else { return Err(gone(shingle_runtime::owner::Gone)) };
        match put.finish(attributes).await {
            Ok(stored) => Ok((open.blob, stored.size, stored.version.0)),
            Err(error) => {
                // Nothing will ever name it. Of one that is not there nothing has to be deleted.
                if !self.store.unsure(&open.blob.name()).is_empty() {
                    self.condemn(std::iter::once(open.blob));
                }
                Err(from_array(error))
            }
        }
    }
}
