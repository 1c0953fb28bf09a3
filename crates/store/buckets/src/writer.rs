//! Writing an object or part, from any thread.

use bytes::Bytes;
use shingle_store_api::{Commit, ObjectInfo, ObjectWriter, StoreFuture};

use crate::calls::{self, Target};
use crate::catalog::{Blobs, Body, Catalog, Client};
use crate::entrance::Door;

/// A writer of an object or part.
pub(crate) struct Writer<C: Blobs> {
    client: Client<C>,
    target: Target,
    body: C::Body,
}

impl<C: Catalog> Writer<C> {
    /// A writer of what the owner has begun.
    pub(crate) fn boxed(client: Client<C>, target: Target, begun: C::Begun) -> Box<dyn ObjectWriter> {
        let body = C::body(&client, target.part, begun);
        Box::new(Self { client, target, body })
    }
}

impl<C: Catalog> ObjectWriter for Writer<C> {
    fn expect(&mut self, length: u64) {
        self.body.expect(&self.client, length);
    }

    fn write(&mut self, data: Bytes) -> StoreFuture<'_, ()> {
        let Self { client, target, body } = self;
        Box::pin(async move { body.append(client, data).await.map_err(|error| target.about(error)) })
    }

    fn commit(self: Box<Self>, commit: Commit) -> StoreFuture<'static, ObjectInfo> {
        let Self { client, target, body } = *self;
        Box::pin(async move {
            let of = target.clone();
            let committed = match body.finish(&client).await {
                Ok(written) => client.door.write(|core| calls::commit(core, target, written, commit)).await,
                Err(error) => Err(error),
            };
            committed.map_err(|error| of.about(error))
        })
    }
}
