//! Keys and values of the omaps. [docs/formats/blue-objects.md]
//!
//! # Invariants
//! - BO-FMT-1: bytes that are no value of this version are an error, never a wrong value.

use bytes::{BufMut, Bytes};
use shingle_base::wire::{Input, Malformed};
use shingle_buckets::Attributes;
use shingle_store_api::UploadId;

/// The version that is written, and the only one that is read.
const VERSION: u8 = 1;

const STORE: u8 = 0;
const BUCKET: u8 = 1;
const OBJECT: u8 = 2;
const UPLOAD: u8 = 3;
const PART: u8 = 4;

/// Name of the root's attribute that says how the store was made.
pub(crate) const STORE_ATTRIBUTE: &[u8] = b"store";

/// Name of the root's attribute with the number of openings.
pub(crate) const OPENING_ATTRIBUTE: &[u8] = b"opening";

/// Choices that hold for the life of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreRecord {
    /// Bytes of a piece.
    pub(crate) piece_bytes: u64,
}

/// A bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketRecord {
    /// Its number: a bucket that is made anew has another one.
    pub(crate) number: u64,
    pub(crate) created_unix_ns: u64,
}

/// Bytes of an object or part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    /// Pieces of this number.
    Blob(u64),
    /// The parts of this upload.
    Upload(u64),
}

impl Held {
    /// No two have the same.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Blob(number) | Self::Upload(number) => number,
        }
    }

    /// Its key in the list of what goes.
    pub(crate) fn key(self) -> Vec<u8> {
        let kind = if matches!(self, Self::Blob(_)) { b'b' } else { b'u' };
        [&[kind][..], &self.number().to_be_bytes()].concat()
    }

    pub(crate) fn parse(key: &[u8]) -> Option<Self> {
        let (kind, number) = key.split_first()?;
        let number = u64::from_be_bytes(number.try_into().ok()?);
        match kind {
            b'b' => Some(Self::Blob(number)),
            b'u' => Some(Self::Upload(number)),
            _ => None,
        }
    }
}

/// An object, or a part of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) attributes: Attributes,
    pub(crate) version: u64,
    pub(crate) size: u64,
    /// `None` if it has no bytes.
    pub(crate) held: Option<Held>,
}

/// An upload in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UploadRecord {
    pub(crate) attributes: Attributes,
}

fn head(kind: u8) -> Vec<u8> {
    vec![VERSION, kind]
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

impl StoreRecord {
    pub(crate) fn encode(self) -> Bytes {
        let mut out = head(STORE);
        out.put_u64_le(self.piece_bytes);
        out.into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = open(bytes, STORE)?;
        let piece_bytes = input.u64("bytes of a piece")?;
        input.end("store")?;
        if !(1..=shingle_blue_store::OBJECT_MAX).contains(&piece_bytes) {
            return Err(Malformed("bytes of a piece"));
        }
        Ok(Self { piece_bytes })
    }
}

impl BucketRecord {
    pub(crate) fn encode(self) -> Bytes {
        let mut out = head(BUCKET);
        out.put_u64_le(self.number);
        out.put_u64_le(self.created_unix_ns);
        out.into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = open(bytes, BUCKET)?;
        let (number, created_unix_ns) = (input.u64("number")?, input.u64("time")?);
        input.end("bucket")?;
        Ok(Self { number, created_unix_ns })
    }
}

impl Record {
    fn encode(&self, kind: u8) -> Bytes {
        let mut out = head(kind);
        out.put_u64_le(self.version);
        out.put_u64_le(self.size);
        out.put_u8(match self.held {
            None => 0,
            Some(Held::Blob(_)) => 1,
            Some(Held::Upload(_)) => 2,
        });
        out.put_u64_le(self.held.map_or(0, Held::number));
        self.attributes.put(&mut out);
        out.into()
    }

    fn decode(bytes: &[u8], kind: u8) -> Result<Self, Malformed> {
        let mut input = open(bytes, kind)?;
        let (version, size, form) = (input.u64("version")?, input.u64("size")?, input.u8("form")?);
        let number = input.u64("number")?;
        let held = match form {
            0 if number == 0 && size == 0 => None,
            1 => Some(Held::Blob(number)),
            2 if kind == OBJECT => Some(Held::Upload(number)),
            _ => return Err(Malformed("form")),
        };
        let attributes = Attributes::read(&mut input)?;
        input.end("record")?;
        Ok(Self { attributes, version, size, held })
    }

    pub(crate) fn encode_object(&self) -> Bytes {
        self.encode(OBJECT)
    }

    pub(crate) fn decode_object(bytes: &[u8]) -> Result<Self, Malformed> {
        Self::decode(bytes, OBJECT)
    }

    pub(crate) fn encode_part(&self) -> Bytes {
        self.encode(PART)
    }

    pub(crate) fn decode_part(bytes: &[u8]) -> Result<Self, Malformed> {
        Self::decode(bytes, PART)
    }
}

impl UploadRecord {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = head(UPLOAD);
        self.attributes.put(&mut out);
        out.into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = open(bytes, UPLOAD)?;
        let attributes = Attributes::read(&mut input)?;
        input.end("upload")?;
        Ok(Self { attributes })
    }
}

/// Key of an upload of a bucket: uploads follow each other by key, then identity.
pub(crate) fn upload_key(key: &str, id: UploadId) -> Vec<u8> {
    [key.as_bytes(), b"\0", &id.0.to_be_bytes()].concat()
}

pub(crate) fn split_upload_key(name: &[u8]) -> Option<(&str, UploadId)> {
    let (key, id) = name.split_at_checked(name.len().checked_sub(9)?)?;
    let id = u64::from_be_bytes(id.strip_prefix(b"\0")?.try_into().ok()?);
    Some((std::str::from_utf8(key).ok()?, UploadId(id)))
}

/// Key of a part of an upload.
pub(crate) fn part_key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

pub(crate) fn parse_part_key(name: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(name.try_into().ok()?))
}

/// The number of openings.
pub(crate) fn encode_opening(opening: u64) -> Bytes {
    opening.to_le_bytes().to_vec().into()
}

pub(crate) fn decode_opening(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn record(held: Option<Held>, size: u64) -> Record {
        let metadata = BTreeMap::from([("type".to_owned(), "x".to_owned())]);
        let attributes = Attributes { modified_unix_ns: 5, etag: "e".to_owned(), metadata };
        Record { attributes, version: 0x0102, size, held }
    }

    #[test]
    fn golden_bytes() {
        let object = record(Some(Held::Blob(7)), 3).encode_object();
        let golden = b"\x01\x02\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x01\x07\0\0\0\0\0\0\0\
            \x05\0\0\0\0\0\0\0\x01\0\0\0e\x01\0\0\0\x04\0\0\0type\x01\0\0\0x";
        assert_eq!(object, golden[..]);
        let bucket = BucketRecord { number: 2, created_unix_ns: 1 }.encode();
        assert_eq!(bucket, b"\x01\x01\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0"[..]);
        assert_eq!(StoreRecord { piece_bytes: 9 }.encode(), b"\x01\0\x09\0\0\0\0\0\0\0"[..]);
        assert_eq!(upload_key("k", UploadId(258)), b"k\0\0\0\0\0\0\0\x01\x02");
        assert_eq!(Held::Blob(1).key(), b"b\0\0\0\0\0\0\0\x01");
    }

    /// BO-FMT-1.
    #[test]
    fn values_come_back_and_others_are_refused() {
        for held in [None, Some(Held::Blob(7)), Some(Held::Upload(8))] {
            let record = record(held, held.map_or(0, |_| 3));
            assert_eq!(Record::decode_object(&record.encode_object()), Ok(record.clone()));
            let part = Record::decode_part(&record.encode_part());
            assert_eq!(part.is_ok(), !matches!(held, Some(Held::Upload(_))), "a part has no parts");
            assert!(Record::decode_object(&record.encode_part()).is_err(), "another kind");
            for cut in 0..record.encode_object().len() {
                assert!(Record::decode_object(&record.encode_object()[..cut]).is_err());
            }
            let mut other = record.encode_object().to_vec();
            other[0] = 2;
            assert!(Record::decode_object(&other).is_err(), "another version");
        }
        let empty = Record { size: 1, ..record(None, 0) };
        assert!(Record::decode_object(&empty.encode_object()).is_err(), "bytes that are nowhere");
        for key in ["", "a/b", "k\u{1}"] {
            assert_eq!(split_upload_key(&upload_key(key, UploadId(9))), Some((key, UploadId(9))));
        }
        assert_eq!(split_upload_key(b"short"), None);
        for held in [Held::Blob(3), Held::Upload(u64::MAX)] {
            assert_eq!(Held::parse(&held.key()), Some(held));
        }
        assert_eq!(Held::parse(b"x\0\0\0\0\0\0\0\x01"), None);
        assert!(StoreRecord::decode(&StoreRecord { piece_bytes: 0 }.encode()).is_err());
    }
}
