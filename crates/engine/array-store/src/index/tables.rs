//! The index's two tables: keys, values and their bytes.

use bytes::Bytes;
use redb::TableDefinition;

use super::error::{IndexError, IndexResult};
use crate::types::{PartPlace, SetId, Version};

/// Bytes of a [`PartPlace`] in PARTS.
pub(super) const PLACE_LENGTH: usize = 29;

pub(super) type PartsKey = (&'static [u8], u64, u64);

pub(super) type CompleteKey = (&'static [u8], u64);

/// (name, version, offset) to place.
pub(super) const PARTS: TableDefinition<'_, PartsKey, &[u8; PLACE_LENGTH]> = TableDefinition::new("parts");

/// (name, version with all bits flipped) to size (8) and attributes.
pub(super) const COMPLETE: TableDefinition<'_, CompleteKey, &[u8]> = TableDefinition::new("complete");

/// Names a part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartKey {
    pub(crate) name: Bytes,
    pub(crate) version: Version,
    pub(crate) offset: u64,
}

/// A complete version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) version: Version,
    pub(crate) size: u64,
    pub(crate) attributes: Bytes,
}

/// A version as COMPLETE has it: the newest first.
pub(super) fn newest_first(version: Version) -> u64 {
    !version.0
}

pub(super) fn version_of(newest_first: u64) -> Version {
    Version(!newest_first)
}

pub(super) fn place_to_bytes(place: &PartPlace) -> [u8; PLACE_LENGTH] {
    let mut bytes = [0; PLACE_LENGTH];
    bytes[0..4].copy_from_slice(&place.set.0.to_le_bytes());
    bytes[4..8].copy_from_slice(&place.block.to_le_bytes());
    bytes[8..16].copy_from_slice(&place.stamp.to_le_bytes());
    bytes[16..20].copy_from_slice(&place.segment_length.to_le_bytes());
    bytes[20..24].copy_from_slice(&place.at.to_le_bytes());
    bytes[24..28].copy_from_slice(&place.length.to_le_bytes());
    bytes[28] = u8::from(place.last);
    bytes
}

pub(super) fn place_from_bytes(bytes: &[u8; PLACE_LENGTH]) -> PartPlace {
    let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    PartPlace {
        set: SetId(number(0)),
        block: number(4),
        stamp: u64::from(number(8)) | u64::from(number(12)) << 32,
        segment_length: number(16),
        at: number(20),
        length: number(24),
        last: bytes[28] != 0,
    }
}

pub(super) fn complete_value(size: u64, attributes: &[u8]) -> Vec<u8> {
    [&size.to_le_bytes(), attributes].concat()
}

/// Size and attributes.
pub(super) fn complete_parts(value: &[u8]) -> IndexResult<(u64, &[u8])> {
    let (size, attributes) =
        value.split_first_chunk().ok_or(IndexError::Malformed("an object's entry is too short"))?;
    Ok((u64::from_le_bytes(*size), attributes))
}

pub(super) fn object_of(version: u64, value: &[u8]) -> IndexResult<Object> {
    let (size, attributes) = complete_parts(value)?;
    Ok(Object { version: version_of(version), size, attributes: Bytes::copy_from_slice(attributes) })
}
