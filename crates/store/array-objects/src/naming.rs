//! Names of things in the array for users of S3: bucket and key, and never the names by which they lie there.

use shingle_array_store::{Naming, quoted};
use shingle_store_api::Named;

use crate::format::{BlobRecord, BucketRecord};
use crate::names::{BUCKET, Blob, OBJECT, key_of, split_upload};

/// For reports of an array that may carry buckets and objects. Names that are none of theirs are told as they are.
pub const NAMING: Naming = Naming(described);

fn described(name: &[u8], attributes: &[u8]) -> Named {
    bucket(name, attributes)
        .or_else(|| object(name))
        .or_else(|| upload(name))
        .or_else(|| blob(name, attributes))
        .unwrap_or_else(|| Named { words: quoted(name), object: None })
}

fn bucket(name: &[u8], attributes: &[u8]) -> Option<Named> {
    BucketRecord::decode(attributes).ok()?;
    Some(Named { words: format!("the bucket {}", quoted(name.strip_prefix(&[BUCKET])?)), object: None })
}

/// The bucket's name behind the first byte, up to a zero byte.
fn bucket_of(name: &[u8]) -> Option<&str> {
    let bucket = name.get(1..)?.split(|byte| *byte == 0).next().filter(|bucket| bucket.len() + 1 < name.len());
    std::str::from_utf8(bucket?).ok()
}

fn object(name: &[u8]) -> Option<Named> {
    let own = name.first() == Some(&OBJECT);
    own.then_some(())?;
    Some(Named::object(bucket_of(name)?, key_of(name)?))
}

/// Something that belongs to an object.
fn part(of: Named, what: impl std::fmt::Display) -> Named {
    Named { words: format!("{what} of {}", of.words), ..of }
}

fn upload(name: &[u8]) -> Option<Named> {
    let (key, _) = split_upload(name)?;
    Some(part(Named::object(bucket_of(name)?, key), "the upload in progress"))
}

/// Bytes of an object or a part. A name of the same shape may be anybody's: the attributes tell.
fn blob(name: &[u8], attributes: &[u8]) -> Option<Named> {
    let blob = Blob::of(name)?;
    let Ok(BlobRecord { bucket, key, .. }) = BlobRecord::decode(attributes) else {
        // A text may be a name that people gave. The record of a blob comes with its last byte.
        let is_text = std::str::from_utf8(name).is_ok_and(|text| !text.chars().any(char::is_control));
        let words = "bytes of an object that cannot be named: their record is damaged, or they are still being written";
        return (!is_text).then(|| Named { words: words.to_owned(), object: None });
    };
    let of = Named::object(&bucket, &key);
    Some(match blob.number {
        0 => of,
        number => part(of, format_args!("part {number}")),
    })
}

#[cfg(test)]
mod tests {
    use shingle_store_api::UploadId;

    use super::*;
    use crate::names;
    use shingle_buckets::Attributes;

    fn words(name: &[u8], attributes: &[u8]) -> String {
        described(name, attributes).words
    }

    #[test]
    fn names_of_the_array_become_buckets_and_keys() {
        let bucket = BucketRecord { created_unix_ns: 1 }.encode();
        assert_eq!(words(&names::bucket("films"), &bucket), "the bucket `films`");
        assert_eq!(words(&names::object("films", "a\u{1b}/ü"), &[]), "`films/a\\u{1b}/ü`");
        assert_eq!(words(&names::upload("films", "k", UploadId(7)), &[]), "the upload in progress of `films/k`");
        let record = |key: &str| {
            let (bucket, key) = ("films".to_owned(), key.to_owned());
            BlobRecord { bucket, key, attributes: Attributes::default() }.encode().unwrap()
        };
        let blob = |number| Blob { owner: 1, number, tag: 3 }.name();
        assert_eq!(words(&blob(0), &record("one.mkv")), "`films/one.mkv`");
        assert_eq!(words(&blob(12), &record("one.mkv")), "part 12 of `films/one.mkv`");
        let of = Some(("films".to_owned(), "a\u{1b}/ü".to_owned()));
        assert_eq!(described(&names::object("films", "a\u{1b}/ü"), &[]).object, of);
        assert_eq!(described(&blob(12), &record("a\u{1b}/ü")).object, of, "as it is, not as it is printed");
        assert_eq!(described(&names::bucket("films"), &bucket).object, None);
        assert!(words(&blob(0), b"spoilt").starts_with("bytes of an object that cannot be named"));
    }

    #[test]
    fn other_names_stay_as_they_are() {
        for name in ["books", "o", "uploads/one", "documents/readme.md", "films"] {
            assert_eq!(words(name.as_bytes(), &[]), format!("`{name}`"));
        }
        assert_eq!(words(b"d\0\x07", &[]), "`d\\u{0}\\u{7}`");
    }
}
