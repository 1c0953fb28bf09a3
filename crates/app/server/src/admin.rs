//! The admin listener: `/livez`, `/readyz` and `/metrics`, without authentication, so meant for loopback.
//!
//! It answers from the first second on. `/livez` says that the process runs, `/readyz` that each engine serves. An
//! engine that serves without one of its drives is ready: a load balancer must not take it out.
//!
//! # Invariants
//! - SV-LIVE-1: an engine that hangs ends no other: the service manager hears that the process lives as long as any open
//!   engine answers, or none is open. `one_engine_that_hangs_is_told_and_ends_no_other`.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use shingle_array_objects::ArrayFigures;
use shingle_array_store::Condition;
use shingle_object_store::ObjectStats;
use shingle_runtime::memory::Memory;
use shingle_s3_gateway::GatewayMetrics;
use shingle_store_api::{ObjectStore, StoreUsage};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::damage::Damage;
use crate::drive::DriveView;
use crate::engines::{self, Engine};
use crate::gauges::Gauges;
use crate::health::{Missing, State};
use crate::{asking, metrics, scrub, status};

/// Connections at a time.
const CONNECTIONS_MAX: usize = 16;
/// Longest time for a client to send a request's head, and for the object store to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Parts of the server that the listener reports on.
pub(crate) struct Watched {
    pub(crate) gateway: Arc<GatewayMetrics>,
    pub(crate) engines: Vec<Arc<Engine>>,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) started_unix_s: u64,
    /// Memory for bodies, of which `limits.memory` tells.
    pub(crate) memory: Arc<Memory>,
    /// Places for questions through the data directory. (SV-ASK-3)
    pub(crate) seats: Arc<Semaphore>,
}

/// A socket for incoming connections.
pub(crate) trait Listener: Send + 'static {
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// True if only users who may enter the data directory can connect.
    const PRIVATE: bool;

    fn accept(&self) -> impl Future<Output = std::io::Result<Self::Io>> + Send;
}

impl Listener for TcpListener {
    type Io = TcpStream;
    const PRIVATE: bool = false;

    async fn accept(&self) -> std::io::Result<TcpStream> {
        Ok(Self::accept(self).await?.0)
    }
}

impl Listener for UnixListener {
    type Io = UnixStream;
    const PRIVATE: bool = true;

    async fn accept(&self) -> std::io::Result<UnixStream> {
        Ok(Self::accept(self).await?.0)
    }
}

/// Serves until it is dropped.
pub(crate) async fn serve<L: Listener>(listener: L, watched: Arc<Watched>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        let socket = match Listener::accept(&listener).await {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!("an admin connection could not be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let watched = watched.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, watched.clone(), L::PRIVATE));
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false);
            if let Err(error) = http.serve_connection(TokioIo::new(socket), service).await {
                tracing::debug!("an admin connection broke off: {error}");
            }
            drop(place);
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    watched: Arc<Watched>,
    private: bool,
) -> Result<Response<Text>, Infallible> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            let answers = Answers::of(&watched).await;
            (StatusCode::OK, metrics::render(&watched.gateway, &watched.memory, &answers))
        }
        (&Method::GET, "/status") if private => (StatusCode::OK, status::page(&watched).await),
        (&Method::GET, "/livez") => (StatusCode::OK, "ok\n".to_owned()),
        // The older name is kept for existing users.
        (&Method::GET, "/readyz" | "/healthz") => {
            let answers = Answers::of(&watched).await;
            let status = if answers.all_serve() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            (status, answers.lines())
        }
        (&Method::POST, asking::PATH) if private => match asking::respond(request.into_body(), watched).await {
            Ok(lines) => return Ok(Response::new(Text::Lines(lines))),
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

/// Answers of the engines.
pub(crate) struct Answers(pub(crate) Vec<Answer>);

/// Answer of one engine.
pub(crate) struct Answer {
    pub(crate) name: String,
    pub(crate) is_array: bool,
    pub(crate) state: State,
    pub(crate) missing: Vec<Missing>,
    pub(crate) damage: Arc<Damage>,
    /// `None` while it is not open, or did not answer.
    pub(crate) figures: Option<Figures>,
    /// Results of verifying an array in the background, as long as it is open.
    pub(crate) scrub: Option<scrub::Figures>,
    /// The commands of its drives, while it is open.
    pub(crate) gauges: Vec<(String, Arc<Gauges>)>,
    /// The drives of an array, as far as it answers.
    pub(crate) condition: Option<Condition>,
    lines: String,
}

/// Figures of an engine.
pub(crate) enum Figures {
    Objects(Box<(ObjectStats, StoreUsage)>, Vec<DriveView>),
    Array(Box<ArrayFigures>),
}

impl Answers {
    pub(crate) async fn of(watched: &Watched) -> Self {
        Self(join_all(watched.engines.iter().map(|engine| Answer::of(engine))).await)
    }

    /// True if each engine serves and answers. An engine that serves without a drive counts.
    pub(crate) fn all_serve(&self) -> bool {
        self.0.iter().all(|answer| answer.figures.is_some())
    }

    /// Engines that are open and do not answer.
    pub(crate) fn silent(&self) -> impl Iterator<Item = &str> {
        let silent = |answer: &&Answer| answer.state == State::Serving && answer.figures.is_none();
        self.0.iter().filter(silent).map(|answer| answer.name.as_str())
    }

    /// True if a restart would disturb no client: of the open engines, none answers. (SV-LIVE-1)
    pub(crate) fn is_dead(&self) -> bool {
        self.silent().next().is_some() && !self.0.iter().any(|answer| answer.figures.is_some())
    }

    /// Objects in the largest engine that answers.
    pub(crate) fn objects_max(&self) -> u64 {
        let objects = |answer: &Answer| match &answer.figures {
            Some(Figures::Objects(figures, _)) => figures.1.objects,
            Some(Figures::Array(figures)) => figures.objects,
            None => 0,
        };
        self.0.iter().map(objects).max().unwrap_or(0)
    }

    /// Lines for people: "ok" alone, or the problems.
    pub(crate) fn lines(&self) -> String {
        let mut lines: String = self.0.iter().map(|answer| answer.lines.as_str()).collect();
        if self.all_serve() {
            lines.insert_str(0, "ok\n");
        }
        lines
    }
}

impl Answer {
    async fn of(engine: &Engine) -> Self {
        let watched = engine.watched();
        let scrub = match &watched {
            Some(engines::Watched::Array(array)) => Some(*array.scrub.lock().unwrap_or_else(PoisonError::into_inner)),
            _ => None,
        };
        let gauges = match &watched {
            Some(engines::Watched::Array(array)) => array.gauges.clone(),
            Some(engines::Watched::Objects(_, drives)) => {
                drives.iter().map(|drive| (drive.path.display().to_string(), drive.gauges.clone())).collect()
            }
            None => Vec::new(),
        };
        let figures = match watched {
            None => None,
            Some(watched) => tokio::time::timeout(PATIENCE, Figures::of(watched)).await.ok().flatten(),
        };
        let condition = if figures.is_some() { engine.condition(false).await } else { None };
        let (name, state) = (engine.health.name().to_owned(), engine.health.state());
        let mut missing = engine.health.missing();
        if let Some(condition) = &condition {
            // An array that has rebuilt a drive's data does not miss it any more.
            missing.retain(|missing| condition.drives.iter().any(|drive| !drive.up && missing.is(&drive.name)));
        }
        let mut lines = engine.health.lines(&missing);
        match &figures {
            None if state == State::Serving => lines += &format!("{name}: does not answer\n"),
            Some(Figures::Array(figures)) => lines += &degraded(&name, figures),
            _ => {}
        }
        let damage = engine.damage.clone();
        Self { name, is_array: engine.is_array, state, missing, damage, figures, scrub, gauges, condition, lines }
    }
}

#[cfg(test)]
use shingle_array_store::DriveCondition;

#[cfg(test)]
impl Answer {
    pub(crate) fn for_test(name: &str, is_array: bool, figures: Option<Figures>) -> Self {
        let (missing, lines, scrub) = (Vec::new(), String::new(), is_array.then(scrub::Figures::default));
        let gauges = vec![(format!("disk of {name}"), Arc::default())];
        let drive = DriveCondition { name: "a \"b\"\n".to_owned(), up: false, leaving: false, slow: true };
        let condition = is_array.then(|| Condition { drives: vec![drive], ..Condition::default() });
        Self {
            name: name.to_owned(),
            is_array,
            state: State::Serving,
            missing,
            damage: Arc::default(),
            figures,
            scrub,
            gauges,
            condition,
            lines,
        }
    }
}

/// An array's problems with its drives, in words.
fn degraded(name: &str, figures: &ArrayFigures) -> String {
    let ArrayFigures { array, .. } = figures;
    let mut lines = String::new();
    if array.drives_missing > 0 {
        lines += &format!("{name}: degraded: {} of {} drives missing\n", array.drives_missing, array.drives);
    }
    if array.drives_slow > 0 {
        lines += &format!("{name}: degraded: {} of {} drives slow\n", array.drives_slow, array.drives);
    }
    lines
}

impl Figures {
    async fn of(watched: engines::Watched) -> Option<Self> {
        match watched {
            engines::Watched::Objects(client, drives) => {
                let (stats, usage) = tokio::try_join!(client.stats(), client.usage()).ok()?;
                Some(Self::Objects(Box::new((stats, usage)), drives))
            }
            engines::Watched::Array(array) => Some(Self::Array(Box::new(array.client.figures().await.ok()?))),
        }
    }
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

    /// SV-LIVE-1.
    #[test]
    fn one_engine_that_hangs_is_told_and_ends_no_other() {
        let array =
            |name: &str, answers: bool| Answer::for_test(name, true, answers.then(|| Figures::Array(Box::default())));
        let answers = Answers(vec![array("one", true), array("two", false)]);
        assert!(!answers.is_dead() && !answers.all_serve());
        assert_eq!(answers.silent().collect::<Vec<_>>(), ["two"]);
        assert!(Answers(vec![array("one", false), array("two", false)]).is_dead());
        let opening = || Answer { state: State::Opening("x".to_owned()), ..array("three", false) };
        assert!(!Answers(vec![opening()]).is_dead());
        assert!(Answers(vec![opening(), array("two", false)]).is_dead());
    }
}
