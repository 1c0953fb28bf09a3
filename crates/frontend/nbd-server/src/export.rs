//! Exports: a store behind the desk of its owner, and the answers that come back from there.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use shingle_runtime::owner::{Desk, Gone};
use shingle_store_api::BlockStore;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;

use crate::edges::Edges;
use crate::execute::execute;
use crate::face::{About, Face};
use crate::failure::Failure;
use crate::metrics::NbdMetrics;
use crate::recording::{Noted, Notes, Recording};
use crate::reply::Outcome;
use crate::request::{Order, Request};
use crate::wire::STRING_BYTES_MAX;

/// A block store under a name. Clones are the same export.
#[derive(Clone)]
pub struct Export {
    face: Arc<Face>,
    owner: Arc<dyn Owner>,
    notes: Option<Arc<Notes>>,
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Export").field(&self.face).finish()
    }
}

/// The way to the owner of a store.
trait Owner: Send + Sync {
    /// Hands a call to the owner, once there is a place for it. If the owner is gone, the call's answer says so.
    fn begin(&self, call: Call) -> BoxFuture<'_, ()>;
}

/// An order with its data, and the way back.
pub(crate) struct Call {
    pub(crate) order: Order,
    pub(crate) data: Vec<Bytes>,
    pub(crate) answer: Answer,
}

struct OfDesk<C, F> {
    desk: Desk<C>,
    store: F,
    edges: Arc<Edges>,
}

impl<C: 'static, F> Owner for OfDesk<C, F>
where
    F: Fn(&C) -> &dyn BlockStore,
    F: Clone + Send + Sync + 'static,
{
    fn begin(&self, call: Call) -> BoxFuture<'_, ()> {
        let (store, edges) = (self.store.clone(), self.edges.clone());
        let work = move |core: std::rc::Rc<C>| async move {
            let Call { order, data, answer } = call;
            answer.give(execute(store(&core), &edges, order, data).await);
        };
        // The answer comes by its own way, also if the call is dropped (NBD-ACK-1).
        self.desk.begin(work).map(drop).boxed()
    }
}

impl Export {
    /// The export of the store that `store` finds with the owner behind `desk`.
    ///
    /// A store has one export for all its writers: only those of one export are kept from undoing each other's parts of sectors.
    ///
    /// # Errors
    /// `NotConnected` if the owner is gone, `InvalidInput` for a name that is too long or sectors that the protocol does not have.
    pub async fn of<C: 'static, F>(desk: Desk<C>, store: F, about: About) -> io::Result<Self>
    where
        F: Fn(&C) -> &dyn BlockStore,
        F: Clone + Send + Sync + 'static,
    {
        let invalid = |words: String| io::Error::new(io::ErrorKind::InvalidInput, words);
        if about.name.len().max(about.description.len()) > STRING_BYTES_MAX {
            return Err(invalid(format!("a name or description has at most {STRING_BYTES_MAX} bytes")));
        }
        let find = store.clone();
        let sizes = desk.call(move |core| async move { (find(&core).size_bytes(), find(&core).sector_bytes()) });
        let gone = |gone: Gone| io::Error::new(io::ErrorKind::NotConnected, gone);
        let (size_bytes, sector) = sizes.await.map_err(gone)?;
        let sector_bytes = u32::try_from(sector).ok().filter(|bytes| bytes.is_power_of_two() && *bytes <= 1 << 16);
        let Some(sector_bytes) = sector_bytes.filter(|_| size_bytes.is_multiple_of(sector)) else {
            return Err(invalid(format!("no export has {size_bytes} bytes in sectors of {sector}")));
        };
        let face = Arc::new(Face { about, size_bytes, sector_bytes });
        Ok(Self { face, owner: Arc::new(OfDesk { desk, store, edges: Arc::default() }), notes: None })
    }

    /// The same export, of which the requests from now on are recorded in a new file. The recording ends with what is returned, or when it is
    /// [finished](Recording::finish).
    ///
    /// # Errors
    /// The file is there already, or cannot be made. That it cannot be written, a warning tells later.
    pub fn recorded(self, file: &Path) -> io::Result<(Self, Recording)> {
        let recording = Recording::begin(file, self.name(), self.face.size_bytes)?;
        Ok((Self { notes: Some(recording.notes()), ..self }, recording))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.face.about.name
    }

    pub(crate) fn face(&self) -> &Arc<Face> {
        &self.face
    }

    /// Notes an order that a client gave, if there is a recording.
    pub(crate) fn note(&self, order: Order) -> Option<Noted> {
        self.notes.as_ref()?.came(order)
    }

    pub(crate) async fn begin(&self, call: Call) {
        self.owner.begin(call).await;
    }
}

/// A reply on its way to the client.
pub(crate) struct Reply {
    pub(crate) cookie: u64,
    pub(crate) outcome: Outcome,
    /// Given back once the reply is written.
    pub(crate) held: Held,
}

/// A request's part of its connection's limits. (NBD-SAFE-2)
#[derive(Default)]
pub(crate) struct Held {
    _place: Option<OwnedSemaphorePermit>,
    _room: Option<OwnedSemaphorePermit>,
    _seat: Option<Arc<OwnedSemaphorePermit>>,
}

impl Held {
    /// A place among the requests, room for the bytes, and the connection's seat at the export: requests that hang in a store keep
    /// it, so that a client that comes again and again does not leave more and more of them there.
    pub(crate) fn new(
        place: Option<OwnedSemaphorePermit>,
        room: Option<OwnedSemaphorePermit>,
        seat: Arc<OwnedSemaphorePermit>,
    ) -> Self {
        Self { _place: place, _room: room, _seat: Some(seat) }
    }
}

/// The answer that a request will have, exactly one. (NBD-ACK-1)
pub(crate) struct Answer {
    request: Request,
    replies: UnboundedSender<Reply>,
    /// `None` once it was given.
    held: Option<Held>,
    metrics: Arc<NbdMetrics>,
    began: Instant,
    noted: Option<Noted>,
}

impl Answer {
    pub(crate) fn new(request: Request, replies: UnboundedSender<Reply>, held: Held, metrics: Arc<NbdMetrics>) -> Self {
        metrics.requests_in_flight.fetch_add(1, Relaxed);
        Self { request, replies, held: Some(held), metrics, began: Instant::now(), noted: None }
    }

    /// The same answer, of a request that is in a recording.
    pub(crate) fn noted(mut self, noted: Option<Noted>) -> Self {
        self.noted = noted;
        self
    }

    /// Gives the answer.
    pub(crate) fn give(mut self, outcome: Outcome) {
        self.send(outcome);
    }

    fn send(&mut self, outcome: Outcome) {
        let Some(held) = self.held.take() else { return };
        let Request { kind, cookie, length, .. } = self.request;
        if let Err(failure) = &outcome {
            tracing::debug!(command = kind, errno = failure.errno as u32, "a request failed: {}", failure.message);
        }
        self.metrics.requests_in_flight.fetch_sub(1, Relaxed);
        self.metrics.answered(kind, u64::from(length), outcome.is_ok(), self.began.elapsed());
        // Before the client can know of it.
        if let Some(noted) = self.noted.take() {
            noted.answered();
        }
        // The client may be gone.
        let _ = self.replies.send(Reply { cookie, outcome, held });
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.send(Err(Failure::shutdown()));
    }
}
