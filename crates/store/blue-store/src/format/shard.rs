//! A shard's bytes: blobs, and the extents that show them.

use std::rc::Rc;

use shingle_base::wire::Fields;
use shingle_record::number::{put, take_count, take_u32};

use super::VALUE_VERSION;
use super::blob::{put_blob, take_blob};
use crate::blob::Blob;
use crate::map::{Extents, range_of};

/// A blob of a shard.
#[derive(Debug)]
pub(crate) enum BlobRef {
    Own(Blob),
    /// Number of a shared blob.
    Shared(u64),
}

/// An extent of a shard, before its blob is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentRecord {
    pub(crate) at: u32,
    pub(crate) length: u32,
    /// Its blob: a number below that of the shard's blobs.
    pub(crate) blob: usize,
    pub(crate) from: u32,
}

/// A shard as it is stored.
#[derive(Debug, Default)]
pub(crate) struct ShardRecord {
    pub(crate) blobs: Vec<BlobRef>,
    pub(crate) extents: Vec<ExtentRecord>,
}

/// Bytes of a shard.
///
/// Fields: number of blobs, and each: 0 and the blob, or one more than the number of a shared blob; number of extents, and each: bytes since
/// the end of the one before it, or since the shard's start; length; number of the blob; first byte in its content.
pub(crate) fn encode(shard: u32, extents: &Extents) -> Vec<u8> {
    let mut blobs: Vec<&Rc<Blob>> = Vec::new();
    let mut of = Vec::new();
    for extent in extents.iter() {
        let known = blobs.iter().rposition(|other| Rc::ptr_eq(other, &extent.blob));
        of.push(known.unwrap_or(blobs.len()));
        if known.is_none() {
            blobs.push(&extent.blob);
        }
    }
    let mut bytes = vec![VALUE_VERSION];
    put(&mut bytes, blobs.len() as u64);
    for blob in blobs {
        let shared = blob.state.borrow().shared;
        match shared {
            Some(number) => put(&mut bytes, number + 1),
            None => {
                put(&mut bytes, 0);
                put_blob(&mut bytes, blob);
            }
        }
    }
    put(&mut bytes, of.len() as u64);
    let mut end = range_of(shard).map_or(0, |range| range.start);
    for (extent, blob) in extents.iter().zip(of) {
        put(&mut bytes, u64::from(extent.at - end));
        put(&mut bytes, u64::from(extent.length));
        put(&mut bytes, blob as u64);
        put(&mut bytes, u64::from(extent.from));
        end = extent.end();
    }
    bytes
}

/// Reads a shard; `None` for bytes that no writer makes. The extents are checked again when their blobs are known.
pub(crate) fn decode(shard: u32, bytes: &[u8]) -> Option<ShardRecord> {
    let mut fields = Fields::new(bytes);
    fields.u8().filter(|version| *version == VALUE_VERSION)?;
    let count = take_count(&mut fields)?;
    let mut blobs = Vec::with_capacity(count);
    for _ in 0..count {
        blobs.push(match shingle_record::number::take(&mut fields)?.checked_sub(1) {
            None => BlobRef::Own(take_blob(&mut fields)?),
            Some(number) => BlobRef::Shared(number),
        });
    }
    let count = take_count(&mut fields)?;
    let mut end = range_of(shard)?.start;
    let mut extents = Vec::with_capacity(count);
    for _ in 0..count {
        let at = end.checked_add(take_u32(&mut fields)?)?;
        let length = take_u32(&mut fields)?;
        let blob = take_u32(&mut fields)? as usize;
        let from = take_u32(&mut fields)?;
        end = at.checked_add(length).filter(|_| blob < blobs.len())?;
        extents.push(ExtentRecord { at, length, blob, from });
    }
    fields.end().map(|()| ShardRecord { blobs, extents })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::blob::packing::Packing;
    use crate::blob::{Place, State};
    use crate::map::{Extent, SHARD};

    fn sample() -> Extents {
        let places = vec![Place { at: 0, zone: 5, block: 9, count: 1 }, Place { at: 2, zone: 6, block: 0, count: 1 }];
        let state = RefCell::new(State { places, ..State::default() });
        let plain =
            Blob { raw: 10_000, stored: 10_000, packing: Packing::Plain, unit_shift: 0, checks: vec![1, 2, 3], state };
        let state = RefCell::new(State { shared: Some(8), ..State::default() });
        let shared = Blob { raw: 100, stored: 100, packing: Packing::Plain, unit_shift: 2, checks: vec![4], state };
        let state = RefCell::new(State { deferred: Some(3), ..State::default() });
        let packed = Blob { raw: 9_000, stored: 70, packing: Packing::Zstd, unit_shift: 5, checks: vec![7], state };
        let [plain, shared, packed] = [plain, shared, packed].map(Rc::new);
        let of = |at, length, blob: &Rc<Blob>, from| Extent { at: SHARD + at, length, blob: blob.clone(), from };
        let extents =
            vec![of(0, 50, &plain, 0), of(50, 10, &shared, 9), of(100, 9_000, &packed, 0), of(9_999, 1, &plain, 9_999)];
        Extents::checked(1, extents).unwrap()
    }

    #[test]
    fn a_shard_comes_back() {
        let bytes = encode(1, &sample());
        let record = decode(1, &bytes).unwrap();
        let of = |at, length, blob, from| ExtentRecord { at: SHARD + at, length, blob, from };
        assert_eq!(record.extents, [of(0, 50, 0, 0), of(50, 10, 1, 9), of(100, 9_000, 2, 0), of(9_999, 1, 0, 9_999)]);
        let [BlobRef::Own(plain), BlobRef::Shared(8), BlobRef::Own(packed)] = &record.blobs[..] else {
            panic!("{record:?}")
        };
        assert_eq!(
            (plain.raw, plain.checks.as_slice(), plain.state.borrow().places.len()),
            (10_000, &[1, 2, 3][..], 2)
        );
        assert_eq!((packed.packing, packed.stored, packed.state.borrow().deferred), (Packing::Zstd, 70, Some(3)));
        for length in 0..bytes.len() {
            assert!(decode(1, &bytes[..length]).is_none());
        }
        assert!(decode(u32::MAX, &bytes).is_none());
    }

    /// The bytes are part of the format.
    #[test]
    fn golden_bytes() {
        let bytes = encode(1, &sample());
        let expected = [
            1, 3, // version, blobs
            0, 0x90, 0x4E, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 2, 0, 5, 9, 1, 1, 6, 0,
            1, // the plain one
            9, // the shared one
            0, 0xA8, 0x46, 2, 70, 5, 7, 0, 0, 0, 4, 0, // the compressed one
            4, 0, 50, 0, 0, 0, 10, 1, 9, 40, 0xA8, 0x46, 2, 0, 0x83, 7, 1, 0, 0x8F, 0x4E, // extents
        ];
        assert_eq!(bytes, expected);
    }
}
