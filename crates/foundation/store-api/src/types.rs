//! Arguments and results of store calls.

use std::collections::BTreeMap;

use crate::error::{StoreError, StoreErrorKind, StoreResult};
use crate::upload_id::UploadId;

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketInfo {
    /// Its name.
    pub name: String,
    /// When it was created, in seconds since 1970.
    pub created_unix_s: u64,
    /// Name of its objects' site, if the store has several sites and it is not the first of them.
    pub location: Option<String>,
}

/// Name of a site, in a store that is made of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteName<'a> {
    /// The site of that name.
    Location(&'a str),
    /// The site of that storage class.
    Class(&'a str),
}

/// Attributes stored with an object beside its bytes. The store keeps them and does not look into them.
///
/// Front ends choose the names: the S3 gateway keeps `content-type`, other standard headers, `x-amz-meta-*` and
/// `x-amz-checksum-*` under their header names in lower case.
pub type Metadata = BTreeMap<String, String>;

/// An object, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its key.
    pub key: String,
    /// Its length in bytes.
    pub size: u64,
    /// Its ETag, without quotes.
    pub etag: String,
    /// When it was committed, in nanoseconds since 1970.
    pub modified_unix_ns: u64,
    /// Its version: rises with every commit to the store.
    pub version: u64,
    /// Attributes stored with it.
    pub metadata: Metadata,
    /// The sizes of its parts in order, if it was uploaded in parts; else empty.
    pub part_sizes: Vec<u64>,
    /// Its storage class, if the store has several and it is not the standard one.
    pub class: Option<String>,
}

/// Requirements on the object's present version when a write is committed. All given parts must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The key must not exist (`If-None-Match: *`).
    pub absent: bool,
    /// The object must exist with this ETag, without quotes (`If-Match`); `*` stands for any.
    pub etag: Option<String>,
}

impl Condition {
    /// Checks an object whose ETag is `etag`, or a missing object.
    ///
    /// # Errors
    /// `PreconditionFailed`.
    pub fn check(&self, etag: Option<&str>) -> StoreResult<()> {
        let failed = |message: &str| Err(StoreError::new(StoreErrorKind::PreconditionFailed, message));
        if self.absent && etag.is_some() {
            return failed("the object exists");
        }
        match (&self.etag, etag) {
            (None, _) => Ok(()),
            (Some(_), None) => failed("the object does not exist"),
            (Some(wanted), Some(etag)) if wanted == "*" || wanted == etag => Ok(()),
            (Some(_), Some(_)) => failed("the object's ETag is another"),
        }
    }
}

/// Attributes of an object, known once its last byte has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// The ETag to store, without quotes.
    pub etag: String,
    /// Attributes to store with the object.
    pub metadata: Metadata,
    /// Requirement for the commit.
    pub condition: Condition,
}

/// Selection of keys to list. Keys are ordered by their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// Only keys that begin with this.
    pub prefix: String,
    /// If given and not empty, keys with equal bytes between the prefix and the first delimiter behind it are rolled
    /// into one common prefix.
    pub delimiter: Option<String>,
    /// Only keys and common prefixes after this one.
    pub after: Option<String>,
    /// At most this many keys and common prefixes together.
    pub limit: usize,
}

impl ListRequest {
    /// The common prefix that a key is rolled into, if it is.
    pub fn common_prefix<'a>(&self, key: &'a str) -> Option<&'a str> {
        let delimiter = self.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty())?;
        common_prefix(key, &self.prefix, delimiter)
    }
}

/// A key up to and with the first delimiter behind the prefix, if there is one.
pub fn common_prefix<'a>(key: &'a str, prefix: &str, delimiter: &str) -> Option<&'a str> {
    let at = key.strip_prefix(prefix)?.find(delimiter)?;
    key.get(..prefix.len() + at + delimiter.len())
}

/// Result of a listing. Objects and common prefixes are each in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The objects.
    pub objects: Vec<ObjectInfo>,
    /// The common prefixes, delimiter included.
    pub common_prefixes: Vec<String>,
    /// `ListRequest::after` of the next page, if there is more.
    pub next: Option<String>,
}

/// An upload in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadInfo {
    /// Its identity.
    pub id: UploadId,
    /// The key it will become.
    pub key: String,
    /// When it was begun, in nanoseconds since 1970.
    pub initiated_unix_ns: u64,
    /// Attributes to be stored with the object.
    pub metadata: Metadata,
    /// The storage class it will have, as in [`ObjectInfo::class`].
    pub class: Option<String>,
}

/// Uploads in progress, ordered by key, then id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadListing {
    /// The uploads.
    pub uploads: Vec<UploadInfo>,
    /// True if there are more.
    pub truncated: bool,
}

/// A part of an upload in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartInfo {
    /// Its number, 1 to 10,000.
    pub number: u32,
    /// Its length in bytes.
    pub size: u64,
    /// Its ETag, without quotes.
    pub etag: String,
    /// When it was written, in nanoseconds since 1970.
    pub modified_unix_ns: u64,
    /// Attributes stored with it (checksums).
    pub metadata: Metadata,
}

/// A part named at completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedPart {
    /// Its number.
    pub number: u32,
    /// Its ETag as the client was told, without quotes.
    pub etag: String,
}

impl CompletedPart {
    /// Checks that a completion names parts, in order.
    ///
    /// # Errors
    /// `Invalid`, `InvalidPartOrder`.
    pub fn check(parts: &[Self]) -> StoreResult<()> {
        if parts.is_empty() {
            return Err(StoreError::new(StoreErrorKind::Invalid, "an upload is completed with at least one part"));
        }
        if !parts.is_sorted_by(|a, b| a.number < b.number) {
            return Err(StoreError::new(StoreErrorKind::InvalidPartOrder, "the parts are not in ascending order"));
        }
        Ok(())
    }

    /// The parts that a completion names, in its order. `find` has the part of a number, and `about` the ETag and size of
    /// a part; all but the last need `bytes_min` bytes.
    ///
    /// # Errors
    /// `InvalidPart`, `PartTooSmall`.
    pub fn choose<P>(
        named: &[Self],
        bytes_min: u64,
        mut find: impl FnMut(u32) -> Option<P>,
        about: impl Fn(&P) -> (&str, u64),
    ) -> StoreResult<Vec<P>> {
        let mut chosen = Vec::with_capacity(named.len());
        for (at, Self { number, etag }) in named.iter().enumerate() {
            let Some(part) = find(*number).filter(|part| about(part).0 == etag) else {
                let message = format!("part {number} was not uploaded, or has another ETag");
                return Err(StoreError::new(StoreErrorKind::InvalidPart, message));
            };
            let (_, size) = about(&part);
            if at + 1 < named.len() && size < bytes_min {
                let message = format!("part {number} has {size} bytes; all but the last need {bytes_min}");
                return Err(StoreError::new(StoreErrorKind::PartTooSmall, message));
            }
            chosen.push(part);
        }
        Ok(chosen)
    }
}

/// Fill level of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Bytes that can be written now, or after gc.
    pub available_bytes: u64,
    /// Bytes of live objects.
    pub live_bytes: u64,
    /// Live objects.
    pub objects: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_hold_of_an_object_or_of_none() {
        let failed = |condition: &Condition, etag| {
            condition.check(etag).is_err_and(|error| error.kind == StoreErrorKind::PreconditionFailed)
        };
        let of = |absent, etag: Option<&str>| Condition { absent, etag: etag.map(str::to_owned) };
        for (condition, holds_of) in [
            (of(false, None), [true, true, true]),
            (of(true, None), [true, false, false]),
            (of(false, Some("*")), [false, true, true]),
            (of(false, Some("a")), [false, true, false]),
            (of(true, Some("a")), [false, false, false]),
        ] {
            assert_eq!([None, Some("a"), Some("b")].map(|etag| !failed(&condition, etag)), holds_of, "{condition:?}");
        }
    }

    #[test]
    fn common_prefixes_end_with_the_delimiter() {
        assert_eq!(common_prefix("a/b/c", "", "/"), Some("a/"));
        assert_eq!(common_prefix("a/b/c", "a/", "/"), Some("a/b/"));
        assert_eq!(common_prefix("a/bc", "a/b", "/"), None);
        assert_eq!(common_prefix("üaüb", "", "üb"), Some("üaüb"));
        let request = ListRequest { delimiter: Some(String::new()), ..ListRequest::default() };
        assert_eq!(request.common_prefix("a/b"), None);
    }
}
