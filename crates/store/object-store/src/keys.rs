//! The keys of the index's keyspaces.

use crate::index::Space;

/// Key of a grave or a live item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    Bucket(String),
    Object(String, String),
    Upload(u64),
}

impl Identity {
    /// The keyspace it is in while it lives.
    pub(crate) fn space(&self) -> Space {
        match self {
            Self::Bucket(_) => Space::Buckets,
            Self::Object(..) => Space::Objects,
            Self::Upload(_) => Space::Uploads,
        }
    }

    /// Its key there.
    pub(crate) fn key(&self) -> Vec<u8> {
        match self {
            Self::Bucket(name) => name.as_bytes().to_vec(),
            Self::Object(bucket, key) => object(bucket, key),
            Self::Upload(upload) => upload.to_be_bytes().to_vec(),
        }
    }

    /// Its key among the graves.
    pub(crate) fn grave(&self) -> Vec<u8> {
        let kind = match self {
            Self::Bucket(_) => b'b',
            Self::Object(..) => b'o',
            Self::Upload(_) => b'u',
        };
        let mut key = vec![kind];
        key.extend(self.key());
        key
    }
}

/// An object's key: the bucket's name has no zero byte, so bucket and key part at the first.
pub(crate) fn object(bucket: &str, key: &str) -> Vec<u8> {
    [bucket.as_bytes(), b"\0", key.as_bytes()].concat()
}

/// The bucket and key of an object's key.
pub(crate) fn split_object(key: &[u8]) -> Option<(&str, &str)> {
    let at = key.iter().position(|byte| *byte == 0)?;
    Some((std::str::from_utf8(&key[..at]).ok()?, std::str::from_utf8(&key[at + 1..]).ok()?))
}

/// Prefix of the names of uploads of keys that begin with `prefix`. Zero bytes in keys are escaped, so that names are
/// ordered by key, then upload.
pub(crate) fn upload_name_prefix(bucket: &str, prefix: &str) -> Vec<u8> {
    let mut name = [bucket.as_bytes(), b"\0"].concat();
    for byte in prefix.bytes() {
        name.push(byte);
        if byte == 0 {
            name.push(0xff);
        }
    }
    name
}

/// An upload's name.
pub(crate) fn upload_name(bucket: &str, key: &str, upload: u64) -> Vec<u8> {
    let mut name = upload_name_prefix(bucket, key);
    name.extend([0, 0]);
    name.extend(upload.to_be_bytes());
    name
}

/// The upload of a name.
pub(crate) fn upload_of_name(name: &[u8]) -> Option<u64> {
    name.last_chunk().copied().map(u64::from_be_bytes)
}

/// A part's key.
pub(crate) fn part(upload: u64, number: u32) -> Vec<u8> {
    [&upload.to_be_bytes()[..], &number.to_be_bytes()].concat()
}

/// The upload and number of a part's key.
pub(crate) fn split_part(key: &[u8]) -> Option<(u64, u32)> {
    let (upload, number) = key.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*upload), u32::from_be_bytes(number.try_into().ok()?)))
}

/// A segment's key.
pub(crate) fn segment(blob: u64, index: u32) -> Vec<u8> {
    part(blob, index)
}

/// The blob and index of a segment's key.
pub(crate) fn split_segment(key: &[u8]) -> Option<(u64, u32)> {
    split_part(key)
}

/// The key of a number: a blob, file, upload or version.
pub(crate) fn number(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// The number of such a key.
pub(crate) fn split_number(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes)
}

/// In [`Space::About`]: whose index this is ([`crate::indexer::About`]).
pub(crate) const ABOUT_OWNER: &[u8] = b"owner";
/// In [`Space::About`]: counters ([`crate::indexer::Totals`]).
pub(crate) const ABOUT_TOTALS: &[u8] = b"totals";
/// In [`Space::About`]: prefix of buckets whose strays an opening has still to drop.
pub(crate) const ABOUT_MADE: &[u8] = b"made\0";
/// In [`Space::About`]: prefix of blobs that neither an object nor a part needs (OS-INX-7).
pub(crate) const ABOUT_LOOSE: &[u8] = b"loose\0";

/// Key of such a blob.
pub(crate) fn loose(blob: u64) -> Vec<u8> {
    [ABOUT_LOOSE, &blob.to_be_bytes()].concat()
}

/// The blob of such a key.
pub(crate) fn split_loose(key: &[u8]) -> Option<u64> {
    split_number(key.strip_prefix(ABOUT_LOOSE)?)
}

/// Key of a bucket whose strays are to be dropped.
pub(crate) fn made(bucket: &str) -> Vec<u8> {
    [ABOUT_MADE, bucket.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upload_names_are_ordered_by_key_then_upload() {
        let mut names = Vec::new();
        for key in ["", "a", "a\0", "a\0\0", "a\0b", "a\u{1}", "ab", "b"] {
            for upload in [0, 1, u64::MAX] {
                let name = upload_name("bucket", key, upload);
                assert_eq!(upload_of_name(&name), Some(upload));
                assert!(name.starts_with(&upload_name_prefix("bucket", key)));
                names.push(name);
            }
        }
        assert!(names.is_sorted());
    }

    #[test]
    fn object_keys_part_at_the_first_zero_byte() {
        assert_eq!(split_object(&object("bucket", "a\0b")), Some(("bucket", "a\0b")));
        assert_eq!(split_object(b"none"), None);
    }
}
