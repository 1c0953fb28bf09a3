//! Refuses requests before `s3s` sees them.
//!
//! **Owns** the part of GW-S3-1 and GW-S3-4 that `s3s` leaves open: older signatures, two signatures, signatures for other services,
//! URLs that live too long, unsigned headers, forms, sizes.

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use s3s::{S3Result, s3_error};

use crate::errors::with_status;
use crate::framing::Framing;
use crate::options::{HEAD_BYTES_MAX, TARGET_BYTES_MAX};

/// Seconds that a presigned URL lives at most: a week.
const PRESIGNED_SECONDS_MAX: u32 = 604_800;

/// Refuses what must not reach the service.
///
/// # Errors
/// The answer to give.
pub(crate) fn check(head: &Parts) -> S3Result<()> {
    sizes(head)?;
    if head.method == Method::POST && starts_with(&head.headers, CONTENT_TYPE, "multipart/") {
        return Err(s3_error!(NotImplemented, "uploads by HTML form are not served"));
    }
    let query: Vec<(String, String)> = query_of(head.uri.query()).collect();
    let named = |name: &str| query.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    let authorization = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let other_mechanism = authorization.is_some_and(|value| !value.starts_with("AWS4-HMAC-SHA256"));
    if other_mechanism || named("Signature").is_some() {
        return Err(s3_error!(
            InvalidRequest,
            "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256 (boto3 makes presigned URLs so with Config(signature_version='s3v4'))."
        ));
    }
    if authorization.is_some() && named("X-Amz-Algorithm").is_some() {
        return Err(s3_error!(
            InvalidArgument,
            "Only one auth mechanism allowed: the request has an Authorization header and a signature in its query."
        ));
    }
    named("X-Amz-Expires").map_or(Ok(()), lifetime)?;
    // A request that has both is not refused above if its query lacks the algorithm; then the header's counts.
    for credential in [named("X-Amz-Credential"), authorization.and_then(credential)].into_iter().flatten() {
        if scope(credential, 1).is_some_and(is_no_date) {
            return Err(s3_error!(AuthorizationHeaderMalformed, "The date of the credential is none."));
        }
        // `s3s` takes signatures for `sts`, too, and for those bodies whose digest is not stated: nothing would check them.
        if scope(credential, 3).is_some_and(|service| service != "s3") {
            return Err(s3_error!(AuthorizationHeaderMalformed, "The credential is for another service than s3."));
        }
    }
    let date = head.headers.get("x-amz-date").map(|value| String::from_utf8_lossy(value.as_bytes()));
    if date.as_deref().is_some_and(is_no_date) || named("X-Amz-Date").is_some_and(is_no_date) {
        return Err(s3_error!(AccessDenied, "X-Amz-Date is no date of the form 20260131T235959Z."));
    }
    let signed = match named("X-Amz-SignedHeaders") {
        Some(names) => Some(names),
        None => authorization.and_then(signed_headers),
    };
    signed.map_or(Ok(()), |names| all_are_signed(&head.headers, names))
}

/// A presigned URL lives for a week at most.
fn lifetime(seconds: &str) -> S3Result<()> {
    if seconds.parse::<u32>().is_ok_and(|seconds| (1..=PRESIGNED_SECONDS_MAX).contains(&seconds)) {
        return Ok(());
    }
    let message = format!("X-Amz-Expires must be 1 to {PRESIGNED_SECONDS_MAX} seconds (a week).");
    Err(with_status("AuthorizationQueryParametersError", StatusCode::BAD_REQUEST, message))
}

fn sizes(head: &Parts) -> S3Result<()> {
    let bytes: usize = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if bytes > HEAD_BYTES_MAX {
        return Err(s3_error!(
            RequestHeaderSectionTooLarge,
            "Your request header section of {bytes} bytes exceeds the maximum of {HEAD_BYTES_MAX}."
        ));
    }
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    if target > TARGET_BYTES_MAX {
        let message = format!("the request's target of {target} bytes exceeds the maximum of {TARGET_BYTES_MAX}");
        return Err(with_status("RequestURITooLong", StatusCode::URI_TOO_LONG, message));
    }
    Ok(())
}

/// The parameters of a query, decoded: a `+` is a space, an escape that is none stays as it is, and bytes that are no UTF-8 become
/// U+FFFD.
pub(crate) fn query_of(query: Option<&str>) -> impl Iterator<Item = (String, String)> {
    form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned()
}

fn starts_with(headers: &HeaderMap, name: HeaderName, prefix: &str) -> bool {
    let values = headers.get_all(name);
    values.iter().any(|value| value.as_bytes().trim_ascii().to_ascii_lowercase().starts_with(prefix.as_bytes()))
}

/// The access key with its scope.
fn credential(authorization: &str) -> Option<&str> {
    let (_, from) = authorization.split_once("Credential=")?;
    from.split(',').next().map(str::trim)
}

/// A part of the scope of a credential, which is `KEY/DAY/REGION/SERVICE/aws4_request`.
fn scope(credential: &str, part: usize) -> Option<&str> {
    credential.split('/').nth(part)
}

/// Digits, and letters between them, are left to `s3s`, which subtracts from other bytes before it looks at them: that
/// overflows below `0`.
fn is_no_date(text: &str) -> bool {
    text.bytes().any(|byte| byte < b'0')
}

fn signed_headers(authorization: &str) -> Option<&str> {
    let (_, from) = authorization.split_once("SignedHeaders=")?;
    from.split(',').next().map(str::trim)
}

/// Headers that change a request's effect must be under its signature: a man in the middle could else add them.
fn all_are_signed(headers: &HeaderMap, names: &str) -> S3Result<()> {
    let is_signed = |name: &str| names.split(';').any(|signed| signed.eq_ignore_ascii_case(name));
    // These two are signed in another way, or mean nothing here.
    let exempt = ["x-amz-content-sha256", "x-amz-user-agent"];
    let unsigned = headers
        .keys()
        .map(HeaderName::as_str)
        .filter(|name| *name == "host" || name.starts_with("x-amz-") && !exempt.contains(name))
        .find(|name| !is_signed(name));
    match unsigned {
        Some(name) => {
            Err(s3_error!(AccessDenied, "There were headers present in the request which were not signed: {name}"))
        }
        None => Ok(()),
    }
}

/// Framing of the body inside HTTP: aws-chunked, or none.
pub(crate) fn framing(headers: &HeaderMap) -> Option<Framing> {
    let kind = headers.get("x-amz-content-sha256")?.to_str().ok()?;
    let rest = kind.strip_prefix("STREAMING-")?;
    Some(Framing::new(!rest.starts_with("UNSIGNED-")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn code(method: &str, target: &str, headers: &[(&'static str, &str)]) -> Option<String> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        check(&head).err().map(|error| error.code().as_str().to_owned())
    }

    const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=A/20260101/us-east-1/s3/aws4_request, \
                          SignedHeaders=host;x-amz-date, Signature=00";

    #[test]
    fn older_signatures_are_refused_however_they_are_written() {
        let refused = Some("InvalidRequest".to_owned());
        assert_eq!(code("GET", "/b", &[("authorization", "AWS key:sig")]), refused);
        assert_eq!(code("GET", "/b", &[("authorization", "Basic eDp5")]), refused);
        assert_eq!(code("GET", "/b?AWSAccessKeyId=a&Signature=s&Expires=1", &[]), refused);
        assert_eq!(code("GET", "/b?%53ignature=s", &[]), refused);
    }

    #[test]
    fn a_date_has_digits() {
        let malformed = Some("AuthorizationHeaderMalformed".to_owned());
        let host = ("host", "h");
        for day in ["2026010!", "2026 101", "-2026101"] {
            let credential = format!("A/{day}/us-east-1/s3/aws4_request");
            let header = format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=00");
            assert_eq!(code("GET", "/b", &[("authorization", &header), host]), malformed, "{day}");
            let credential = credential.replace(' ', "+");
            let query = format!("/b?X-Amz-SignedHeaders=host&X-Amz-Credential={credential}");
            assert_eq!(code("GET", &query, &[host]), malformed, "{day}");
        }
        let denied = Some("AccessDenied".to_owned());
        for time in ["20260101T0000-1Z", "2026-101T000000Z", "20260101T 00000Z"] {
            assert_eq!(code("GET", "/b", &[("x-amz-date", time)]), denied, "{time}");
            assert_eq!(code("GET", &format!("/b?X-Amz-Date={}", time.replace(' ', "+")), &[]), denied, "{time}");
        }
        assert_eq!(code("GET", "/b?X-Amz-Date=20260101T000000Z", &[("x-amz-date", "20260101T000000Z")]), None);
        let slashes = "/b?X-Amz-SignedHeaders=host&X-Amz-Credential=A%2F20260101%2Fus-east-1%2Fs3%2Faws4_request";
        assert_eq!(code("GET", slashes, &[host]), None);
    }

    /// GW-S3-1: for another service `s3s` takes bodies whose digest is not stated, which nothing here checks.
    #[test]
    fn a_signature_is_for_s3_and_for_no_other_service() {
        let host = ("host", "h");
        for service in ["sts", "S3", "", "s3express"] {
            let credential = format!("A/20260101/us-east-1/{service}/aws4_request");
            let header = format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=00");
            let malformed = Some("AuthorizationHeaderMalformed".to_owned());
            assert_eq!(code("POST", "/b?delete", &[("authorization", &header), host]), malformed, "{service}");
            let query = format!("/b?X-Amz-SignedHeaders=host&X-Amz-Credential={credential}");
            assert_eq!(code("GET", &query, &[host]), malformed, "{service}");
            // The one that counts is the header's.
            let other = "/b?delete&X-Amz-Credential=A%2F20260101%2Fus-east-1%2Fs3%2Faws4_request";
            assert_eq!(code("POST", other, &[("authorization", &header), host]), malformed, "{service}");
        }
        assert_eq!(code("GET", "/b", &[("authorization", SIGNED), host]), None);
    }

    #[test]
    fn headers_that_mean_something_must_be_signed() {
        let denied = Some("AccessDenied".to_owned());
        let auth = ("authorization", SIGNED);
        assert_eq!(code("PUT", "/b/k", &[auth, ("host", "h"), ("x-amz-date", "d")]), None);
        assert_eq!(code("PUT", "/b/k", &[auth, ("host", "h"), ("x-amz-content-sha256", "d")]), None);
        assert_eq!(code("PUT", "/b/k", &[auth, ("x-amz-copy-source", "b/secret")]), denied);
        let presigned = "/b/k?X-Amz-SignedHeaders=host&X-Amz-Signature=00";
        assert_eq!(code("PUT", presigned, &[("host", "h")]), None);
        assert_eq!(code("PUT", presigned, &[("x-amz-meta-a", "1")]), denied);
        let without_host = "/b/k?X-Amz-SignedHeaders=x-amz-date&X-Amz-Signature=00";
        assert_eq!(code("PUT", without_host, &[("host", "h")]), denied);
    }

    #[test]
    fn a_form_is_refused() {
        let unserved = Some("NotImplemented".to_owned());
        assert_eq!(code("POST", "/b", &[("content-type", "Multipart/Form-Data; boundary=x")]), unserved);
    }

    #[test]
    fn a_presigned_url_lives_a_week_at_most_and_is_the_only_signature() {
        let wrong = Some("AuthorizationQueryParametersError".to_owned());
        for expires in ["604801", "31536000", "0", "-1", "", "soon"] {
            assert_eq!(code("GET", &format!("/b/k?X-Amz-Expires={expires}"), &[]), wrong, "{expires}");
        }
        assert_eq!(code("GET", "/b/k?X-Amz-Expires=604800", &[]), None);
        let both = code("GET", "/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256", &[("authorization", SIGNED)]);
        assert_eq!(both, Some("InvalidArgument".to_owned()));
    }

    #[test]
    fn heads_have_a_limit() {
        let long = "v".repeat(17 << 10);
        assert_eq!(code("GET", "/b", &[("x-long", &long)]), Some("RequestHeaderSectionTooLarge".to_owned()));
        assert_eq!(code("GET", &format!("/b/{long}"), &[]), Some("RequestURITooLong".to_owned()));
    }

    #[test]
    fn a_streamed_body_is_framed() {
        let framed = |value: &'static str| {
            framing(&HeaderMap::from_iter([("x-amz-content-sha256".parse().unwrap(), value.parse().unwrap())]))
                .is_some()
        };
        assert!(framed("STREAMING-UNSIGNED-PAYLOAD-TRAILER"));
        assert!(framed("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"));
        assert!(!framed("UNSIGNED-PAYLOAD"));
    }
}
