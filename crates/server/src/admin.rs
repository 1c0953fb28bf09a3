//! The admin listener: `/metrics` and `/healthz`, without authentication, so meant for loopback.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::convert::Infallible;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use shingle_array_objects::{ArrayClient, ArrayFigures};
use shingle_object_store::{ObjectStats, ObjectStoreClient};
use shingle_s3_gateway::GatewayMetrics;
use shingle_store_api::{ObjectStore, StoreUsage};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::arrays::Array;
use crate::drive::Drive;
use crate::{metrics, scrub};

/// Connections at a time.
const CONNECTIONS_MAX: usize = 16;
/// How long a client may take with a request's head, and the object store with an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is watched.
pub(crate) struct Watched {
    pub(crate) gateway: Arc<GatewayMetrics>,
    /// The store on the drives, if there are any.
    pub(crate) store: Option<ObjectStoreClient>,
    pub(crate) drives: Arc<Vec<Drive>>,
    pub(crate) arrays: Vec<WatchedArray>,
}

/// An array that is watched.
pub(crate) struct WatchedArray {
    name: String,
    client: ArrayClient,
    scrub: scrub::Shared,
}

impl WatchedArray {
    pub(crate) fn of(array: &Array) -> Self {
        Self { name: array.name.clone(), client: array.client.clone(), scrub: array.scrub.clone() }
    }
}

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, watched: Arc<Watched>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::warn!("an admin connection could not be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let watched = watched.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, watched.clone()));
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false);
            if let Err(error) = http.serve_connection(TokioIo::new(socket), service).await {
                tracing::debug!("an admin connection broke off: {error}");
            }
            drop(place);
        });
    }
}

async fn answer(request: Request<Incoming>, watched: Arc<Watched>) -> Result<Response<Text>, Infallible> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            let answers = Answers::of(&watched).await;
            (StatusCode::OK, metrics::render(&watched.gateway, &answers, &watched.drives))
        }
        (&Method::GET, "/healthz") => match Answers::of(&watched).await.missing() {
            None => (StatusCode::OK, "ok\n".to_owned()),
            Some(which) => (StatusCode::SERVICE_UNAVAILABLE, format!("{which} does not answer\n")),
        },
        (&Method::GET, _) => (StatusCode::NOT_FOUND, "there are /metrics and /healthz\n".to_owned()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned()),
    };
    let mut response = Response::new(Text(Some(Bytes::from(text))));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// What the stores said when they were asked; none of those that gave no answer.
#[derive(Default)]
pub(crate) struct Answers {
    /// Of the store on the drives, where there is one.
    pub(crate) objects: Option<Option<(ObjectStats, StoreUsage)>>,
    /// Of the arrays.
    pub(crate) arrays: Vec<(String, Option<ArrayFigures>)>,
    /// What verifying them in the background came to.
    pub(crate) scrubs: Vec<scrub::Figures>,
}

impl Answers {
    async fn of(watched: &Watched) -> Self {
        let mut answers = Self::default();
        if let Some(store) = &watched.store {
            let asking = async { Some((store.stats().await.ok()?, store.usage().await.ok()?)) };
            answers.objects = Some(tokio::time::timeout(PATIENCE, asking).await.ok().flatten());
        }
        for WatchedArray { name, client, scrub } in &watched.arrays {
            let asking = async { client.figures().await.ok() };
            answers.scrubs.push(*scrub.lock().unwrap_or_else(PoisonError::into_inner));
            answers.arrays.push((name.clone(), tokio::time::timeout(PATIENCE, asking).await.ok().flatten()));
        }
        answers
    }

    /// One that gave none, if there is one.
    pub(crate) fn missing(&self) -> Option<String> {
        if self.objects.is_some_and(|objects| objects.is_none()) {
            return Some("the object store".to_owned());
        }
        let array = self.arrays.iter().find(|(_, figures)| figures.is_none());
        array.map(|(name, _)| format!("array {name}"))
    }
}

/// An answer's body, whole.
struct Text(Option<Bytes>);

impl Body for Text {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        std::task::Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
