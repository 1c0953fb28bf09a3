//! The store as front ends see it: calls from any thread, over bounded queues to the owner's.

use std::sync::Arc;

use shingle_buckets::{Buckets, Client, Desks, Door, Entrance};
use shingle_runtime::memory::Memory;
use shingle_store_api::{ObjectStore, StoreResult, forward};
use tokio::sync::mpsc;

use crate::engine::Core;
use crate::errors::STOPPED;
use crate::notices::Notice;
use crate::options::{BlueFigures, Options};

/// All that readers and writers share.
#[derive(Clone)]
pub(crate) struct Link {
    /// Never waits, so that dropping a reader or writer never does.
    pub(crate) notices: mpsc::UnboundedSender<Notice>,
    pub(crate) buckets: Buckets,
    pub(crate) segment_bytes: usize,
    pub(crate) memory: Arc<Memory>,
}

/// Buckets on a blue store, from any thread. Cheap to clone. An owner that is behind slows its callers.
#[derive(Clone)]
pub struct BlueClient(Client<Core>);

impl BlueClient {
    pub(crate) fn new(
        desks: Desks<Core>,
        notices: mpsc::UnboundedSender<Notice>,
        buckets: Buckets,
        options: &Options,
    ) -> Self {
        let (segment_bytes, memory) = (options.segment_bytes.max(1), options.memory.clone());
        let link = Link { notices, buckets, segment_bytes, memory };
        Self(Client { door: Entrance::new(desks, STOPPED), link })
    }

    /// Fill level and counters of the store.
    ///
    /// # Errors
    /// `Unavailable` if the store has stopped.
    pub async fn figures(&self) -> StoreResult<BlueFigures> {
        self.0.door.read(|core| async move { Ok(core.figures()) }).await
    }

    /// Stops the store once all calls so far have been answered; [`crate::BlueEngine::closed`] then completes.
    pub async fn close(&self) {
        let close = |core: std::rc::Rc<Core>| async move {
            core.closing.begin();
            Ok(())
        };
        // An error means that it has stopped already.
        let _ = self.0.door.read(close).await;
    }
}

impl ObjectStore for BlueClient {
    forward!(by_reference |this| &this.0; all);
}

/// Front ends hold the store as a trait object.
impl From<BlueClient> for Arc<dyn ObjectStore> {
    fn from(client: BlueClient) -> Self {
        Arc::new(client)
    }
}
