//! The digest of a zone set: what all its markers and tombstones say, in one place. (SMORE, section III-D.)

use super::marker::{Marker, Tombstone, decode_parts, decode_tombstones, encode_parts, encode_tombstones};
use crate::segment::Shape;
use shingle_base::wire::Fields;

/// A marker or a record of tombstones, and its first block in the set's zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DigestItem {
    pub(crate) block: u32,
    pub(crate) body: ItemBody,
}

/// Kind of the item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ItemBody {
    Segment(Marker),
    Tombstones { stamp: u64, tombstones: Vec<Tombstone> },
}

impl ItemBody {
    /// When it was written.
    pub(crate) fn stamp(&self) -> u64 {
        match self {
            Self::Segment(marker) => marker.stamp,
            Self::Tombstones { stamp, .. } => *stamp,
        }
    }
}

impl DigestItem {
    /// The block behind it and the fragment that follows it.
    pub(crate) fn end(&self) -> u32 {
        let blocks = match &self.body {
            ItemBody::Segment(marker) => {
                shingle_record::record_blocks(marker.payload().len() as u64) + marker.shape.fragment_blocks()
            }
            ItemBody::Tombstones { tombstones, .. } => {
                shingle_record::record_blocks(encode_tombstones(tombstones).len() as u64)
            }
        };
        self.block.saturating_add(u32::try_from(blocks.0).unwrap_or(u32::MAX))
    }
}

/// A zone set's items, in the order of their blocks. An open set keeps its own, ready to be written.
///
/// An item: kind (1), block (4), stamp (8), length of its body (4), body. A segment's body: bytes of data (4), data
/// and parity fragments (1 each), number of parts (4), parts as in its marker. Tombstones' body: as their record's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) items: Vec<DigestItem>,
    encoded: Vec<u8>,
}

const KIND_SEGMENT: u8 = 1;
const KIND_TOMBSTONES: u8 = 2;

/// Bytes that an item takes beside its parts or tombstones.
pub(crate) const ITEM_FIXED: usize = 17 + 10;

impl Digest {
    pub(crate) fn push(&mut self, item: DigestItem) {
        let (kind, body) = match &item.body {
            ItemBody::Segment(marker) => {
                let mut body = marker.shape.length().to_le_bytes().to_vec();
                body.extend_from_slice(&[marker.shape.code().data() as u8, marker.shape.code().parity() as u8]);
                body.extend_from_slice(&(marker.parts.len() as u32).to_le_bytes());
                encode_parts(&marker.parts, &mut body);
                (KIND_SEGMENT, body)
            }
            ItemBody::Tombstones { tombstones, .. } => (KIND_TOMBSTONES, encode_tombstones(tombstones)),
        };
        self.encoded.push(kind);
        self.encoded.extend_from_slice(&item.block.to_le_bytes());
        self.encoded.extend_from_slice(&item.body.stamp().to_le_bytes());
        self.encoded.extend_from_slice(&(body.len() as u32).to_le_bytes());
        self.encoded.extend_from_slice(&body);
        self.items.push(item);
    }

    pub(crate) fn of(items: Vec<DigestItem>) -> Self {
        let mut digest = Self::default();
        items.into_iter().for_each(|item| digest.push(item));
        digest
    }

    /// The payload of its record.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(payload);
        let mut digest = Self::default();
        while fields.end().is_none() {
            let kind = fields.u8()?;
            let (block, stamp, length) = (fields.u32()?, fields.u64()?, fields.u32()?);
            let body = fields.bytes(length as usize)?;
            let body = match kind {
                KIND_SEGMENT => ItemBody::Segment(decode_segment(stamp, body)?),
                KIND_TOMBSTONES => ItemBody::Tombstones { stamp, tombstones: decode_tombstones(body)? },
                _ => return None,
            };
            digest.items.push(DigestItem { block, body });
        }
        digest.encoded = payload.to_vec();
        Some(digest)
    }
}

fn decode_segment(stamp: u64, body: &[u8]) -> Option<Marker> {
    let mut fields = Fields::new(body);
    let (length, data, parity, count) = (fields.u32()?, fields.u8()?, fields.u8()?, fields.u32()?);
    let shape = Shape::new(shingle_erasure::Code::new(data, parity).ok()?, length);
    let parts = decode_parts(&mut fields, count, length)?;
    fields.end()?;
    Some(Marker { stamp, shape, parts })
}
