//! Reading an object that is open: its bytes stay until the reader is dropped.

use std::sync::Arc;

use bytes::Bytes;
use shingle_buckets::Client;
use shingle_store_api::{ObjectInfo, ObjectReader, StoreFuture};

use crate::engine::Core;
use crate::errors::invalid;
use crate::layout::Layout;
use crate::notices::Open;

/// An object open for reading.
pub(crate) struct Reader {
    client: Client<Core>,
    bucket: String,
    info: ObjectInfo,
    layout: Arc<Layout>,
    /// `None` if it has no bytes.
    _open: Option<Open>,
}

impl Reader {
    pub(crate) fn new(
        client: Client<Core>,
        bucket: String,
        info: ObjectInfo,
        layout: Arc<Layout>,
        open: Option<Open>,
    ) -> Self {
        Self { client, bucket, info, layout, _open: open }
    }
}

impl ObjectReader for Reader {
    fn info(&self) -> &ObjectInfo {
        &self.info
    }

    fn read(&self, offset: u64, length: u64) -> StoreFuture<'_, Bytes> {
        let (layout, size) = (self.layout.clone(), self.info.size);
        Box::pin(async move {
            if offset.checked_add(length).is_none_or(|end| end > size) {
                return Err(invalid(format!("{length} bytes from {offset} are not inside an object of {size}")));
            }
            if length == 0 {
                return Ok(Bytes::new());
            }
            let read = self.client.door.ask(move |core| async move { core.read(&layout, offset, length).await }).await;
            read.map_err(|error| error.about(&self.bucket, &self.info.key))
        })
    }
}
