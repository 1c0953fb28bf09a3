//! Headers that S3 keeps with an object: from a request into the store's metadata, and from there into an answer.

use std::time::{Duration, SystemTime};

use s3s::dto::{self, Timestamp, TimestampFormat};
use s3s::{S3Result, s3_error};
use shingle_store_api::Metadata;

use crate::options::USER_METADATA_BYTES_MAX;

/// Prefix of the names of user metadata.
const USER_PREFIX: &str = "x-amz-meta-";
/// The content type of an object without one, as in S3.
const TYPE_DEFAULT: &str = "binary/octet-stream";

/// Headers of a request that creates an object.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) cache_control: Option<String>,
    pub(crate) content_disposition: Option<String>,
    pub(crate) content_encoding: Option<String>,
    pub(crate) content_language: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) user: Option<dto::Metadata>,
}

/// [`Given`] of a request that has those fields, which are taken out of it.
macro_rules! given {
    ($input:expr) => {
        $crate::headers::Given {
            cache_control: $input.cache_control.take(),
            content_disposition: $input.content_disposition.take(),
            content_encoding: $input.content_encoding.take(),
            content_language: $input.content_language.take(),
            content_type: $input.content_type.take(),
            expires: $input.expires.take(),
            user: $input.metadata.take(),
        }
    };
}
pub(crate) use given;

impl Given {
    /// As the store keeps it.
    ///
    /// # Errors
    /// `MetadataTooLarge` where names and values of user metadata take more than 2 KiB.
    pub(crate) fn into_metadata(self) -> S3Result<Metadata> {
        let mut metadata = Metadata::new();
        let mut put = |name: &str, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                metadata.insert(name.to_owned(), value);
            }
        };
        put("cache-control", self.cache_control);
        put("content-disposition", self.content_disposition);
        put("content-encoding", self.content_encoding.and_then(|value| without_framing(&value)));
        put("content-language", self.content_language);
        put("content-type", self.content_type);
        put("expires", self.expires.as_ref().map(http_date));
        let mut bytes = 0;
        for (name, value) in self.user.into_iter().flatten() {
            bytes += name.len() + value.len();
            metadata.insert(format!("{USER_PREFIX}{}", name.to_ascii_lowercase()), value);
        }
        if bytes > USER_METADATA_BYTES_MAX {
            let message = "Your metadata headers exceed the maximum allowed metadata size";
            return Err(s3_error!(MetadataTooLarge, "{message}: {bytes} of {USER_METADATA_BYTES_MAX} bytes"));
        }
        Ok(metadata)
    }
}

/// `aws-chunked` describes the request's framing, not the object.
fn without_framing(value: &str) -> Option<String> {
    let is_framing = |item: &&str| item.eq_ignore_ascii_case("aws-chunked");
    if !value.split(',').map(str::trim).any(|item| is_framing(&item)) {
        return Some(value.to_owned());
    }
    let kept: Vec<_> = value.split(',').map(str::trim).filter(|item| !is_framing(item)).collect();
    (!kept.is_empty()).then(|| kept.join(", "))
}

/// Fills an answer's headers from stored metadata.
macro_rules! fill_headers {
    ($output:expr, $metadata:expr) => {{
        let metadata: &shingle_store_api::Metadata = $metadata;
        $output.cache_control = metadata.get("cache-control").cloned();
        $output.content_disposition = metadata.get("content-disposition").cloned();
        $output.content_encoding = metadata.get("content-encoding").cloned();
        $output.content_language = metadata.get("content-language").cloned();
        $output.content_type = Some($crate::headers::content_type(metadata));
        $output.expires = $crate::headers::expires(metadata);
        $output.metadata = $crate::headers::user_metadata(metadata);
    }};
}
pub(crate) use fill_headers;

pub(crate) fn content_type(metadata: &Metadata) -> String {
    metadata.get("content-type").cloned().unwrap_or_else(|| TYPE_DEFAULT.to_owned())
}

pub(crate) fn expires(metadata: &Metadata) -> Option<Timestamp> {
    Timestamp::parse(TimestampFormat::HttpDate, metadata.get("expires")?).ok()
}

pub(crate) fn user_metadata(metadata: &Metadata) -> Option<dto::Metadata> {
    let named = metadata.iter().filter_map(|(name, value)| Some((name.strip_prefix(USER_PREFIX)?, value)));
    let user: dto::Metadata = named.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    (!user.is_empty()).then_some(user)
}

/// A time of the store as S3 gives it: whole seconds, so that a date a client was told compares equal later.
pub(crate) fn timestamp(unix_ns: u64) -> Timestamp {
    timestamp_s(unix_ns / 1_000_000_000)
}

pub(crate) fn timestamp_s(unix_s: u64) -> Timestamp {
    // The largest year that a date can write is 9999.
    Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_secs(unix_s.min(253_402_300_799)))
}

pub(crate) fn http_date(time: &Timestamp) -> String {
    let mut text = Vec::new();
    // Writing to memory cannot fail, and every date has this form.
    let _ = time.format(TimestampFormat::HttpDate, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_were_given() {
        let given = Given {
            cache_control: Some("no-cache".to_owned()),
            content_encoding: Some("gzip, aws-chunked".to_owned()),
            content_type: Some(String::new()),
            expires: Some(timestamp(1_000_000_000_999_999_999)),
            user: Some([("Ab".to_owned(), "ü".to_owned())].into_iter().collect()),
            ..Given::default()
        };
        let metadata = given.into_metadata().unwrap();
        let mut output = dto::GetObjectOutput::default();
        fill_headers!(output, &metadata);
        assert_eq!(output.cache_control.as_deref(), Some("no-cache"));
        assert_eq!(output.content_encoding.as_deref(), Some("gzip"));
        assert_eq!(output.content_type.as_deref(), Some(TYPE_DEFAULT));
        assert_eq!(output.expires, Some(timestamp_s(1_000_000_000)));
        assert_eq!(output.metadata.unwrap().get("ab").map(String::as_str), Some("ü"));
        assert_eq!(without_framing("aws-chunked"), None);
        assert_eq!(without_framing("aws-chunked,gzip, br").as_deref(), Some("gzip, br"));
        assert_eq!(without_framing("deflate,  gzip").as_deref(), Some("deflate,  gzip"));
    }

    #[test]
    fn two_kib_of_user_metadata_are_the_limit() {
        let with = |bytes: usize| Given {
            user: Some([("n".to_owned(), "v".repeat(bytes - 1))].into_iter().collect()),
            ..Given::default()
        };
        assert!(with(2048).into_metadata().is_ok());
        assert_eq!(with(2049).into_metadata().unwrap_err().code().as_str(), "MetadataTooLarge");
    }
}
