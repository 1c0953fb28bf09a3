//! The array's parsers of on-disk bytes, for fuzzing: each says whether the bytes make sense, and never panics.

use bytes::Bytes;
use shingle_record::{Expect, Header, INFO_SIZE};

use crate::buffer;
use crate::format::{Assembly, Digest, Marker, SET_HEAD, SetHead, Trailer, Update, decode_tombstones};
use crate::index::{Index, Loader};

/// The payload of a superblock that builds on no other.
pub fn superblock(bytes: &[u8]) -> bool {
    let Ok(Some(update)) = Update::decode(bytes) else { return false };
    let mut assembly = Assembly::of(None);
    assembly.update(update).and_then(|()| assembly.end()).is_some()
}

/// The number (4) and payload of a base's pieces and the payloads of superblocks behind it, each behind its length (4) and what
/// it is (1: 0 a piece of base 1, else a superblock).
pub fn superblock_chain(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut records = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk() {
        let Some((record, left)) = behind.split_at_checked(u32::from_le_bytes(*length) as usize) else { return false };
        records.push(record);
        rest = left;
    }
    let update = |record: &[u8]| match record {
        [0, ..] => None,
        [_, payload @ ..] => Update::decode(payload).ok().flatten(),
        [] => None,
    };
    let Some(last) = records.last().and_then(|record| update(record)) else { return false };
    let mut assembly = Assembly::of(last.base);
    for record in records {
        let taken = match record {
            [0, n0, n1, n2, n3, payload @ ..] => assembly.piece(1, u32::from_le_bytes([*n0, *n1, *n2, *n3]), payload),
            record => update(record).and_then(|update| assembly.update(update)),
        };
        if taken.is_none() {
            return false;
        }
    }
    assembly.end().is_some()
}

/// The payload of a zone set's digest.
pub fn digest(bytes: &[u8]) -> bool {
    Digest::decode(bytes).is_some_and(|digest| digest.items.iter().all(|item| item.end() >= item.block))
}

/// The payload of a record of tombstones.
pub fn tombstones(bytes: &[u8]) -> bool {
    decode_tombstones(bytes).is_some()
}

/// The info of a layout marker, and its payload.
pub fn marker(bytes: &[u8]) -> bool {
    let Some((info, payload)) = bytes.split_first_chunk::<INFO_SIZE>() else { return false };
    Marker::decode(info, payload).is_some()
}

/// The record that opens a zone of a set.
pub fn set_head(bytes: &[u8]) -> bool {
    let Ok(header) = Header::decode(bytes, &Expect::default()) else { return false };
    header.kind == SET_HEAD && SetHead::decode(&header.info).is_some()
}

/// The record behind a digest or a superblock.
pub fn trailer(bytes: &[u8]) -> bool {
    let Ok(header) = Header::decode(bytes, &Expect::default()) else { return false };
    let found = Trailer::decode(&header);
    assert!(found.is_none_or(|trailer| trailer.start < header.place.block), "it begins behind its trailer");
    found.is_some()
}

/// Chunks of an index's snapshot, each behind its length (4), as its pieces have them.
pub fn snapshot(bytes: &[u8]) -> bool {
    let Ok(mut loader) = Index::memory().and_then(Loader::new) else { return false };
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let Some((chunk, left)) = behind.split_at_checked(u32::from_le_bytes(*length) as usize) else { return false };
        if loader.add(chunk).is_err() {
            return false;
        }
        rest = left;
    }
    loader.finish().is_ok()
}

/// A file of the buffer; or a record of one, whatever its checksum.
pub fn buffer(bytes: &[u8]) -> bool {
    let file = match buffer::parse(bytes) {
        buffer::Kind::Buffer(head) => buffer::walk(&head, &[Bytes::copy_from_slice(bytes)]).is_whole(),
        _ => false,
    };
    file | buffer::entry(bytes).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Change, PartKey};
    use crate::types::{Completion, PartPlace, SetId, Version};

    /// A snapshot of some objects, as its pieces have it.
    fn chunks() -> Vec<u8> {
        let index = Index::memory().unwrap();
        for number in 0..20u64 {
            let key = PartKey { name: format!("object {number}").into(), version: Version(number), offset: 0 };
            let place = PartPlace {
                set: SetId(3),
                block: number as u32,
                stamp: 100 + number,
                segment_length: 10,
                at: 0,
                length: 10,
                last: true,
            };
            let completion = Some(Completion { size: 10, attributes: Bytes::from_static(b"at") });
            index.apply(&[Change::Put { key, place, completion }]).unwrap();
        }
        let (mut view, mut out) = (index.snapshot().unwrap(), Vec::new());
        while let Some(chunk) = view.next_chunk(200).unwrap() {
            out.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
            out.extend_from_slice(&chunk);
        }
        out
    }

    #[test]
    fn a_damaged_snapshot_is_an_error_and_no_panic() {
        let whole = chunks();
        assert!(snapshot(&whole));
        for length in 0..whole.len() {
            assert!(!snapshot(&whole[..length]), "{length}");
        }
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                // Some bytes may be anything: attributes are.
                let _ = snapshot(&bytes);
            }
        }
    }
}
