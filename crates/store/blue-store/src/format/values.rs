//! Small values: of collections, shared blobs, deferred writes, and of the store as a whole.

use bytes::Bytes;
use shingle_base::wire::Fields;
use shingle_record::number::{put, put_bytes, take, take_bytes, take_u32};

use super::VALUE_VERSION;
use super::blob::{put_blob, put_counts, take_blob, take_counts};
use super::key::{object, parse_object};
use crate::blob::Blob;
use crate::ids::{BITS_MAX, ObjectId};

fn versioned(bytes: &[u8]) -> Option<Fields<'_>> {
    let mut fields = Fields::new(bytes);
    fields.u8().filter(|version| *version == VALUE_VERSION)?;
    Some(fields)
}

/// Value of a collection: version, bits of the hash.
pub(crate) fn encode_collection(bits: u8) -> Vec<u8> {
    vec![VALUE_VERSION, bits]
}

pub(crate) fn decode_collection(bytes: &[u8]) -> Option<u8> {
    let mut fields = versioned(bytes)?;
    let bits = fields.u8().filter(|bits| *bits <= BITS_MAX)?;
    fields.end().map(|()| bits)
}

/// Value of `S` `numbers`: version, the number below which all may have been given out.
pub(crate) fn encode_numbers(end: u64) -> Vec<u8> {
    let mut bytes = vec![VALUE_VERSION];
    put(&mut bytes, end);
    bytes
}

pub(crate) fn decode_numbers(bytes: &[u8]) -> Option<u64> {
    let mut fields = versioned(bytes)?;
    let end = take(&mut fields).filter(|end| *end < shingle_base::wire::COUNTER_END)?;
    fields.end().map(|()| end)
}

/// Value of a deferred write: version, the object's key, the shard, the bytes.
pub(crate) fn encode_deferred(id: &ObjectId, shard: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![VALUE_VERSION];
    put_bytes(&mut bytes, &object(id));
    put(&mut bytes, u64::from(shard));
    bytes.extend_from_slice(data);
    bytes
}

pub(crate) fn decode_deferred(value: &Bytes) -> Option<(ObjectId, u32, Bytes)> {
    let mut fields = versioned(value)?;
    let id = parse_object(take_bytes(&mut fields)?)?;
    let shard = take_u32(&mut fields)?;
    Some((id, shard, value.slice_ref(fields.rest())))
}

/// Value of a shared blob: version, pool and hash of the objects that share it, the blob, the counts of references.
pub(crate) fn encode_shared(blob: &Blob) -> Vec<u8> {
    let (pool, hash) = blob.state.borrow().owner;
    let mut bytes = vec![VALUE_VERSION];
    bytes.extend(pool.to_le_bytes());
    put(&mut bytes, u64::from(hash));
    put_blob(&mut bytes, blob);
    put_counts(&mut bytes, &blob.state.borrow().counts);
    bytes
}

/// A shared blob.
pub(crate) fn decode_shared(number: u64, bytes: &[u8]) -> Option<Blob> {
    let mut fields = versioned(bytes)?;
    let (pool, hash) = (fields.u64()?, take_u32(&mut fields)?);
    let blob = take_blob(&mut fields)?;
    let counts = take_counts(&mut fields, blob.blocks())?;
    fields.end()?;
    {
        let mut state = blob.state.borrow_mut();
        (state.shared, state.owner, state.counts) = (Some(number), (pool, hash), counts);
    }
    Some(blob)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::blob::packing::Packing;
    use crate::blob::ranges::Counts;
    use crate::blob::{Place, State};

    #[test]
    fn small_values_come_back() {
        assert_eq!((decode_collection(&encode_collection(6)), decode_collection(&[1, 60])), (Some(6), None));
        assert_eq!((decode_numbers(&encode_numbers(5000)), decode_numbers(&[2, 0])), (Some(5000), None));
        let id = ObjectId::new(1, "name");
        let value = Bytes::from(encode_deferred(&id, 3, b"data"));
        assert_eq!(decode_deferred(&value), Some((id, 3, Bytes::from_static(b"data"))));
        assert_eq!(decode_deferred(&value.slice(..5)), None);
    }

    #[test]
    fn a_shared_blob_comes_back() {
        let places = vec![Place { at: 1, zone: 2, block: 3, count: 2 }];
        let counts = Counts(vec![(1..2, 2), (2..3, 1)]);
        let state =
            RefCell::new(State { places, counts, counted: true, shared: Some(4), owner: (7, 9), ..State::default() });
        let blob =
            Blob { raw: 9_000, stored: 9_000, packing: Packing::Plain, unit_shift: 0, checks: vec![1, 2, 3], state };
        let bytes = encode_shared(&blob);
        assert_eq!(*decode_shared(4, &bytes).unwrap().state.borrow(), *blob.state.borrow());
        for length in 0..bytes.len() {
            assert!(decode_shared(4, &bytes[..length]).is_none());
        }
        // Counts that begin with the last number that there is.
        let endless = [&bytes[..bytes.len() - 7], &[1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0, 1]].concat();
        assert!(decode_shared(4, &endless).is_none());
        // The bytes are part of the format.
        let head = [1, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0xA8, 0x46, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
        assert_eq!(bytes, [&head[..], &[0, 1, 1, 2, 3, 2, 2, 1, 1, 2, 0, 1, 1]].concat());
    }
}
