//! Errors as clients see them.

use hyper::StatusCode;
use s3s::{S3Error, S3ErrorCode, StdError, s3_error};
use shingle_store_api::{StoreError, StoreErrorKind};

/// Status and code that a client of S3 is told of a store's error.
pub fn told_of(error: &StoreError) -> (u16, String) {
    let error = s3_error_of(error);
    let status = error.status_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status.as_u16(), error.code().as_str().to_owned())
}

/// The S3 error of a store's error, and a line of the log if it is a failure of the store's own.
pub(crate) fn of_store(error: StoreError) -> S3Error {
    let told = s3_error_of(&error);
    if *told.code() == S3ErrorCode::InternalError {
        // Clients get no place on a drive; the log has it.
        let cause = std::error::Error::source(&error).map(tracing::field::display);
        tracing::error!(kind = ?error.kind, cause, "{}", error.message);
    }
    told
}

/// S3 has no code for a full store: it is answered 507 `InsufficientStorage`, which clients do not retry.
fn s3_error_of(error: &StoreError) -> S3Error {
    let code = match error.kind {
        StoreErrorKind::NoSuchBucket => S3ErrorCode::NoSuchBucket,
        StoreErrorKind::NoSuchKey => S3ErrorCode::NoSuchKey,
        StoreErrorKind::NoSuchUpload => S3ErrorCode::NoSuchUpload,
        StoreErrorKind::BucketExists => S3ErrorCode::BucketAlreadyOwnedByYou,
        StoreErrorKind::BucketNotEmpty => S3ErrorCode::BucketNotEmpty,
        StoreErrorKind::PreconditionFailed => S3ErrorCode::PreconditionFailed,
        StoreErrorKind::InvalidPart => S3ErrorCode::InvalidPart,
        StoreErrorKind::InvalidPartOrder => S3ErrorCode::InvalidPartOrder,
        StoreErrorKind::PartTooSmall => S3ErrorCode::EntityTooSmall,
        StoreErrorKind::TooLarge => S3ErrorCode::EntityTooLarge,
        StoreErrorKind::Invalid => S3ErrorCode::InvalidArgument,
        StoreErrorKind::NoSpace => {
            return with_status("InsufficientStorage", StatusCode::INSUFFICIENT_STORAGE, error.message.clone());
        }
        StoreErrorKind::Busy => S3ErrorCode::SlowDown,
        StoreErrorKind::Unavailable => S3ErrorCode::ServiceUnavailable,
        // Corrupt, Device, and kinds that are added later.
        _ => S3ErrorCode::InternalError,
    };
    S3Error::with_message(code, error.message.clone())
}

/// An error that `s3s` has no code for.
pub(crate) fn with_status(code: &'static str, status: StatusCode, message: impl Into<String>) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), message.into());
    error.set_status_code(status);
    error
}

/// A fault in a request's body, found by this crate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// Too little came for too long.
    Stalled,
    /// The chunks it is framed in are none.
    Framing,
    /// It is XML that is not served; the answer is left with the body's fate.
    Xml,
    /// A signed chunk is larger than is held in memory.
    ChunkTooLarge,
    /// There is no memory for it; the answer is left with the body's fate.
    NoMemory,
}

impl std::fmt::Display for BodyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Stalled => "too little of the body came for too long",
            Self::Framing => "the body is not framed as aws-chunked",
            Self::Xml => "the body is not the XML that was expected",
            Self::ChunkTooLarge => "a signed chunk of the body is larger than 8 MiB; use smaller chunks",
            Self::NoMemory => "there is no memory for the body at present",
        })
    }
}

impl std::error::Error for BodyError {}

/// The S3 error of a body that failed while it was read.
///
/// `s3s` wraps our errors in types of its own that are not public, and its own likewise: the words decide. The tests
/// of every case would notice if they changed.
pub(crate) fn of_body(error: &StdError) -> S3Error {
    let words = error.to_string();
    let is = |ours: BodyError| words.contains(&ours.to_string());
    if is(BodyError::Stalled) {
        return s3_error!(RequestTimeout, "{}", BodyError::Stalled);
    }
    if is(BodyError::ChunkTooLarge) {
        return s3_error!(InvalidRequest, "{}", BodyError::ChunkTooLarge);
    }
    if words.contains("Sha256Mismatch") {
        let message = "the body's SHA-256 is not the one in x-amz-content-sha256";
        return with_status("XAmzContentSHA256Mismatch", StatusCode::BAD_REQUEST, message);
    }
    if words.contains("SignatureMismatch") {
        return s3_error!(SignatureDoesNotMatch, "a chunk of the body does not match its signature");
    }
    if words.contains("FormatError")
        || words.contains("TooLarge")
        || words.contains("TooMany")
        || is(BodyError::Framing)
    {
        return s3_error!(InvalidRequest, "{}", BodyError::Framing);
    }
    s3_error!(IncompleteBody, "the body ended before its stated length: {words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_store_is_not_retried() {
        let error = of_store(StoreError::new(StoreErrorKind::NoSpace, "no room"));
        assert_eq!(error.status_code(), Some(StatusCode::INSUFFICIENT_STORAGE));
        assert_eq!(error.code().as_str(), "InsufficientStorage");
        assert_eq!(error.message(), Some("no room"));
    }

    #[test]
    fn every_kind_has_a_status() {
        use StoreErrorKind as K;
        let statuses = [
            (K::NoSuchBucket, 404),
            (K::NoSuchKey, 404),
            (K::NoSuchUpload, 404),
            (K::BucketExists, 409),
            (K::BucketNotEmpty, 409),
            (K::PreconditionFailed, 412),
            (K::InvalidPart, 400),
            (K::InvalidPartOrder, 400),
            (K::PartTooSmall, 400),
            (K::TooLarge, 400),
            (K::Invalid, 400),
            (K::Corrupt, 500),
            (K::Device, 500),
            (K::Busy, 503),
            (K::Unavailable, 503),
        ];
        for (kind, status) in statuses {
            let error = of_store(StoreError::new(kind, "words"));
            assert_eq!(error.status_code().map(|s| s.as_u16()), Some(status), "{kind:?}");
        }
    }
}
