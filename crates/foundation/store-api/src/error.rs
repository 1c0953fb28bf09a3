//! Errors of a store: an error's kind is what its caller does next.

use std::fmt;

use shingle_base::printable;

use crate::upload_id::UploadId;

/// The result of a store call.
pub type StoreResult<T> = Result<T, StoreError>;

/// The caller's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// There is no bucket of that name.
    NoSuchBucket,
    /// The bucket has no object of that key.
    NoSuchKey,
    /// There is no such upload: it was completed or aborted, or never begun.
    NoSuchUpload,
    /// A bucket of that name exists.
    BucketExists,
    /// The bucket holds objects or uploads; delete them first.
    BucketNotEmpty,
    /// A [`Condition`](crate::Condition) does not hold; nothing was written.
    PreconditionFailed,
    /// A part named at completion does not exist, or its ETag differs.
    InvalidPart,
    /// The parts named at completion are not in ascending order.
    InvalidPartOrder,
    /// A part other than the last is smaller than the least size.
    PartTooSmall,
    /// The object is larger than the store takes.
    TooLarge,
    /// The request makes no sense; the message says why.
    Invalid,
    /// There is no room. Nothing was written; delete something or add a drive.
    NoSpace,
    /// Stored bytes failed their check. Reading again will not help.
    Corrupt,
    /// A drive failed the command; other objects may be fine.
    Device,
    /// The store has too much to do; retry later.
    Busy,
    /// The store is shutting down or has stopped, or the drive with the bytes is away; they are not lost.
    Unavailable,
}

/// A failed store call: what to do next, and the words for a person.
#[derive(Debug)]
pub struct StoreError {
    /// The caller's next action.
    pub kind: StoreErrorKind,
    /// Description for a person, with the place.
    pub message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl StoreError {
    /// An error of `kind` that says `message`.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// There is no such bucket.
    pub fn no_bucket(bucket: &str) -> Self {
        Self::new(StoreErrorKind::NoSuchBucket, format!("there is no bucket `{bucket}`"))
    }

    /// There is no such object.
    pub fn no_key(bucket: &str, key: &str) -> Self {
        Self::new(StoreErrorKind::NoSuchKey, format!("bucket `{bucket}` has no object `{key}`"))
    }

    /// There is no such upload.
    pub fn no_upload(id: UploadId) -> Self {
        Self::new(StoreErrorKind::NoSuchUpload, format!("there is no upload `{id}` of this key"))
    }

    /// The same error of a call about an object: if there is no room, bytes are damaged or a drive failed, the message
    /// names the object.
    #[must_use]
    pub fn about(mut self, bucket: &str, key: &str) -> Self {
        if matches!(self.kind, StoreErrorKind::NoSpace | StoreErrorKind::Corrupt | StoreErrorKind::Device) {
            let (bucket, key) = (printable(bucket.as_bytes()), printable(key.as_bytes()));
            self.message = format!("{bucket}/{key}: {}", self.message);
        }
        self
    }

    /// As [`StoreError::new`], caused by `source`.
    pub fn caused(
        kind: StoreErrorKind,
        message: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self { kind, message: message.into(), source: Some(Box::new(source)) }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
