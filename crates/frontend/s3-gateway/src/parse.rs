//! The gateway's parsers of clients' bytes, for tests of arbitrary bytes: requests without a connection.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use hyper::http::request::Parts;
use hyper::{Method, Request};
use s3s::service::S3Service;
use s3s::{Body, S3Result};
use shingle_store_api::ObjectStore;

use crate::digests::Digests;
use crate::framing::Framing;
use crate::guard;
use crate::keys::Keys;
use crate::operations::Listed;
use crate::options::{Credentials, Options};
use crate::serve::builder;
use crate::xml_body::XmlBody;

/// Two gateways: one that wants signatures, and one that wants none and so reads all of a request.
pub struct Requests {
    signed: S3Service,
    unsigned: S3Service,
}

impl Requests {
    /// Gateways to these stores; the first wants signatures.
    pub fn new(stores: [Arc<dyn ObjectStore>; 2], credentials: Credentials) -> Self {
        let new = |store| {
            let Options { region, limits, .. } = Options::default();
            builder(store, region, limits)
        };
        let [first, second] = stores;
        let mut signed = new(first);
        signed.set_auth(Keys::new(vec![credentials]));
        signed.set_access(Listed { signed: true });
        Self { signed: signed.build(), unsigned: new(second).build() }
    }

    /// Answers a request: a line with method and target, lines with headers, an empty line, and the body. Its status, unless
    /// it is no HTTP at all.
    pub async fn answer(&self, bytes: &[u8], signed: bool) -> Option<u16> {
        let (head, body) = parts(bytes)?;
        if let Err(error) = guard::check(&head).and_then(|()| xml(&head, &body)) {
            return error.to_http_response().ok().map(|response| response.status().as_u16());
        }
        let body = match guard::framing(&head.headers) {
            Some(framing) => cut(framing, &body)?,
            None => body,
        };
        let service = if signed { &self.signed } else { &self.unsigned };
        let response = service.call(Request::from_parts(head, Body::from(body))).await;
        response.ok().map(|response| response.status().as_u16())
    }
}

/// The checks of an XML body, where there may be one.
fn xml(head: &Parts, body: &[u8]) -> S3Result<()> {
    if head.method != Method::POST || guard::framing(&head.headers).is_some() {
        return Ok(());
    }
    let digests = Digests::of_request(&head.headers, true)?;
    let mut xml = XmlBody::new(&["Delete", "Object", "Key"], &head.headers, digests)?;
    body.chunks(7).try_for_each(|piece| xml.update(piece))?;
    xml.verify()
}

/// A body in chunks, signed or not.
pub fn framing(bytes: &[u8]) -> bool {
    let bytes = Bytes::copy_from_slice(bytes);
    cut(Framing::new(true), &bytes).is_some() & cut(Framing::new(false), &bytes).is_some()
}

/// The body as it is passed on, from two frames.
fn cut(mut framing: Framing, body: &Bytes) -> Option<Bytes> {
    let mut out = VecDeque::new();
    let (first, second) = (body.slice(..body.len() / 3), body.slice(body.len() / 3..));
    framing.push(first, &mut out).ok()?;
    framing.push(second, &mut out).ok()?;
    Some(Vec::from(out).concat().into())
}

fn parts(bytes: &[u8]) -> Option<(Parts, Bytes)> {
    let end = bytes.windows(2).position(|window| window == b"\n\n").unwrap_or(bytes.len());
    let mut lines = bytes.get(..end)?.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let space = first.iter().position(|byte| *byte == b' ')?;
    let (method, target) = (first.get(..space)?, first.get(space + 1..)?);
    let mut request = Request::builder().method(method).uri(target);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(line.get(..colon)?, line.get(colon + 1..)?.trim_ascii());
    }
    let body = Bytes::copy_from_slice(bytes.get(end + 2..).unwrap_or_default());
    Some((request.body(()).ok()?.into_parts().0, body))
}
