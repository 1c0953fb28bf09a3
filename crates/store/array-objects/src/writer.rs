//! Writing an object or part: gathered while it is small, handed on piece by piece once it is not.

use std::mem;
use std::rc::Rc;

use bytes::Bytes;
use shingle_buckets::{Body, Client, Door};
use shingle_runtime::memory::Reservation;
use shingle_store_api::{StoreResult, UploadId};

use crate::engine::Core;
use crate::engine::objects::Written;
use crate::notices::{Notice, Open};

/// Bytes of an object or part being written.
pub(crate) struct Gathering {
    /// The part it is, by upload and number.
    part: Option<(UploadId, u32)>,
    /// Its bytes, where its writer knows.
    length: Option<u64>,
    /// Bytes not yet handed on.
    gathered: Vec<Bytes>,
    gathered_bytes: usize,
    /// Memory for `gathered`, once there is something.
    memory: Option<Reservation>,
    blob: Option<Open>,
}

impl Gathering {
    pub(crate) fn new(part: Option<(UploadId, u32)>) -> Self {
        Self { part, length: None, gathered: Vec::new(), gathered_bytes: 0, memory: None, blob: None }
    }

    /// Hands on what was gathered; begins the blob if need be, once there is a place for it.
    async fn hand_on(&mut self, client: &Client<Core>) -> StoreResult<()> {
        let blob = match &mut self.blob {
            Some(blob) => blob,
            None => {
                let place = client.link.places.take().await?;
                let (notices, part, length) = (client.link.notices.clone(), self.part, self.length);
                let begin = move |core: Rc<Core>| async move {
                    let number = core.begin_blob(part, length)?;
                    // Made here, so that it is let go even if the caller has gone away.
                    Ok(Open::new(number, notices, place))
                };
                self.blob.insert(client.door.write(begin).await?)
            }
        };
        let number = blob.number;
        let pieces = mem::take(&mut self.gathered);
        self.gathered_bytes = 0;
        if !pieces.is_empty() {
            // The call's wait in the queue is not the client's time. The call itself reports an owner that is gone.
            let _ = client.link.notices.send(Notice::BytesCame { writer: number, call: blob.calls });
            blob.calls += 1;
            client.door.write(move |core: Rc<Core>| async move { core.write_blob(number, pieces).await }).await?;
        }
        Ok(())
    }
}

impl Body<Core> for Gathering {
    fn expect(&mut self, _client: &Client<Core>, length: u64) {
        self.length = Some(length);
    }

    async fn append(&mut self, client: &Client<Core>, data: Bytes) -> StoreResult<()> {
        self.gathered_bytes += data.len();
        self.gathered.push(data);
        let (whole, length) = (client.link.whole_bytes_max, self.length);
        let wanted = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(usize::MAX).min(whole);
        let memory = self.memory.get_or_insert_with(|| client.link.memory.take(wanted));
        // Held whole only where there is memory for all of it.
        if self.blob.is_some() || self.gathered_bytes > memory.bytes() {
            self.hand_on(client).await?;
        }
        Ok(())
    }

    async fn finish(mut self, client: &Client<Core>) -> StoreResult<Written> {
        // A part is a blob whatever its size: it is named by the object it will belong to.
        if self.blob.is_some() || self.part.is_some() {
            self.hand_on(client).await?;
        }
        Ok(match self.blob {
            Some(blob) => Written::Blob(blob),
            None => Written::Whole(self.gathered, self.memory),
        })
    }
}
