//! A request's body on its way to `s3s`: framed small, timed out when it stalls, checked where it is XML, and given back when
//! it is left unread.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use s3s::{S3Error, StdError, s3_error};

use crate::errors::BodyError;
use crate::framing::Framing;
use crate::options::{Limits, XML_BYTES_MAX};
use crate::stall::Pace;
use crate::whole::Whole;
use crate::xml_body::XmlBody;

/// A handle to a request's body for code that does not own it: the operation sets the XML to expect, and the code that
/// answers gets the unread rest, to drain it before the answer, and the fault found in the body, for which `s3s` has no
/// words.
#[derive(Clone, Default)]
pub(crate) struct Fate(Arc<Mutex<Left>>);

#[derive(Default)]
struct Left {
    rest: Option<Rest>,
    xml: Option<XmlBody>,
    wrong: Option<S3Error>,
    told: Option<Told>,
    /// Bytes of the body that came.
    received: u64,
}

/// The operation that a request turned out to be.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) operation: String,
    pub(crate) bucket: Option<String>,
    pub(crate) key: Option<String>,
}

struct Rest {
    body: Incoming,
    polled: bool,
}

/// Limit for the unread rest of a body that is read before an answer that does not need it: a client that is still
/// sending would see its connection reset instead of the answer.
const DRAIN_BYTES_MAX: usize = 32 << 20;
/// And for how long.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

impl Fate {
    fn left(&self) -> MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the body, of which nothing was read yet, checked as XML.
    pub(crate) fn expect_xml(&self, xml: XmlBody) {
        self.left().xml = Some(xml);
    }

    /// Checks the next bytes of an XML body; with `None`, its end.
    fn check_xml(&self, data: Option<&[u8]>) -> Result<(), BodyError> {
        let mut left = self.left();
        left.received += data.map_or(0, <[u8]>::len) as u64;
        let checked = match (data, &mut left.xml) {
            (Some(data), Some(xml)) => xml.update(data),
            (None, xml) => xml.take().map_or(Ok(()), XmlBody::verify),
            (Some(_), None) => Ok(()),
        };
        checked.map_err(|wrong| {
            left.wrong = Some(wrong);
            BodyError::Xml
        })
    }

    fn is_xml(&self) -> bool {
        self.left().xml.is_some()
    }

    fn no_memory(&self) -> BodyError {
        let wrong =
            s3_error!(SlowDown, "Too many requests bring bodies that must be held in memory; please try again.");
        self.left().wrong = Some(wrong);
        BodyError::NoMemory
    }

    /// Takes note of the operation that the request is.
    pub(crate) fn tell(&self, told: Told) {
        self.left().told = Some(told);
    }

    /// The operation that the request is, once that is known.
    pub(crate) fn told(&self) -> Option<Told> {
        self.left().told.clone()
    }

    /// Bytes of the body that came so far.
    pub(crate) fn received(&self) -> u64 {
        self.left().received
    }

    /// The error found in the body, once.
    pub(crate) fn wrong(&self) -> Option<S3Error> {
        self.left().wrong.take()
    }

    /// Takes in the unread rest of the body, within bounds. A client that waits to be told to go on is not told so:
    /// then this is `false`, and the connection must not be used again, since the client may or may not send the body.
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
    /// Bytes of it, or of the longest XML.
    length_max: usize,
    fate: Fate,
    framing: Option<Framing>,
    ready: VecDeque<Bytes>,
    pace: Pace,
    whole: Whole,
}

impl RequestBody {
    pub(crate) fn new(body: Incoming, framing: Option<Framing>, limits: &Limits, fate: Fate) -> Self {
        let pace = Pace::new(limits.stall_timeout, limits.writer_rate_min);
        let whole = Whole::new(limits.memory.clone());
        let stated = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
        let length_max = stated.unwrap_or(usize::MAX).min(XML_BYTES_MAX);
        Self { body: Some(body), polled: false, length_max, fate, framing, ready: VecDeque::new(), pace, whole }
    }

    /// Ready once there is memory for the next part, if it must have come whole before it can be checked.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let bytes = match &self.framing {
            _ if self.fate.is_xml() => self.length_max,
            Some(framing) => framing.whole_bytes(),
            None => 0,
        };
        let has_room = ready!(self.whole.poll_room(bytes, context));
        Poll::Ready(if has_room { Ok(()) } else { Err(self.fate.no_memory()) })
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
            ready!(this.poll_room(context))?;
            let Some(body) = &mut this.body else { return Poll::Ready(None) };
            this.polled = true;
            let frame = match Pin::new(&mut *body).poll_frame(context) {
                Poll::Pending => {
                    ready!(this.pace.poll_worn_out(context));
                    // Nothing more is expected of it.
                    this.body = None;
                    return Poll::Ready(Some(Err(Box::new(BodyError::Stalled))));
                }
                Poll::Ready(None) => {
                    return Poll::Ready(this.fate.check_xml(None).err().map(|error| Err(error.into())));
                }
                Poll::Ready(Some(frame)) => frame?,
            };
            // HTTP trailers carry nothing S3 knows.
            let Ok(data) = frame.into_data() else { continue };
            this.pace.moved(data.len());
            this.fate.check_xml(Some(&data))?;
            if body.is_end_stream() {
                // A service that knows the length may not poll again after the last frame.
                this.fate.check_xml(None)?;
            }
            match &mut this.framing {
                Some(framing) => framing.push(data, &mut this.ready)?,
                None => return Poll::Ready(Some(Ok(Frame::data(data)))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && self.body.as_ref().is_none_or(HttpBody::is_end_stream)
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
