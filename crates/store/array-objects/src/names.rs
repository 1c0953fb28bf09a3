//! Names in the array.
//!
//! The first byte says what it is; the order of names is the order in which keys, uploads and parts are listed. Bucket names
//! and keys have no zero byte, so it can stand between them.

use bytes::Bytes;
use shingle_array_store::NAME_MAX;
use shingle_store_api::UploadId;

/// A bucket: `b` and its name.
pub(crate) const BUCKET: u8 = b'b';
/// An object: `o`, bucket, zero, key.
pub(crate) const OBJECT: u8 = b'o';
/// An upload in progress: `u`, bucket, zero, key, zero, id.
const UPLOAD: u8 = b'u';
/// Bytes of an object or part: `d`, owner, number, tag.
pub(crate) const BLOB: u8 = b'd';

/// Keys are at most this long: S3's limit.
pub(crate) const KEY_MAX: usize = 1024;
/// Buckets' names are at most this long: an upload's name must fit with both.
pub(crate) const BUCKET_MAX: usize = NAME_MAX - KEY_MAX - 11;

/// Bytes that an object or a part consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Blob {
    /// The upload it is a part of; else a number of its own.
    pub(crate) owner: u64,
    /// The part's number; zero for an object that came whole.
    pub(crate) number: u16,
    /// Tells it from others that were written to take the same place.
    pub(crate) tag: u64,
}

impl Blob {
    pub(crate) fn name(self) -> Bytes {
        let mut name = vec![BLOB];
        name.extend(self.owner.to_be_bytes());
        name.extend(self.number.to_be_bytes());
        name.extend(self.tag.to_be_bytes());
        name.into()
    }

    /// The blob of that name; `None` if it is none.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        let (owner, rest) = name.strip_prefix(&[BLOB])?.split_first_chunk()?;
        let (number, tag) = rest.split_first_chunk()?;
        let tag = u64::from_be_bytes(tag.try_into().ok()?);
        Some(Self { owner: u64::from_be_bytes(*owner), number: u16::from_be_bytes(*number), tag })
    }

    /// Prefix of the names of all parts of an upload.
    pub(crate) fn prefix(owner: u64) -> Vec<u8> {
        let mut name = vec![BLOB];
        name.extend(owner.to_be_bytes());
        name
    }

    /// Prefix of the names of all blobs written for one part.
    pub(crate) fn part_prefix(owner: u64, number: u16) -> Vec<u8> {
        let mut name = Self::prefix(owner);
        name.extend(number.to_be_bytes());
        name
    }
}

fn with_kind(kind: u8, bucket: &str, key: &str) -> Vec<u8> {
    let mut name = Vec::with_capacity(bucket.len() + key.len() + 11);
    name.push(kind);
    name.extend(bucket.as_bytes());
    name.push(0);
    name.extend(key.as_bytes());
    name
}

pub(crate) fn bucket(name: &str) -> Vec<u8> {
    [&[BUCKET], name.as_bytes()].concat()
}

pub(crate) fn object(bucket: &str, key: &str) -> Vec<u8> {
    with_kind(OBJECT, bucket, key)
}

/// Prefix of the names of uploads whose keys begin with `prefix`.
pub(crate) fn uploads(bucket: &str, prefix: &str) -> Vec<u8> {
    with_kind(UPLOAD, bucket, prefix)
}

pub(crate) fn upload(bucket: &str, key: &str, id: UploadId) -> Vec<u8> {
    let mut name = uploads(bucket, key);
    name.push(0);
    name.extend(id.0.to_be_bytes());
    name
}

/// The key and id of an upload's name.
pub(crate) fn split_upload(name: &[u8]) -> Option<(&str, UploadId)> {
    let (rest, id) = name.split_last_chunk()?;
    let rest = rest.strip_prefix(&[UPLOAD])?.strip_suffix(&[0])?;
    let at = rest.iter().position(|byte| *byte == 0)?;
    Some((std::str::from_utf8(rest.get(at + 1..)?).ok()?, UploadId(u64::from_be_bytes(*id))))
}

/// The key of an object's name.
pub(crate) fn key_of(name: &[u8]) -> Option<&str> {
    let at = name.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(name.get(at + 1..)?).ok()
}

/// True if something of that name could be ours: the first of each kind reveals an array with another use.
pub(crate) fn is_ours(name: &[u8]) -> bool {
    match name.first() {
        Some(&BUCKET) => std::str::from_utf8(name).is_ok(),
        Some(&OBJECT) => key_of(name).is_some(),
        Some(&UPLOAD) => split_upload(name).is_some(),
        Some(&BLOB) => Blob::of(name).is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_what_they_are_of() {
        let blob = Blob { owner: u64::MAX - 7, number: 10_000, tag: 3 };
        assert_eq!(Blob::of(&blob.name()), Some(blob));
        assert!(blob.name().starts_with(&Blob::part_prefix(blob.owner, blob.number)));
        assert_eq!(Blob::of(&[BLOB; 18]), None);
        assert_eq!(key_of(&object("bucket", "a/ü")), Some("a/ü"));
        for id in [0, 1, u64::MAX] {
            assert_eq!(split_upload(&upload("b", "k\u{1}", UploadId(id))), Some(("k\u{1}", UploadId(id))));
        }
        assert_eq!(split_upload(b"u"), None);
    }

    #[test]
    fn uploads_are_ordered_by_key_then_id() {
        let keys = ["", "a", "a\u{1}", "a/b", "ab", "b"];
        let names = keys.iter().flat_map(|key| [0, 1, u64::MAX].map(|id| upload("bucket", key, UploadId(id))));
        assert!(names.collect::<Vec<_>>().is_sorted());
    }

    #[test]
    fn the_longest_names_fit() {
        let (bucket, key) = ("b".repeat(BUCKET_MAX), "k".repeat(KEY_MAX));
        assert_eq!(upload(&bucket, &key, UploadId(0)).len(), NAME_MAX);
    }
}
