//! The server: its exports, accepting connections, and an orderly end.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::connection::Connection;
use crate::export::Export;
use crate::haggle::Cover;
use crate::handshake::{Agreed, handshake};
use crate::limits::Options;
use crate::listener::{Listener, Newcomer, accept_any};
use crate::metrics::NbdMetrics;
use crate::request::Rules;
use crate::tls::{Tls, TlsUse};

/// Pause after the operating system refused a connection (no descriptors left, most often).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server of exports. Clones are the same server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    exports: RwLock<Vec<Offer>>,
    /// Seats of connections, whatever listeners they came by.
    seats: Arc<Semaphore>,
    options: Options,
    metrics: Arc<NbdMetrics>,
}

/// An export, and the seats at it.
#[derive(Clone)]
struct Offer {
    export: Export,
    seats: Arc<Semaphore>,
}

/// Result of serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Connections that had not finished their requests when the grace was over, and were cut.
    pub cut: usize,
}

impl Server {
    /// A server without exports yet.
    pub fn new(options: Options) -> Self {
        let seats = Arc::new(Semaphore::new(options.limits.connections_max.min(Semaphore::MAX_PERMITS)));
        let (exports, metrics) = (RwLock::default(), Arc::default());
        Self { inner: Arc::new(Inner { exports, seats, options, metrics }) }
    }

    /// Counters of this server.
    pub fn metrics(&self) -> Arc<NbdMetrics> {
        self.inner.metrics.clone()
    }

    /// Offers an export, at any time.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one of this name.
    pub fn add(&self, export: Export) -> io::Result<()> {
        let mut exports = self.inner.exports.write().unwrap_or_else(PoisonError::into_inner);
        if exports.iter().any(|offer| offer.export.name() == export.name()) {
            let words = format!("there is an export `{}`", export.name());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, words));
        }
        let seats = self.inner.options.limits.connections_per_export_max.min(Semaphore::MAX_PERMITS);
        exports.push(Offer { export, seats: Arc::new(Semaphore::new(seats)) });
        Ok(())
    }

    /// Withdraws an export: nobody finds it any more. Connections that have it go on until they end, or its owner does; true if
    /// there was one.
    pub fn remove(&self, name: &str) -> bool {
        self.remove_all(|other| other == name) > 0
    }

    /// As [`remove`](Self::remove), for all exports whose name is one of `these`; the number of them.
    pub fn remove_all(&self, these: impl Fn(&str) -> bool) -> usize {
        let mut exports = self.inner.exports.write().unwrap_or_else(PoisonError::into_inner);
        let before = exports.len();
        exports.retain(|offer| !these(offer.export.name()));
        before - exports.len()
    }

    /// Serves connections of `listeners` until `shutdown` completes; then lets requests under way finish, for at most the grace of
    /// [`Limits`](crate::Limits), and returns. Runs on the tokio runtime it is called in, which must have its timer and its network
    /// driver on.
    pub async fn serve(&self, listeners: Vec<Listener>, shutdown: impl Future<Output = ()>) -> Served {
        let limits = &self.inner.options.limits;
        let (stop, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut strangers = Strangers::default();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                Some(ended) = connections.join_next() => {
                    if let Err(lost) = ended
                        && !lost.is_cancelled()
                    {
                        tracing::error!("a connection was lost: {lost}");
                    }
                    continue;
                }
                accepted = accept_any(&listeners) => accepted,
            };
            match accepted {
                Ok(newcomer) => match self.seat(&mut strangers).await {
                    Some(seat) => {
                        let stranger = Arc::new(());
                        let known = Arc::downgrade(&stranger);
                        let serving = self.inner.clone().connection(newcomer, seat, stranger, stopped.clone());
                        strangers.push(known, connections.spawn(serving));
                    }
                    None => {
                        self.inner.metrics.connections_refused.fetch_add(1, Relaxed);
                        tracing::warn!("{} was closed: {} connections are open", newcomer.peer, limits.connections_max);
                    }
                },
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listeners);
        // The receivers are the connections; there may be none.
        let _ = stop.send(true);
        let finish = async { while connections.join_next().await.is_some() {} };
        let in_time = timeout(limits.shutdown_grace, finish).await.is_ok();
        let cut = if in_time { 0 } else { connections.len() };
        connections.shutdown().await;
        Served { cut }
    }

    /// A seat for a newcomer: a free one, or that of the client which is longest in its handshake.
    async fn seat(&self, strangers: &mut Strangers) -> Option<OwnedSemaphorePermit> {
        let seats = &self.inner.seats;
        match seats.clone().try_acquire_owned() {
            Ok(seat) => Some(seat),
            Err(_) if strangers.cut_one() => timeout(ACCEPT_PAUSE, seats.clone().acquire_owned()).await.ok()?.ok(),
            Err(_) => None,
        }
    }
}

/// Clients whose handshake is not over, the oldest first: they may be silent, and hold their seats only as long as nobody else wants one.
#[derive(Default)]
struct Strangers(VecDeque<(Weak<()>, AbortHandle)>);

impl Strangers {
    fn push(&mut self, known: Weak<()>, connection: AbortHandle) {
        // Most are through with it at once.
        self.0.retain(|(other, _)| other.strong_count() > 0);
        self.0.push_back((known, connection));
    }

    /// Cuts the oldest one off; false if there is none.
    fn cut_one(&mut self) -> bool {
        while let Some((stranger, connection)) = self.0.pop_front() {
            if stranger.strong_count() > 0 {
                connection.abort();
                return true;
            }
        }
        false
    }
}

impl Inner {
    async fn connection(
        self: Arc<Self>,
        newcomer: Newcomer,
        seat: OwnedSemaphorePermit,
        stranger: Arc<()>,
        stopped: watch::Receiver<bool>,
    ) {
        self.metrics.connections_accepted.fetch_add(1, Relaxed);
        let _open = Gauge::raise(&self.metrics.connections_open);
        let peer = newcomer.peer;
        if let Err(error) = self.serve_one(newcomer, stranger, stopped).await {
            tracing::debug!("{peer}: the connection broke off: {error}");
        }
        drop(seat);
    }

    /// The client is no `stranger` any more once its handshake is over.
    async fn serve_one(
        &self,
        newcomer: Newcomer,
        stranger: Arc<()>,
        mut stopped: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let Newcomer { socket, over_tcp, peer } = newcomer;
        let (limits, tls) = (&self.options.limits, self.options.tls.as_ref());
        // Of one moment: the client's choice is a place in this list.
        let exports = self.exports.read().unwrap_or_else(PoisonError::into_inner).clone();
        let faces = exports.iter().map(|offer| offer.export.face().clone()).collect();
        let cover = (tls.map(Tls::acceptor), cover(tls, over_tcp));
        let seat = |at: usize| exports.get(at).and_then(|offer| offer.seats.clone().try_acquire_owned().ok());
        let haggling = handshake(socket, faces, seat, cover, limits, self.metrics.clone());
        let agreed = tokio::select! {
            agreed = timeout(limits.handshake_timeout, haggling) => agreed,
            _ = stopped.wait_for(|stopped| *stopped) => return Ok(()),
        };
        let agreed =
            agreed.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long")));
        let agreed = agreed.inspect_err(|_| {
            self.metrics.handshakes_failed.fetch_add(1, Relaxed);
        })?;
        let Some(Agreed { socket, ahead, chosen, seat }) = agreed else { return Ok(()) };
        let Some(Offer { export, .. }) = exports.get(chosen.export).cloned() else { return Ok(()) };
        drop(exports);
        drop(stranger);
        let name = export.name().to_owned();
        tracing::info!("{peer} has the export `{name}`");
        let rules = Rules {
            face: export.face().clone(),
            structured: chosen.structured,
            allocation: chosen.allocation,
            aligned: chosen.aligned,
        };
        let (limits, metrics) = (limits.clone(), self.metrics.clone());
        let connection = Connection { export, seat: Arc::new(seat), rules, limits, metrics };
        let end = connection.transmit(socket, ahead, stopped).await;
        tracing::info!("{peer} has left the export `{name}`: {end:?}");
        end.map(drop)
    }
}

fn cover(tls: Option<&Tls>, over_tcp: bool) -> Cover {
    match tls.map(Tls::demand) {
        None => Cover::None,
        Some(TlsUse::Required) => Cover::Required,
        Some(TlsUse::RequiredOverTcp) if over_tcp => Cover::Required,
        Some(TlsUse::RequiredOverTcp | TlsUse::Offered) => Cover::Offered,
    }
}

/// One more while it lives.
struct Gauge<'a>(&'a AtomicU64);

impl<'a> Gauge<'a> {
    fn raise(of: &'a AtomicU64) -> Self {
        of.fetch_add(1, Relaxed);
        Self(of)
    }
}

impl Drop for Gauge<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
