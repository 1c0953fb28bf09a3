//! The time of a signed request, where it says so by `Date` alone: the adapter reads it from `x-amz-date`.
//!
//! Nothing is taken on trust: the signature covers the time, under either name.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, DATE, HeaderValue};
use s3s::dto::{Timestamp, TimestampFormat};

const X_AMZ_DATE: &str = "x-amz-date";

/// Gives a request that is signed in its headers an `x-amz-date`, if its `Date` says the same.
pub(crate) fn complete(headers: &mut HeaderMap) {
    if !headers.contains_key(AUTHORIZATION) || headers.contains_key(X_AMZ_DATE) {
        return;
    }
    let date = headers.get(DATE).and_then(|date| amz_date(date.to_str().ok()?));
    if let Some(date) = date.and_then(|date| HeaderValue::try_from(date).ok()) {
        headers.insert(X_AMZ_DATE, date);
    }
}

/// `Mon, 23 Nov 2026 14:10:00 GMT` as `20261123T141000Z`; a date in that form stays as it is.
fn amz_date(date: &str) -> Option<String> {
    let is_basic = |text: &str| {
        let kinds = text.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
        kinds.eq(*b"00000000T000000Z")
    };
    if is_basic(date) {
        return Some(date.to_owned());
    }
    let mut text = Vec::new();
    Timestamp::parse(TimestampFormat::HttpDate, date).ok()?.format(TimestampFormat::DateTime, &mut text).ok()?;
    // `2026-11-23T14:10:00.000Z`, with or without a fraction.
    let mut text = String::from_utf8(text).ok()?.replace(['-', ':'], "");
    if let (Some(from), Some(to)) = (text.find('.'), text.find('Z')) {
        text.replace_range(from..to, "");
    }
    is_basic(&text).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_of_http_is_one_of_a_signature() {
        assert_eq!(amz_date("Mon, 23 Nov 2026 14:10:09 GMT").as_deref(), Some("20261123T141009Z"));
        assert_eq!(amz_date("20261123T141009Z").as_deref(), Some("20261123T141009Z"));
        for none in ["", "yesterday", "2026-11-23T14:10:09Z", "20261123T141009", "Mon, 23 Nov 2026"] {
            assert_eq!(amz_date(none), None, "{none}");
        }
    }

    #[test]
    fn only_a_signed_request_without_a_date_of_its_own_gets_one() {
        let headers = |named: &[(&'static str, &'static str)]| {
            let mut headers: HeaderMap =
                named.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect();
            complete(&mut headers);
            headers.get(X_AMZ_DATE).map(|value| value.to_str().unwrap().to_owned())
        };
        let date = ("date", "Mon, 23 Nov 2026 14:10:09 GMT");
        assert_eq!(headers(&[date, ("authorization", "AWS4-HMAC-SHA256 x")]).as_deref(), Some("20261123T141009Z"));
        assert_eq!(headers(&[date]), None);
        let own = [date, ("authorization", "x"), ("x-amz-date", "20200101T000000Z")];
        assert_eq!(headers(&own).as_deref(), Some("20200101T000000Z"));
    }
}
