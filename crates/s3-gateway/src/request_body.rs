//! A request's body on its way to `s3s`: framed small, timed out when it stalls, held against its digests where nobody
//! behind does (XML), and given back when it is left unread.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use s3s::{S3Error, StdError};

use crate::digests::Digests;
use crate::errors::BodyError;
use crate::framing::Framing;
use crate::stall::Patience;

/// What becomes of a body, for whoever answers: its unread rest, so that it can be drained before the answer goes out,
/// and what was found wrong with it, for which `s3s` has no words.
#[derive(Clone, Default)]
pub(crate) struct Fate(Arc<Mutex<Left>>);

#[derive(Default)]
struct Left {
    rest: Option<Rest>,
    wrong: Option<S3Error>,
}

struct Rest {
    body: Incoming,
    polled: bool,
}

/// How much of an unread body is taken in before an answer that does not need it: a client that is still sending would
/// see its connection reset instead of the answer.
const DRAIN_BYTES_MAX: usize = 32 << 20;
/// And for how long.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

impl Fate {
    fn left(&self) -> MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was found wrong with the body.
    pub(crate) fn wrong(&self) -> Option<S3Error> {
        self.left().wrong.take()
    }

    /// Takes in what is left of the body, within bounds. A client that waits to be told to go on is not told so: then
    /// this is `false`, and the connection must not be used again, since the client may or may not send the body.
    pub(crate) async fn drain(self, awaits_continue: bool) -> bool {
        let rest = self.left().rest.take();
        let Some(Rest { mut body, polled }) = rest else { return true };
        if awaits_continue && !polled {
            return false;
        }
        if body.is_end_stream() {
            return true;
        }
        let mut drained = 0;
        let draining = async {
            while drained < DRAIN_BYTES_MAX {
                let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
                let Some(Ok(frame)) = frame else { break };
                drained += frame.data_ref().map_or(0, Bytes::len);
            }
        };
        // Past the time the connection is simply closed.
        let _ = tokio::time::timeout(DRAIN_TIME_MAX, draining).await;
        true
    }
}

/// The body.
pub(crate) struct RequestBody {
    body: Option<Incoming>,
    polled: bool,
    fate: Fate,
    framing: Option<Framing>,
    digests: Option<Digests>,
    ready: VecDeque<Bytes>,
    patience: Patience,
}

impl RequestBody {
    /// Has the body held against these.
    pub(crate) fn check(&mut self, digests: Option<Digests>) {
        self.digests = digests;
    }

    pub(crate) fn new(body: Incoming, framing: Option<Framing>, stall: Duration, fate: Fate) -> Self {
        let patience = Patience::new(stall);
        Self { body: Some(body), polled: false, fate, framing, digests: None, ready: VecDeque::new(), patience }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = self.get_mut();
        loop {
            if let Some(ready) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(ready))));
            }
            let Some(body) = &mut this.body else { return Poll::Ready(None) };
            this.polled = true;
            let frame = match Pin::new(body).poll_frame(context) {
                Poll::Pending => {
                    ready!(this.patience.poll_worn_out(context));
                    // Nothing more is expected of it.
                    this.body = None;
                    return Poll::Ready(Some(Err(Box::new(BodyError::Stalled))));
                }
                Poll::Ready(None) => {
                    let Err(wrong) = this.digests.take().map_or(Ok(()), Digests::verify) else {
                        return Poll::Ready(None);
                    };
                    this.fate.left().wrong = Some(wrong);
                    return Poll::Ready(Some(Err(Box::new(BodyError::Digest))));
                }
                Poll::Ready(Some(frame)) => frame?,
            };
            this.patience.renew();
            // HTTP trailers carry nothing S3 knows.
            let Ok(data) = frame.into_data() else { continue };
            if let Some(digests) = &mut this.digests {
                digests.update(&data);
            }
            match &mut this.framing {
                Some(framing) => framing.push(data, &mut this.ready)?,
                None => return Poll::Ready(Some(Ok(Frame::data(data)))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.digests.is_none() && self.ready.is_empty() && self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.body, &self.framing) {
            (Some(body), None) => body.size_hint(),
            _ => SizeHint::new(),
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take() {
            let rest = Rest { body, polled: self.polled };
            self.fate.left().rest = Some(rest);
        }
    }
}
