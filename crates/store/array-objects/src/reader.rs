//! Reading an object that is open: it stays so until the reader is dropped.

use bytes::Bytes;
use shingle_buckets::Client;
use shingle_store_api::{ObjectInfo, ObjectReader, StoreFuture};

use crate::engine::Core;
use crate::errors::invalid;
use crate::notices::Notice;

/// An object open for reading, by the number that its owner knows it by.
pub(crate) struct Reader {
    client: Client<Core>,
    number: u64,
    bucket: String,
    info: ObjectInfo,
}

impl Reader {
    pub(crate) fn new(client: Client<Core>, number: u64, bucket: String, info: ObjectInfo) -> Self {
        Self { client, number, bucket, info }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // The owner may be gone; then nothing is open.
        let _ = self.client.link.notices.send(Notice::ReaderGone(self.number));
    }
}

impl ObjectReader for Reader {
    fn info(&self) -> &ObjectInfo {
        &self.info
    }

    fn read(&self, offset: u64, length: u64) -> StoreFuture<'_, Bytes> {
        let (number, size) = (self.number, self.info.size);
        Box::pin(async move {
            if offset.checked_add(length).is_none_or(|end| end > size) {
                return Err(invalid(format!("{length} bytes from {offset} are not inside an object of {size}")));
            }
            if length == 0 {
                return Ok(Bytes::new());
            }
            let read = self.client.door.ask(move |core| async move { core.read(number, offset, length).await }).await;
            read.map_err(|error| error.about(&self.bucket, &self.info.key))
        })
    }
}
