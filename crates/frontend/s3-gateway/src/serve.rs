//! Connections: accepting, limits, and an orderly end.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, EXPECT, HeaderValue, RETRY_AFTER, SERVER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, HttpError, S3Error};
use shingle_store_api::ObjectStore;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::access::Draft;
use crate::access_log::{AccessLog, RequestIds};
use crate::guard;
use crate::host::Domain;
use crate::keys::Keys;
use crate::metrics::GatewayMetrics;
use crate::operations::Listed;
use crate::options::{HEAD_BYTES_MAX, HEADERS_MAX, Limits, Options, PIECE_BYTES, XML_BYTES_MAX};
use crate::ranges::PassedOver;
use crate::request_body::{Fate, RequestBody};
use crate::seats::{Seat, Seats};
use crate::service::Service;
use crate::signing_date;
use crate::stall::Socket;
use crate::xml;

/// The bytes a connection's read buffer may grow to, as far as memory allows: half a piece, so that few reads fill one.
const READ_BUFFER_BYTES_MAX: usize = PIECE_BYTES / 2;
/// It must hold a head, and be worth a system call.
const READ_BUFFER_BYTES_MIN: usize = 4 * HEAD_BYTES_MAX;
/// Seconds after which a client may try again what could not be served for now.
const RETRY_AFTER_S: &str = "5";
/// Pause after the operating system refused a connection (no descriptors left, most often).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A gateway to a store.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<Inner>,
}

struct Inner {
    service: S3Service,
    limits: Limits,
    metrics: Arc<GatewayMetrics>,
    /// The number of the next request. It begins with the time, in nanoseconds: a server that starts again gives no number twice.
    ids: RequestIds,
    access: Option<Arc<dyn AccessLog>>,
}

/// Result of serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Connections that had not finished their request when the grace was over, and were cut.
    pub cut: usize,
}

impl Gateway {
    /// A gateway to `store`.
    ///
    /// # Errors
    /// `InvalidInput` where the domain is none.
    pub fn new(store: Arc<dyn ObjectStore>, options: Options) -> io::Result<Self> {
        let build = |access: Listed| {
            let mut builder = builder(store.clone(), options.region.clone(), options.limits.clone());
            builder.set_auth(Keys::new(options.credentials.clone()));
            builder.set_access(access);
            if let Some(domain) = &options.domain {
                let host = Domain::new(domain).ok_or_else(|| {
                    io::Error::new(io::ErrorKind::InvalidInput, format!("{domain} is no domain name"))
                })?;
                builder.set_host(host);
            }
            io::Result::Ok(builder)
        };
        let mut builder = build(Listed { signed: true })?;
        builder.set_route(PassedOver::new(build(Listed { signed: false })?.build()));
        let inner = Inner {
            service: builder.build(),
            limits: options.limits,
            metrics: Arc::default(),
            ids: RequestIds::from(SystemTime::now()),
            access: options.access,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Counters of this gateway.
    pub fn metrics(&self) -> Arc<GatewayMetrics> {
        self.inner.metrics.clone()
    }

    /// The ids of its requests, for others who write lines to the same access log.
    pub fn request_ids(&self) -> RequestIds {
        self.inner.ids.clone()
    }

    /// Serves connections of `listener` until `shutdown` completes; then lets requests under way finish, for at most
    /// the grace of [`Limits`], and returns. Runs on the tokio runtime it is called in, which must have its timer and
    /// its network driver on.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) -> Served {
        let seats = Seats::new(self.inner.limits.connections_max);
        let (stop, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        // Accepted, and without a seat yet.
        let mut newcomer = None;
        loop {
            // It may be given up at any time and begun anew.
            let accepting = async {
                let (socket, address) = match newcomer.take() {
                    Some(newcomer) => newcomer,
                    None => listener.accept().await?,
                };
                let ip = address.ip();
                newcomer = Some((socket, address));
                io::Result::Ok(seats.take(ip).await)
            };
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => continue,
                accepted = accepting => accepted,
            };
            match accepted {
                Ok(seat) => {
                    let Some((socket, _)) = newcomer.take() else { continue };
                    connections.spawn(self.inner.clone().connection(socket, Arc::new(seat), stopped.clone()));
                }
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        // The receivers are the connections; there may be none.
        let _ = stop.send(true);
        let finish = async { while connections.join_next().await.is_some() {} };
        let in_time = tokio::time::timeout(self.inner.limits.shutdown_grace, finish).await.is_ok();
        let cut = if in_time { 0 } else { connections.len() };
        connections.shutdown().await;
        Served { cut }
    }
}

/// All read buffers together take half as much as bodies may.
fn read_buffer_bytes(limits: &Limits) -> usize {
    let each = limits.memory.limit() / 2 / limits.connections_max.max(1) as u64;
    usize::try_from(each).unwrap_or(usize::MAX).clamp(READ_BUFFER_BYTES_MIN, READ_BUFFER_BYTES_MAX)
}

/// The service, without its credentials yet.
pub(crate) fn builder(store: Arc<dyn ObjectStore>, region: String, limits: Limits) -> S3ServiceBuilder {
    let mut config = S3Config::default();
    config.xml_max_body_size = XML_BYTES_MAX;
    // Forms are refused before; nothing of one may be collected in any case.
    config.post_object_max_file_size = 0;
    let mut builder = S3ServiceBuilder::new(Service::new(store, region, limits));
    builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
    builder
}

impl Inner {
    async fn connection(self: Arc<Self>, socket: TcpStream, seat: Arc<Seat>, mut stopped: watch::Receiver<bool>) {
        self.metrics.connections_accepted.fetch_add(1, Relaxed);
        let _open = Gauge::raise(&self.metrics, |metrics| &metrics.connections_open);
        // Answers are written whole; waiting to join small ones only adds latency.
        let _ = socket.set_nodelay(true);
        // One that is gone already gets no answer.
        let peer = socket.peer_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
        let io = TokioIo::new(Socket::new(socket, &self.limits, self.metrics.clone(), Some(seat.clone())));
        let service = service_fn(|request| {
            let (inner, busy) = (self.clone(), seat.busy(request.method()));
            async move { Ok::<_, HttpError>(inner.answer(request, peer).await?.map(|body| busy.until_sent(body))) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_timeout)
            .max_headers(HEADERS_MAX)
            .max_buf_size(read_buffer_bytes(&self.limits))
            .serve_connection(io, service);
        let mut connection = std::pin::pin!(connection);
        let result = tokio::select! {
            result = &mut connection => result,
            () = seat.left() => {
                self.metrics.connections_displaced.fetch_add(1, Relaxed);
                return;
            }
            // Its sender gone is an end, too.
            () = async { drop(stopped.wait_for(|stopped| *stopped).await) } => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = result {
            tracing::debug!("a connection broke off: {error}");
        }
    }

    async fn answer(&self, request: Request<Incoming>, peer: IpAddr) -> Result<Response<Body>, HttpError> {
        let began = Instant::now();
        let _in_flight = Gauge::raise(&self.metrics, |metrics| &metrics.requests_in_flight);
        let (method, target) = (request.method().clone(), request.uri().path().to_owned());
        let fate = Fate::default();
        let id = self.ids.fresh();
        let note = self
            .access
            .clone()
            .map(|log| Draft::begin(log, &request, peer, id.clone(), (SystemTime::now(), began), fate.clone()));
        let awaits_continue = request.headers().contains_key(EXPECT);
        let mut response = self.respond(request, fate.clone()).await?;
        if !fate.drain(awaits_continue).await {
            // As S3 does. (botocore misreads the next answer on a connection where one came without its 100.)
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }

        if response.status() == StatusCode::NOT_MODIFIED {
            *response.body_mut() = Body::empty();
            response.headers_mut().remove(CONTENT_TYPE);
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        if let Some(written) = response.body().bytes().as_deref().and_then(|body| of_xml(&response, body, &id)) {
            // The length is the body's, which hyper asks it for.
            response.headers_mut().remove(CONTENT_LENGTH);
            *response.body_mut() = Body::from(written);
        }
        let headers = response.headers_mut();
        headers.insert(SERVER, HeaderValue::from_static("Shingle"));
        if let Ok(id) = HeaderValue::try_from(id.as_str()) {
            headers.insert("x-amz-request-id", id);
        }
        if response.status() == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
        }
        self.metrics.answered(&method, response.status(), began.elapsed());
        tracing::debug!(%method, target, status = response.status().as_u16(), id, "answered");
        Ok(match note {
            Some(note) => note.until_sent(response),
            None => response,
        })
    }

    async fn respond(&self, request: Request<Incoming>, fate: Fate) -> Result<Response<Body>, HttpError> {
        let (mut head, incoming) = request.into_parts();
        let framing = guard::framing(&head.headers);
        let body = RequestBody::new(incoming, framing, &self.limits, fate.clone());
        if let Err(error) = guard::check(&head) {
            return refuse(error);
        }
        signing_date::complete(&mut head.headers);
        head.extensions.insert(fate.clone());
        // A digest of nothing is checked where the end of the body is seen.
        let stated = head.headers.contains_key("content-md5");
        let empty = http_body::Body::is_end_stream(&body) && !stated;
        let body = if empty { Body::empty() } else { Body::http_body_unsync(body) };
        let response = self.service.call(Request::from_parts(head, body)).await;
        fate.wrong().map_or(response, refuse)
    }
}

fn of_xml(response: &Response<Body>, body: &[u8], id: &str) -> Option<Vec<u8>> {
    let kind = response.headers().get(CONTENT_TYPE)?;
    // An object may be of any type; the answers of a GET of one have an ETag.
    (kind == "application/xml" && !response.headers().contains_key(ETAG)).then(|| xml::as_s3(body, id))?
}

fn refuse(error: S3Error) -> Result<Response<Body>, HttpError> {
    error.to_http_response().map_err(|error| HttpError::new(Box::new(error)))
}

/// One more while it lives.
struct Gauge<'a>(&'a AtomicU64);

impl<'a> Gauge<'a> {
    fn raise(metrics: &'a GatewayMetrics, which: impl Fn(&GatewayMetrics) -> &AtomicU64) -> Self {
        let gauge = which(metrics);
        gauge.fetch_add(1, Relaxed);
        Self(gauge)
    }
}

impl Drop for Gauge<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_runtime::memory::Memory;

    #[test]
    fn read_buffers_shrink_with_the_memory_that_there_may_be() {
        let bytes = |memory, connections_max| {
            read_buffer_bytes(&Limits {
                memory: Memory::new(memory, connections_max),
                connections_max,
                ..Limits::default()
            })
        };
        assert_eq!(read_buffer_bytes(&Limits::default()), 512 << 10);
        assert_eq!(bytes(256 << 20, 1024), 128 << 10);
        assert_eq!(bytes(1 << 20, 1 << 20), READ_BUFFER_BYTES_MIN);
        assert_eq!(bytes(1 << 40, 1), READ_BUFFER_BYTES_MAX);
    }
}
