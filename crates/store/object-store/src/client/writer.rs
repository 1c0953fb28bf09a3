//! Writing an object or part: a segment is gathered while the one before it is on its way.

use std::mem;
use std::rc::Rc;

use bytes::Bytes;
use shingle_buckets::{Body, Client};
use shingle_runtime::memory::Reservation;
use shingle_store_api::StoreResult;
use tokio::sync::oneshot;

use crate::client::direct::Begun;
use crate::client::{Link, stopped};
use crate::engine::Core;
use crate::engine::objects::Written;
use crate::engine::writers::BlobPin;

/// Bytes of an object or part being written. At most one segment is held beside the one on its way, and no file: a client that
/// stalls costs memory only. If memory is short, segments are small.
pub(crate) struct Gathering {
    begun: Begun,
    /// Segments sent so far.
    segments: u32,
    /// Bytes in all.
    size: u64,
    rest: Vec<Bytes>,
    /// Bytes in `rest`.
    gathered: u64,
    /// Memory for `rest`, once bytes are expected.
    memory: Option<Reservation>,
    under_way: Option<oneshot::Receiver<StoreResult<()>>>,
    pin: BlobPin,
}

impl Gathering {
    pub(crate) fn new(client: &Client<Core>, begun: Begun) -> Self {
        let pin = BlobPin::new(begun.blob, client.link.releases.clone());
        Self { begun, segments: 0, size: 0, rest: Vec::new(), gathered: 0, memory: None, under_way: None, pin }
    }

    /// Takes memory for `length` bytes, or for the segments that they are cut into.
    fn take_memory(&mut self, link: &Link, length: u64) {
        let begun = &mut self.begun;
        let memory = link.memory.take(length.min(u64::from(begun.segment_bytes)) as usize);
        if (memory.bytes() as u64) < length {
            begun.segment_bytes = begun.segment_bytes.min(u32::try_from(memory.bytes()).unwrap_or(u32::MAX));
        }
        self.memory = Some(memory);
    }

    /// Waits for the segment on its way.
    async fn arrive(&mut self) -> StoreResult<()> {
        let Some(under_way) = self.under_way.as_mut() else { return Ok(()) };
        let result = under_way.await.map_err(|_| stopped());
        self.under_way = None;
        result?
    }

    /// Sends the gathered segment off, once the one before it has arrived.
    async fn send_segment(&mut self, client: &Client<Core>) -> StoreResult<()> {
        self.arrive().await?;
        let permit = client.link.share(self.gathered).await?;
        let data = mem::take(&mut self.rest);
        self.gathered = 0;
        let (blob, index) = (self.begun.blob, self.segments);
        let put = move |core: Rc<Core>| async move {
            // The writer may be gone by then; the segment is garbage.
            let result = core.put_segment(blob, index, data).await;
            drop(permit);
            result
        };
        let answer = client.door.writes().begin(put).await.map_err(|gone| client.door.gone(gone))?;
        self.segments += 1;
        self.pin.sent += 1;
        self.under_way = Some(answer);
        Ok(())
    }
}

impl Body<Core> for Gathering {
    fn expect(&mut self, client: &Client<Core>, length: u64) {
        if self.memory.is_none() {
            self.take_memory(&client.link, length);
        }
    }

    async fn append(&mut self, client: &Client<Core>, mut data: Bytes) -> StoreResult<()> {
        if self.memory.is_none() {
            self.take_memory(&client.link, u64::MAX);
        }
        let segment_bytes = u64::from(self.begun.segment_bytes);
        self.size += data.len() as u64;
        while !data.is_empty() {
            // A full segment goes only when more follows: the last one travels with the commit.
            if self.gathered == segment_bytes {
                self.send_segment(client).await?;
            }
            let room = (segment_bytes - self.gathered) as usize;
            let piece = data.split_to(room.min(data.len()));
            self.gathered += piece.len() as u64;
            self.rest.push(piece);
        }
        Ok(())
    }

    async fn finish(mut self, client: &Client<Core>) -> StoreResult<Written> {
        self.arrive().await?;
        let permit = client.link.share(self.gathered).await?;
        let Self { begun, segments, size, rest, memory, pin, .. } = self;
        Ok(Written { begun, segments, rest, size, pin, _budget: (memory, permit) })
    }
}
