//! Names of things in the array for users of S3: bucket and key, and never the names by which they lie there.

use shingle_array_store::{Naming, quoted};
use shingle_base::printable;

use crate::format::{BlobRecord, BucketRecord};
use crate::names::{BUCKET, Blob, OBJECT, key_of, split_upload};

/// For reports of an array that may carry buckets and objects. Names that are none of theirs are told as they are.
pub const NAMING: Naming = Naming(described);

fn described(name: &[u8], attributes: &[u8]) -> String {
    bucket(name, attributes)
        .or_else(|| object(name))
        .or_else(|| upload(name))
        .or_else(|| blob(name, attributes))
        .unwrap_or_else(|| quoted(name))
}

fn bucket(name: &[u8], attributes: &[u8]) -> Option<String> {
    BucketRecord::decode(attributes).ok()?;
    Some(format!("the bucket {}", quoted(name.strip_prefix(&[BUCKET])?)))
}

/// The bucket's name behind the first byte, up to a zero byte.
fn bucket_of(name: &[u8]) -> Option<&[u8]> {
    name.get(1..)?.split(|byte| *byte == 0).next().filter(|bucket| bucket.len() + 1 < name.len())
}

fn key_in(bucket: &[u8], key: &str) -> String {
    format!("`{}/{}`", printable(bucket), printable(key.as_bytes()))
}

fn object(name: &[u8]) -> Option<String> {
    let own = name.first() == Some(&OBJECT);
    own.then_some(())?;
    Some(key_in(bucket_of(name)?, key_of(name)?))
}

fn upload(name: &[u8]) -> Option<String> {
    let (key, _) = split_upload(name)?;
    Some(format!("the upload in progress of {}", key_in(bucket_of(name)?, key)))
}

/// Bytes of an object or a part. A name of the same shape may be anybody's: the attributes tell.
fn blob(name: &[u8], attributes: &[u8]) -> Option<String> {
    let blob = Blob::of(name)?;
    let BlobRecord { bucket, key, .. } = BlobRecord::decode(attributes).ok()?;
    let of = key_in(bucket.as_bytes(), &key);
    Some(match blob.number {
        0 => of,
        number => format!("part {number} of {of}"),
    })
}

#[cfg(test)]
mod tests {
    use shingle_store_api::UploadId;

    use super::*;
    use crate::names;
    use shingle_buckets::Attributes;

    #[test]
    fn names_of_the_array_become_buckets_and_keys() {
        let bucket = BucketRecord { created_unix_ns: 1 }.encode();
        assert_eq!(described(&names::bucket("films"), &bucket), "the bucket `films`");
        assert_eq!(described(&names::object("films", "a\u{1b}/ü"), &[]), "`films/a\\u{1b}/ü`");
        assert_eq!(described(&names::upload("films", "k", UploadId(7)), &[]), "the upload in progress of `films/k`");
        let record = |key: &str| {
            let (bucket, key) = ("films".to_owned(), key.to_owned());
            BlobRecord { bucket, key, attributes: Attributes::default() }.encode().unwrap()
        };
        let blob = |number| Blob { owner: 1, number, tag: 3 }.name();
        assert_eq!(described(&blob(0), &record("one.mkv")), "`films/one.mkv`");
        assert_eq!(described(&blob(12), &record("one.mkv")), "part 12 of `films/one.mkv`");
    }

    #[test]
    fn other_names_stay_as_they_are() {
        for name in ["books", "o", "uploads/one", "documents/readme.md", "films"] {
            assert_eq!(described(name.as_bytes(), &[]), format!("`{name}`"));
        }
        assert_eq!(described(b"d\0\x07", &[]), "`d\\u{0}\\u{7}`");
    }
}
