//! The store as front ends see it: calls from any thread, over bounded queues to the owner's.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{Either, select};

use shingle_buckets::{Buckets, Client, Desks, Door, Entrance};
use shingle_runtime::memory::Memory;
use shingle_runtime::owner::Gone;
use shingle_store_api::{ObjectStore, StoreResult, forward};
use tokio::sync::mpsc;

use shingle_array_store::{self as array, CheckReport, Condition as ArrayCondition, Inspection, ScrubReport};

use crate::engine::Core;
use crate::errors::{STOPPED, from_array, gone};
use crate::notices::Notice;
use crate::options::{ArrayFigures, Options};
use crate::places::Places;

/// All that readers and writers share.
#[derive(Clone)]
pub(crate) struct Link {
    /// Never waits, so that dropping a reader or writer never does.
    pub(crate) notices: mpsc::UnboundedSender<Notice>,
    pub(crate) buckets: Buckets,
    /// Large objects that may be written at a time.
    pub(crate) places: Arc<Places>,
    pub(crate) whole_bytes_max: usize,
    pub(crate) memory: Arc<Memory>,
}

/// A store on an array, from any thread. Cheap to clone. An owner that is behind slows its callers.
#[derive(Clone)]
pub struct ArrayClient(Client<Core>);

impl ArrayClient {
    pub(crate) fn new(
        desks: Desks<Core>,
        notices: mpsc::UnboundedSender<Notice>,
        buckets: Buckets,
        places: Arc<Places>,
        options: &Options,
    ) -> Self {
        let (whole_bytes_max, memory) = (options.whole_bytes_max, options.memory.clone());
        let link = Link { notices, buckets, places, whole_bytes_max, memory };
        Self(Client { door: Entrance::new(desks, STOPPED), link })
    }

    /// Fill level and counters of the array.
    ///
    /// # Errors
    /// `Unavailable` if the array has stopped.
    pub async fn figures(&self) -> StoreResult<ArrayFigures> {
        self.0.door.read(|core| async move { core.figures() }).await
    }

    /// State of the array: its drives, a running rebuild, and with `sets` the losses that it can still take.
    ///
    /// # Errors
    /// `Unavailable` if the array has stopped.
    pub async fn condition(&self, sets: bool) -> StoreResult<ArrayCondition> {
        self.0.door.read(move |core| async move { core.condition(sets) }).await
    }

    /// Identity of the array, and its drives now.
    ///
    /// # Errors
    /// `Unavailable` if the array has stopped.
    pub async fn inspection(&self) -> StoreResult<Inspection> {
        self.0.door.read(|core| async move { core.store.inspection().map_err(from_array) }).await
    }

    /// Objects of the array itself, by the names that they have there: as [`array::ArrayStore::list`].
    ///
    /// # Errors
    /// `Unavailable` if the array has stopped.
    pub async fn array_objects(
        &self,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> StoreResult<Vec<array::Object>> {
        let list =
            move |core: Rc<Core>| async move { core.store.list(&prefix, after.as_deref(), limit).map_err(from_array) };
        self.0.door.ask(list).await
    }

    /// One of them: as [`array::ArrayStore::head`], with its errors.
    ///
    /// # Errors
    /// `Unavailable` if the array has stopped.
    pub async fn array_object(&self, name: Vec<u8>) -> StoreResult<array::Result<array::Object>> {
        self.0.door.read(|core| async move { Ok(core.store.head(&name)) }).await
    }

    /// Checks the array beside its users: as [`array::ArrayStore::check_gently`]. It ends when its caller goes away, or the array is
    /// closed.
    ///
    /// # Errors
    /// `Unavailable` if the array has stopped, or is closed meanwhile; `Device`. Damage is in the report.
    pub async fn check_gently(
        &self,
        quick: bool,
        progress: impl FnMut(&ScrubReport) + Send + 'static,
    ) -> StoreResult<CheckReport> {
        let check = move |core: Rc<Core>| async move {
            let checking = pin!(core.store.check_gently(quick, progress));
            match select(checking, pin!(core.closing.wanted())).await {
                Either::Left((report, _)) => report.map_err(from_array),
                Either::Right(_) => Err(gone(Gone)),
            }
        };
        self.0.door.ask(check).await
    }

    /// Stops the store once all calls so far have been answered; [`crate::ArrayEngine::closed`] then completes.
    pub async fn close(&self) {
        let close = |core: Rc<Core>| async move {
            core.closing.begin();
            Ok(())
        };
        // An error means that it has stopped already.
        let _ = self.0.door.read(close).await;
    }
}

impl ObjectStore for ArrayClient {
    forward!(by_reference |this| &this.0; all);
}

/// Front ends hold the store as a trait object.
impl From<ArrayClient> for Arc<dyn ObjectStore> {
    fn from(client: ArrayClient) -> Self {
        Arc::new(client)
    }
}
