//! Ranges that S3 passes over: it serves one range of an object, and answers a `Range` header that is none, or that names
//! several, with the whole object.
//!
//! `s3s` refuses such a header when it reads the request. The header may be signed, so it can go only behind the check of the
//! signature: there the request takes a way of its own, to a second service that gets it without.
//!
//! # Invariants
//! - GW-RANGE-1: the second service gets only requests whose signature was valid. It checks them as the first one does otherwise.

use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, IF_RANGE, RANGE};
use hyper::http::Extensions;
use hyper::{Method, Request, Uri};
use s3s::dto::{Range, Timestamp, TimestampFormat};
use s3s::route::S3Route;
use s3s::service::S3Service;
use s3s::{Body, S3Request, S3Response, S3Result, s3_error};

use crate::headers::timestamp;
use shingle_store_api::ObjectInfo;

/// True if a request's `Range` is served: it is one range. (Or there is none.)
fn is_served(headers: &HeaderMap) -> bool {
    let usable = |value: &HeaderValue| value.to_str().is_ok_and(|text| Range::parse(text).is_ok());
    let mut values = headers.get_all(RANGE).iter();
    values.next().is_none_or(usable) && values.next().is_none()
}

/// True if a range is asked for of this very object (RFC 9110, 13.1.5): `If-Range` is not there, has its ETag, or the
/// date at which it was last modified.
pub(crate) fn if_range(headers: &HeaderMap, info: &ObjectInfo) -> bool {
    let Some(value) = headers.get(IF_RANGE) else { return true };
    let Ok(text) = value.to_str() else { return false };
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(etag) => etag == info.etag,
        None => {
            Timestamp::parse(TimestampFormat::HttpDate, text).is_ok_and(|date| date == timestamp(info.modified_unix_ns))
        }
    }
}

/// The way of requests whose `Range` is passed over.
pub(crate) struct PassedOver {
    /// Without signatures.
    service: Arc<S3Service>,
}

impl PassedOver {
    pub(crate) fn new(service: S3Service) -> Self {
        Self { service: Arc::new(service) }
    }
}

#[async_trait::async_trait]
impl S3Route for PassedOver {
    fn is_match(&self, method: &Method, _: &Uri, headers: &HeaderMap, _: &mut Extensions) -> bool {
        (method == Method::GET || method == Method::HEAD) && !is_served(headers)
    }

    // Without credentials `S3Route::check_access` refuses it. (GW-RANGE-1)

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let mut passed = Request::new(request.input);
        *passed.method_mut() = request.method;
        *passed.uri_mut() = unsigned(&request.uri);
        *passed.headers_mut() = request.headers;
        *passed.extensions_mut() = request.extensions;
        passed.headers_mut().remove(RANGE);
        passed.headers_mut().remove(AUTHORIZATION);
        let answer = self.service.call(passed).await.map_err(|error| s3_error!(InternalError, "{error:?}"))?;
        let (head, body) = answer.into_parts();
        let mut response = S3Response::with_status(body, head.status);
        response.headers = head.headers;
        Ok(response)
    }
}

/// The target without its signature.
fn unsigned(uri: &Uri) -> Uri {
    let query = uri.query().unwrap_or_default();
    let kept = query.split('&').filter(|pair| !pair.starts_with("X-Amz-Signature="));
    let target = format!("{}?{}", uri.path(), kept.collect::<Vec<_>>().join("&"));
    // It was part of one that was read.
    target.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_served_and_all_else_passed_over() {
        let served = |values: &[&'static str]| {
            is_served(&values.iter().map(|value| (RANGE, HeaderValue::from_static(value))).collect())
        };
        for value in ["bytes=0-0", "bytes=5-", "bytes=-5"] {
            assert!(served(&[value]), "{value}");
        }
        assert!(served(&[]) && !served(&["bytes=0-1", "bytes=3-4"]));
        for value in ["bytes=0-0,5-6", "bytes=5-2", "bytes=0-99999999999999999999", "lines=1-2", "0-1", ""] {
            assert!(!served(&[value]), "{value}");
        }
    }

    #[test]
    fn a_range_of_another_object_is_none() {
        let info = ObjectInfo {
            key: String::new(),
            size: 9,
            etag: "aa".to_owned(),
            modified_unix_ns: 1_000_000_000_500_000_000,
            version: 0,
            metadata: Default::default(),
            part_sizes: Vec::new(),
            class: None,
        };
        let holds = |value: &'static str| if_range(&HeaderMap::from_iter([(IF_RANGE, value.parse().unwrap())]), &info);
        assert!(holds("\"aa\"") && holds("Sun, 09 Sep 2001 01:46:40 GMT") && if_range(&HeaderMap::new(), &info));
        for other in ["\"bb\"", "W/\"aa\"", "aa", "*", "Sun, 09 Sep 2001 01:46:41 GMT", ""] {
            assert!(!holds(other), "{other}");
        }
    }
}
