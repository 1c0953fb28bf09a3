//! The store's parsers of on-disk bytes, for fuzzing: each says whether the bytes make sense, and never panics.

use bytes::Bytes;

use crate::format::superblock::Superblock;
use crate::format::zone::{ZoneChange, ZoneValue};
use crate::format::{key, object, shard, values, zone};

pub use crate::kv::parse_record as record;

/// The store's part of a superblock.
pub fn superblock(bytes: &[u8]) -> bool {
    Superblock::decode(bytes).is_some_and(|block| block.encode() == bytes)
}

/// A key of the metadata.
pub fn key(bytes: &[u8]) -> bool {
    let object = key::parse_object(bytes).is_some_and(|id| key::object(&id) == bytes);
    let live = key::parse_live(bytes).is_some_and(|(zone, holder)| key::live(zone, &holder) == bytes);
    let collection = key::parse_collection(bytes).is_some_and(|id| key::collection(id) == bytes);
    let numbers = [key::parse_shared(bytes), key::parse_deferred(bytes), key::parse_shard(bytes).map(|(of, _)| of)];
    let others = key::parse_zone(bytes).is_some() | key::parse_omap(bytes).is_some();
    object | live | collection | others | numbers.iter().any(Option::is_some)
}

/// The head of an object, and the shards in it.
pub fn head(bytes: &[u8]) -> bool {
    let Some((_, shards)) = object::decode(bytes) else { return false };
    shards.iter().all(|(number, shard)| shard::decode(*number, shard).is_some())
}

/// A shard of an extent map: its number in one byte, and then its value.
pub fn extents(bytes: &[u8]) -> bool {
    let Some((number, value)) = bytes.split_first() else { return false };
    shard::decode(u32::from(*number), value).is_some()
}

/// A small value, of whichever kind.
pub fn value(bytes: &[u8]) -> bool {
    let collection = values::decode_collection(bytes).is_some();
    let numbers = values::decode_numbers(bytes).is_some();
    let deferred = values::decode_deferred(&Bytes::copy_from_slice(bytes)).is_some();
    let shared = values::decode_shared(1, bytes).is_some_and(|blob| values::encode_shared(&blob) == bytes);
    collection | numbers | deferred | shared
}

/// A zone, an operand, and the zone after it: 17 bytes, and then the operand.
pub fn zone_merge(bytes: &[u8]) -> bool {
    let (value, operand) = bytes.split_at(bytes.len().min(17));
    let merged = zone::merge(Some(value), operand);
    ZoneValue::decode(value).is_some() && ZoneChange::decode(operand).is_some() && ZoneValue::decode(&merged).is_some()
}

/// Content of 10,000 bytes out of compressed ones: how is in the first byte.
pub fn packed(bytes: &[u8]) -> bool {
    use crate::blob::packing::Packing;
    let Some((code, stored)) = bytes.split_first() else { return false };
    let content = Packing::of_code(code % 3).and_then(|packing| packing.unpack(stored, 10_000));
    content.is_some_and(|content| content.len() == 10_000)
}

/// Inputs of [`packed`] that are whole: `content` of 10,000 bytes in each way in which it takes less room.
pub fn packed_forms(content: &[u8]) -> Vec<Vec<u8>> {
    use crate::blob::packing::Packing;
    let packed = (0..3).filter_map(|code| Some((code, Packing::of_code(code)?.pack(content)?)));
    packed.map(|(code, stored)| [&[code][..], &stored].concat()).collect()
}
