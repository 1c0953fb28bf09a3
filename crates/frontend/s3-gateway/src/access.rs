//! A note of each request, for an access log.
//!
//! # Invariants
//! - GW-ACC-1: a line has no secret, no signature and no query: of a request that is not known to be an operation, its path alone.
//! - GW-ACC-2: each answered request has one line, when its answer was sent or broke off. (`access.rs` of the tests)

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::header::AUTHORIZATION;
use hyper::{Method, Request, Response};
use s3s::{Body, StdError};

use crate::access_log::{Access, AccessLog, Peer};
use crate::guard::query_of;
use crate::request_body::{Fate, Told};

/// Bytes of an access key and of a path that are noted.
const KEY_ID_BYTES_MAX: usize = 128;
const PATH_BYTES_MAX: usize = 2048;

/// Notes about a request while it is under way.
pub(crate) struct Draft {
    log: Arc<dyn AccessLog>,
    began: Instant,
    fate: Fate,
    access: Access,
}

impl Draft {
    pub(crate) fn begin<B>(
        log: Arc<dyn AccessLog>,
        request: &Request<B>,
        peer: IpAddr,
        id: String,
        (time, began): (SystemTime, Instant),
        fate: Fate,
    ) -> Self {
        let mut path = request.uri().path().to_owned();
        // It may hold characters of several bytes, not escaped.
        path.truncate(path.floor_char_boundary(PATH_BYTES_MAX));
        let access = Access {
            key_id: key_id(request),
            path: Some(path),
            ..Access::begun(time, id, Peer::Address(peer), request.method().clone())
        };
        Self { log, began, fate, access }
    }

    /// `response`, whose end ends the note.
    pub(crate) fn until_sent(mut self, response: Response<Body>) -> Response<Body> {
        self.access.status = response.status().as_u16();
        if let Some(Told { operation, bucket, key }) = self.fate.told() {
            (self.access.operation, self.access.bucket, self.access.key) = (Some(operation), bucket, key);
            self.access.path = None;
        }
        let small = response.body().bytes();
        if !response.status().is_success() {
            self.access.error = small.as_deref().and_then(error_code);
        }
        let nothing = self.access.method == Method::HEAD;
        match small {
            // One that lies in memory is sent at once.
            Some(bytes) => {
                self.access.sent_bytes = if nothing { 0 } else { bytes.len() as u64 };
                self.access.whole = true;
                drop(self);
                response
            }
            None => response.map(|body| Body::http_body_unsync(Noted { body, draft: self })),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        self.access.took = self.began.elapsed();
        self.access.received_bytes = self.fate.received();
        // Nothing was answered where there is no status: the connection broke off.
        self.log.note(self.access.clone());
    }
}

/// The access key in the signature's scope, which is no secret.
fn key_id<B>(request: &Request<B>) -> Option<String> {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let of_header = header.and_then(|text| text.split_once("Credential=")).map(|(_, rest)| rest.to_owned());
    let of_query = || {
        let mut query = query_of(request.uri().query());
        query.find(|(name, _)| name.eq_ignore_ascii_case("x-amz-credential")).map(|(_, value)| value)
    };
    let scope = of_header.or_else(of_query)?;
    let (key, _) = scope.split_once('/')?;
    let plain = key.len() <= KEY_ID_BYTES_MAX && key.bytes().all(|byte| byte.is_ascii_graphic());
    plain.then(|| key.to_owned())
}

fn error_code(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body.get(..body.len().min(4096))?).ok()?;
    let (code, _) = text.split_once("<Code>")?.1.split_once("</Code>")?;
    Some(code.to_owned())
}

/// A body that is counted on its way.
struct Noted {
    body: Body,
    draft: Draft,
}

impl HttpBody for Noted {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                this.draft.access.sent_bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
                // A connection that knows the length may not poll again after the last frame.
                this.draft.access.whole = this.body.is_end_stream();
            }
            Poll::Ready(None) => this.draft.access.whole = true,
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Pad(std::sync::Mutex<Vec<Access>>);

    impl AccessLog for Pad {
        fn note(&self, access: Access) {
            self.0.lock().unwrap().push(access);
        }
    }

    /// Bytes above 0x7F may stand in a path as they are: the last one that is noted may be amid a character.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a front end lives on the clock, outside simulations")]
    fn a_long_path_is_cut_between_characters() {
        for ahead in 0..4 {
            let pad = Arc::new(Pad::default());
            let path = format!("/{}{}", "a".repeat(ahead), "\u{1f4be}".repeat(PATH_BYTES_MAX));
            let request = Request::builder().uri(path.as_bytes()).body(()).unwrap();
            let (peer, times) = (IpAddr::from([127, 0, 0, 1]), (SystemTime::UNIX_EPOCH, Instant::now()));
            drop(Draft::begin(pad.clone(), &request, peer, String::new(), times, Fate::default()));
            let noted = pad.0.lock().unwrap().pop().and_then(|access| access.path).unwrap();
            assert!(
                path.starts_with(&noted) && (PATH_BYTES_MAX - 3..=PATH_BYTES_MAX).contains(&noted.len()),
                "{ahead}"
            );
        }
    }

    /// GW-ACC-1
    #[test]
    fn only_the_public_half_of_a_signature_is_noted() {
        let of = |header: Option<&str>, uri: &str| {
            let mut request = Request::builder().uri(uri);
            if let Some(header) = header {
                request = request.header(AUTHORIZATION, header);
            }
            key_id(&request.body(()).unwrap())
        };
        let signed =
            "AWS4-HMAC-SHA256 Credential=AKIA1/20260101/r/s3/aws4_request, SignedHeaders=host, Signature=abcdef";
        assert_eq!(of(Some(signed), "/b").as_deref(), Some("AKIA1"));
        let presigned = "/b?X-Amz-Credential=AKIA2%2F20260101%2Fr%2Fs3%2Faws4_request&X-Amz-Signature=abcdef";
        assert_eq!(of(None, presigned).as_deref(), Some("AKIA2"));
        assert_eq!(of(Some("AWS AKIA3:sig"), "/b"), None);
        assert_eq!(of(Some("Credential=a b/x"), "/b"), None);
        assert_eq!(error_code(b"<Error><Code>NoSuchKey</Code></Error>").as_deref(), Some("NoSuchKey"));
    }
}
