//! The admin listener: `/livez`, `/readyz` and `/metrics`, without authentication, so meant for loopback.
//!
//! It answers from the first second on. `/livez` says that the process runs, `/readyz` that each engine serves. An
//! engine that serves without one of its drives is ready: a load balancer must not take it out.
//!
//! # Invariants
//! - SV-ADM-1: a client that does not take its answer loses its place: clients who ask for pages cannot keep others from asking.
//!   `clients_who_do_not_read_keep_nobody_from_asking`.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use shingle_s3_gateway::Peer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::{metrics, status, volumes};
use crate::asking;
use crate::asking::session::{self, Session};
use crate::reports::answers::{Answers, Watched};
use crate::reports::health::PATIENCE;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 16;
/// Time that a connection has to ask, be answered and take the answer: engines that hang take a part of it. An answer that comes in
/// lines, or a session, lasts as long as its client wants; both are for users of the data directory alone. (SV-ADM-1)
const CONNECTION_MAX: Duration = PATIENCE.saturating_mul(4);

/// A socket for incoming connections.
pub(crate) trait Listener: Send + 'static {
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// True if only users who may enter the data directory can connect.
    const PRIVATE: bool;

    fn accept(&self) -> impl Future<Output = std::io::Result<(Self::Io, Peer)>> + Send;
}

impl Listener for TcpListener {
    type Io = TcpStream;
    const PRIVATE: bool = false;

    async fn accept(&self) -> std::io::Result<(TcpStream, Peer)> {
        let (socket, address) = Self::accept(self).await?;
        Ok((socket, Peer::Address(address.ip())))
    }
}

impl Listener for UnixListener {
    type Io = UnixStream;
    const PRIVATE: bool = true;

    async fn accept(&self) -> std::io::Result<(UnixStream, Peer)> {
        let (socket, _) = Self::accept(self).await?;
        let process = socket.peer_cred()?;
        Ok((socket, Peer::Process { uid: process.uid(), pid: process.pid() }))
    }
}

/// Serves until it is dropped.
pub(crate) async fn serve<L: Listener>(listener: L, watched: Arc<Watched>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        let (socket, peer) = match Listener::accept(&listener).await {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!("an admin connection could not be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let watched = watched.clone();
        connections.spawn(async move {
            let (sessions, mut begun) = mpsc::channel(1);
            let lasts = Arc::new(AtomicBool::new(false));
            let service = service_fn({
                let lasts = lasts.clone();
                move |request| {
                    answer(request, watched.clone(), L::PRIVATE.then_some(peer), sessions.clone(), lasts.clone())
                }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false);
            let overdue = async {
                tokio::time::sleep(CONNECTION_MAX).await;
                if lasts.load(Relaxed) {
                    std::future::pending().await
                }
            };
            tokio::select! {
                served = http.serve_connection(TokioIo::new(socket), service).with_upgrades() => {
                    if let Err(error) = served {
                        tracing::debug!("an admin connection broke off: {error}");
                    }
                }
                () = overdue => tracing::debug!("an admin connection took too long"),
            }
            // In this task, so that it ends with the listener.
            if let Ok(session) = begun.try_recv() {
                Session::serve(session).await;
            }
            drop(place);
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    watched: Arc<Watched>,
    private: Option<Peer>,
    sessions: mpsc::Sender<Session>,
    lasts: Arc<AtomicBool>,
) -> Result<Response<Text>, Infallible> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            let answers = Answers::of(&watched).await;
            let figures = metrics::render(&watched.gateway, &watched.memory, &answers);
            (StatusCode::OK, figures + &volumes::figures(&watched.volumes))
        }
        (&Method::GET, "/status") if private.is_some() => (StatusCode::OK, status::page(&watched).await),
        (&Method::GET, "/livez") => (StatusCode::OK, "ok\n".to_owned()),
        // The older name is kept for existing users.
        (&Method::GET, "/readyz" | "/healthz") => {
            let answers = Answers::of(&watched).await;
            let status = if answers.all_serve() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            // A volume that is not served is told, and takes no server out: its objects are served.
            (status, answers.lines() + &volumes::lines(&watched.volumes))
        }
        (&Method::POST, asking::PATH) if private.is_some() => match asking::respond(request.into_body(), watched).await
        {
            Ok(lines) => {
                lasts.store(true, Relaxed);
                return Ok(Response::new(Text::Lines(lines)));
            }
            Err(refused) => refused,
        },
        (&Method::GET, session::PATH) if let Some(peer) = private => match session::begin(request, &watched, peer) {
            Ok(session) => {
                // There is room: a connection has one request.
                let _ = sessions.try_send(session);
                return Ok(upgrading());
            }
            Err(refused) => refused,
        },
        (&Method::GET, _) => (StatusCode::NOT_FOUND, "there are /livez, /readyz and /metrics\n".to_owned()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned()),
    };
    let mut response = Response::new(Text::Whole(Some(Bytes::from(text))));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// The answer behind which a session begins.
fn upgrading() -> Response<Text> {
    let mut response = Response::new(Text::Whole(None));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, header::HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, header::HeaderValue::from_static(session::PROTOCOL));
    response
}

/// An answer's body.
enum Text {
    Whole(Option<Bytes>),
    /// As they come.
    Lines(mpsc::Receiver<Bytes>),
}

impl Body for Text {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut *self {
            Self::Whole(bytes) => std::task::Poll::Ready(bytes.take()),
            Self::Lines(lines) => lines.poll_recv(context),
        };
        next.map(|bytes| Some(Ok(Frame::data(bytes?))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Lines(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::sync::{Mutex, watch};

    use crate::engines::gate::Gate;
    use crate::reports::health::Health;

    /// Connections that hold few bytes.
    struct Pipes(Mutex<mpsc::Receiver<DuplexStream>>);

    impl Listener for Pipes {
        type Io = DuplexStream;
        const PRIVATE: bool = false;

        async fn accept(&self) -> std::io::Result<(DuplexStream, Peer)> {
            match self.0.lock().await.recv().await {
                Some(pipe) => Ok((pipe, Peer::Address([127, 0, 0, 1].into()))),
                None => std::future::pending().await,
            }
        }
    }

    async fn ask(pipes: &mpsc::Sender<DuplexStream>, path: &str) -> DuplexStream {
        let (mut client, server) = tokio::io::duplex(64);
        pipes.send(server).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        tokio::spawn(async move {
            client.write_all(request.as_bytes()).await.unwrap();
            client
        })
        .await
        .unwrap()
    }

    /// SV-ADM-1.
    #[tokio::test(start_paused = true)]
    async fn clients_who_do_not_read_keep_nobody_from_asking() {
        let health = Health::new("drives", watch::Sender::default());
        let watched = Watched {
            gateway: Arc::default(),
            store: Arc::new(Gate::new(health, Arc::default())),
            engines: Vec::new(),
            volumes: Vec::new(),
            listen: ([127, 0, 0, 1], 0).into(),
            admin: None,
            started_unix_s: 0,
            memory: shingle_runtime::memory::Memory::unbounded(),
            access: None,
            seats: Arc::new(Semaphore::new(1)),
        };
        let (pipes, listened) = mpsc::channel(100);
        let serving = tokio::spawn(serve(Pipes(Mutex::new(listened)), Arc::new(watched)));
        let mut deaf = Vec::new();
        for _ in 0..2 * CONNECTIONS_MAX {
            deaf.push(ask(&pipes, "/metrics").await);
        }
        let mut answer = String::new();
        let mut client = ask(&pipes, "/livez").await;
        let answered = tokio::time::timeout(3 * CONNECTION_MAX, client.read_to_string(&mut answer)).await;
        answered.expect("nobody is answered").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        serving.abort();
    }
}
