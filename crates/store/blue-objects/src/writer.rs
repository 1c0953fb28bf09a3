//! Writing an object or part: gathered while it is small, handed on segment by segment once it is not.

use std::mem;
use std::rc::Rc;

use bytes::Bytes;
use shingle_buckets::{Body, Client, Door};
use shingle_runtime::memory::Reservation;
use shingle_store_api::StoreResult;

use crate::engine::Core;
use crate::engine::streams::Written;
use crate::notices::Open;

/// Bytes of an object or part being written.
#[derive(Default)]
pub(crate) struct Gathering {
    /// Its bytes, where its writer knows.
    length: Option<u64>,
    /// Bytes not yet handed on.
    gathered: Vec<Bytes>,
    gathered_bytes: usize,
    /// Memory for `gathered`, once there is something.
    memory: Option<Reservation>,
    /// Bytes that were handed on.
    open: Option<Open>,
}

impl Gathering {
    /// The most bytes that are gathered for one segment.
    fn most(&mut self, client: &Client<Core>) -> usize {
        let segment = client.link.segment_bytes;
        let known = self.length.and_then(|length| usize::try_from(length).ok());
        let memory = self.memory.get_or_insert_with(|| client.link.memory.take(known.unwrap_or(segment).min(segment)));
        memory.bytes().min(segment)
    }

    /// Hands on what was gathered, with its memory.
    async fn hand_on(&mut self, client: &Client<Core>) -> StoreResult<()> {
        let (pieces, memory) = (mem::take(&mut self.gathered), self.memory.take());
        self.gathered_bytes = 0;
        match &self.open {
            Some(open) => {
                let number = open.number;
                client
                    .door
                    .write(move |core: Rc<Core>| async move { core.write_on(number, pieces, memory).await })
                    .await
            }
            None => {
                let notices = client.link.notices.clone();
                // The guard is made there, so that what was begun is let go even if the caller has gone away.
                let begin = move |core: Rc<Core>| async move { core.begin_stream(pieces, memory, notices).await };
                self.open = Some(client.door.write(begin).await?);
                Ok(())
            }
        }
    }
}

impl Body<Core> for Gathering {
    fn expect(&mut self, _client: &Client<Core>, length: u64) {
        self.length = Some(length);
    }

    async fn append(&mut self, client: &Client<Core>, data: Bytes) -> StoreResult<()> {
        // A whole body of one segment stays here until its commit.
        if self.gathered_bytes > 0 && self.gathered_bytes + data.len() > self.most(client) {
            self.hand_on(client).await?;
        }
        let most = self.most(client);
        self.gathered_bytes += data.len();
        self.gathered.push(data);
        if self.gathered_bytes > most {
            self.hand_on(client).await?;
        }
        Ok(())
    }

    async fn finish(self, _client: &Client<Core>) -> StoreResult<Written> {
        Ok(Written { open: self.open, pieces: self.gathered, _memory: self.memory })
    }
}
