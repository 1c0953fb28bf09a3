//! Attributes of the array's objects. [docs/formats/array-objects.md]
//!
//! # Invariants
//! - AO-FMT-1: bytes that are no record of this version are an error, never a wrong record.

use bytes::{BufMut, Bytes};
use shingle_array_store::ATTRIBUTES_MAX;
use shingle_base::wire::{Input, Malformed, put_text};
use shingle_buckets::Attributes;
use shingle_store_api::StoreResult;

use crate::errors::invalid;
use crate::names::Blob;

/// The version that is written, and the only one that is read.
const VERSION: u8 = 1;

const BUCKET: u8 = 1;
const OBJECT: u8 = 2;
const UPLOAD: u8 = 3;
const BLOB: u8 = 4;

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketRecord {
    pub(crate) created_unix_ns: u64,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectRecord {
    pub(crate) attributes: Attributes,
    /// Blobs with its bytes; `None`: they are this array object's own.
    pub(crate) manifest: Option<Manifest>,
}

/// The blobs that an object's bytes are, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// It was uploaded in parts.
    pub(crate) multipart: bool,
    pub(crate) owner: u64,
    /// Numbers, tags and sizes.
    pub(crate) blobs: Vec<(u16, u64, u64)>,
}

/// An upload in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UploadRecord {
    pub(crate) attributes: Attributes,
}

/// A blob: a part of an upload, or the bytes of an object. It names the key it was written for, so that it can be seen
/// whether anybody needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlobRecord {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) attributes: Attributes,
}

impl Manifest {
    /// Bytes in all.
    pub(crate) fn size(&self) -> Option<u64> {
        self.blobs.iter().try_fold(0u64, |sum, (_, _, size)| sum.checked_add(*size))
    }

    pub(crate) fn blobs(&self) -> impl Iterator<Item = Blob> + '_ {
        self.blobs.iter().map(|&(number, tag, _)| Blob { owner: self.owner, number, tag })
    }

    /// The sizes of the parts, if it was uploaded in parts.
    pub(crate) fn part_sizes(&self) -> Vec<u64> {
        if self.multipart { self.blobs.iter().map(|(_, _, size)| *size).collect() } else { Vec::new() }
    }
}

fn head(kind: u8) -> Vec<u8> {
    vec![VERSION, kind]
}

/// Attributes to be stored.
///
/// # Errors
/// `Invalid` if there are more than the array takes.
fn sealed(out: Vec<u8>) -> StoreResult<Bytes> {
    if out.len() > ATTRIBUTES_MAX {
        return Err(invalid(format!(
            "metadata and list of parts take {} bytes, more than {ATTRIBUTES_MAX}",
            out.len()
        )));
    }
    Ok(out.into())
}

fn open(bytes: &[u8], kind: u8) -> Result<Input<'_>, Malformed> {
    let mut input = Input::new(bytes);
    if input.u8("version")? != VERSION {
        return Err(Malformed("version"));
    }
    if input.u8("kind")? != kind {
        return Err(Malformed("kind"));
    }
    Ok(input)
}

impl BucketRecord {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = head(BUCKET);
        out.put_u64_le(self.created_unix_ns);
        out.into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = open(bytes, BUCKET)?;
        let created_unix_ns = input.u64("time")?;
        input.end("bucket")?;
        Ok(Self { created_unix_ns })
    }
}

impl ObjectRecord {
    pub(crate) fn encode(&self) -> StoreResult<Bytes> {
        let mut out = head(OBJECT);
        self.attributes.put(&mut out);
        match &self.manifest {
            None => out.put_u8(0),
            Some(manifest) => {
                out.put_u8(if manifest.multipart { 2 } else { 1 });
                out.put_u64_le(manifest.owner);
                out.put_u32_le(manifest.blobs.len() as u32);
                for (number, tag, size) in &manifest.blobs {
                    out.put_u16_le(*number);
                    out.put_u64_le(*tag);
                    out.put_u64_le(*size);
                }
            }
        }
        sealed(out)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = open(bytes, OBJECT)?;
        let attributes = Attributes::read(&mut input)?;
        let manifest = match input.u8("form")? {
            0 => None,
            form @ (1 | 2) => {
                let owner = input.u64("owner")?;
                let count = input.u32("count")?;
                let mut blobs = Vec::new();
                for _ in 0..count {
                    blobs.push((input.u16("number")?, input.u64("tag")?, input.u64("size")?));
                }
                let manifest = Manifest { multipart: form == 2, owner, blobs };
                manifest.size().ok_or(Malformed("sizes"))?;
                Some(manifest)
            }
            _ => return Err(Malformed("form")),
        };
        input.end("object")?;
        Ok(Self { attributes, manifest })
    }
}

impl UploadRecord {
    pub(crate) fn encode(&self) -> StoreResult<Bytes> {
        let mut out = head(UPLOAD);
        self.attributes.put(&mut out);
        sealed(out)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = open(bytes, UPLOAD)?;
        let attributes = Attributes::read(&mut input)?;
        input.end("upload")?;
        Ok(Self { attributes })
    }
}

impl BlobRecord {
    pub(crate) fn encode(&self) -> StoreResult<Bytes> {
        let mut out = head(BLOB);
        put_text(&mut out, &self.bucket);
        put_text(&mut out, &self.key);
        self.attributes.put(&mut out);
        sealed(out)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = open(bytes, BLOB)?;
        let (bucket, key) = (input.text("bucket")?, input.text("key")?);
        let attributes = Attributes::read(&mut input)?;
        input.end("blob")?;
        Ok(Self { bucket, key, attributes })
    }
}

#[cfg(test)]
mod tests {
    use shingle_store_api::Metadata;

    use super::*;

    fn attributes() -> Attributes {
        let metadata = Metadata::from([("content-type".to_owned(), "text/plain".to_owned())]);
        Attributes { modified_unix_ns: 5, etag: "e".to_owned(), metadata }
    }

    /// AO-FMT-1.
    #[test]
    fn records_come_back_and_anything_else_is_an_error() {
        let manifest = Manifest { multipart: true, owner: 9, blobs: vec![(1, 2, 3), (10_000, u64::MAX, 0)] };
        let whole = ObjectRecord { attributes: attributes(), manifest: None };
        let parts = ObjectRecord { attributes: attributes(), manifest: Some(manifest) };
        let upload = UploadRecord { attributes: attributes() };
        let blob = BlobRecord { bucket: "b".to_owned(), key: "k".to_owned(), attributes: attributes() };
        let bucket = BucketRecord { created_unix_ns: 7 };
        for record in [&whole, &parts] {
            assert_eq!(ObjectRecord::decode(&record.encode().unwrap()).as_ref(), Ok(record));
        }
        assert_eq!(UploadRecord::decode(&upload.encode().unwrap()), Ok(upload.clone()));
        assert_eq!(BlobRecord::decode(&blob.encode().unwrap()), Ok(blob.clone()));
        assert_eq!(BucketRecord::decode(&bucket.encode()), Ok(bucket));
        let bytes = parts.encode().unwrap();
        for length in 0..bytes.len() {
            assert!(ObjectRecord::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(ObjectRecord::decode(&[&bytes[..], &[0]].concat()).is_err());
        assert!(ObjectRecord::decode(&blob.encode().unwrap()).is_err(), "another kind");
        assert!(UploadRecord::decode(&[&[2], &upload.encode().unwrap()[1..]].concat()).is_err(), "another version");
    }

    /// Version 1, byte for byte: a change of these bytes is a new version.
    #[test]
    fn the_bytes_of_version_1() {
        let manifest = Manifest { multipart: true, owner: 9, blobs: vec![(1, 2, 3)] };
        let record = ObjectRecord {
            attributes: Attributes { metadata: Metadata::new(), ..attributes() },
            manifest: Some(manifest),
        };
        let mut bytes = vec![1, 2, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'e', 0, 0, 0, 0, 2, 9, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([1, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(record.encode().unwrap(), bytes);
    }

    #[test]
    fn ten_thousand_parts_fit_and_much_more_is_refused() {
        let blobs = (1..=10_000).map(|number| (number, u64::MAX, 5 << 30)).collect();
        let manifest = Manifest { multipart: true, owner: 1, blobs };
        let mut record = ObjectRecord { attributes: attributes(), manifest: Some(manifest) };
        assert!(record.encode().is_ok());
        record.attributes.metadata.insert("large".to_owned(), "x".repeat(100 << 10));
        assert!(record.encode().is_err());
    }
}
