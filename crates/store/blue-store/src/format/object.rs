//! The head of an object: size, attributes, hints, and a small extent map.

use std::collections::BTreeMap;

use bytes::Bytes;
use shingle_base::wire::Fields;
use shingle_record::number::{put, put_bytes, take, take_bytes, take_count, take_u32};

use super::VALUE_VERSION;
use crate::hints::Hints;

/// Names and values of attributes.
pub(crate) type Attributes = BTreeMap<Vec<u8>, Bytes>;

/// The head of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The object's number, which no other one ever has: names its shards and its omap.
    pub(crate) number: u64,
    /// Bytes of the object.
    pub(crate) size: u32,
    /// The extent map has keys of its own, one for each shard.
    pub(crate) sharded: bool,
    /// There may be an omap.
    pub(crate) omap: bool,
    pub(crate) hints: Hints,
    pub(crate) attributes: Attributes,
}

const SHARDED: u8 = 1;
const OMAP: u8 = 2;

/// Bytes of a head, with the shards of a map that is not in keys of its own.
///
/// Fields: version (1 byte); number; size; flags (1 byte: 1 sharded, 2 omap); hints; number of attributes, and each: name, value; unless it
/// is sharded: number of shards, and each: its number, its bytes.
pub(crate) fn encode(head: &Head, shards: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = vec![VALUE_VERSION];
    put(&mut bytes, head.number);
    put(&mut bytes, u64::from(head.size));
    bytes.push(if head.sharded { SHARDED } else { 0 } | if head.omap { OMAP } else { 0 });
    head.hints.put(&mut bytes);
    put(&mut bytes, head.attributes.len() as u64);
    for (name, value) in &head.attributes {
        put_bytes(&mut bytes, name);
        put_bytes(&mut bytes, value);
    }
    if !head.sharded {
        put(&mut bytes, shards.len() as u64);
        for (number, shard) in shards {
            put(&mut bytes, u64::from(*number));
            put_bytes(&mut bytes, shard);
        }
    }
    bytes
}

/// Numbers and bytes of the shards in a head.
pub(crate) type Inside<'b> = Vec<(u32, &'b [u8])>;

/// Reads a head and the shards in it; `None` for bytes that no writer makes.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Head, Inside<'_>)> {
    let mut fields = Fields::new(bytes);
    fields.u8().filter(|version| *version == VALUE_VERSION)?;
    let (number, size) = (take(&mut fields)?, take_u32(&mut fields)?);
    let flags = fields.u8().filter(|flags| *flags <= SHARDED | OMAP)?;
    let (sharded, omap) = (flags & SHARDED != 0, flags & OMAP != 0);
    let hints = Hints::take(&mut fields)?;
    let mut attributes = Attributes::new();
    for _ in 0..take_count(&mut fields)? {
        let (name, value) = (take_bytes(&mut fields)?.to_vec(), Bytes::copy_from_slice(take_bytes(&mut fields)?));
        attributes.insert(name, value);
    }
    let mut shards: Inside<'_> = Vec::new();
    if !sharded {
        for _ in 0..take_count(&mut fields)? {
            let number = take_u32(&mut fields)?;
            if shards.last().is_some_and(|(last, _)| *last >= number) {
                return None;
            }
            shards.push((number, take_bytes(&mut fields)?));
        }
    }
    fields.end()?;
    Some((Head { number, size, sharded, omap, hints, attributes }, shards))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::{Access, Compression, Lifetime};

    fn sample() -> Head {
        let attributes =
            [("a", "one"), ("b", "")].map(|(name, value)| (name.into(), Bytes::from_static(value.as_bytes())));
        let hints = Hints {
            lifetime: Lifetime::Long,
            access: Access::Sequential,
            compression: Compression::Zstd,
            expected_write: 300,
        };
        Head { number: 7, size: 200, sharded: false, omap: true, hints, attributes: attributes.into() }
    }

    #[test]
    fn a_head_comes_back() {
        let bytes = encode(&sample(), &[(0, vec![1, 2]), (3, Vec::new())]);
        assert_eq!(decode(&bytes), Some((sample(), vec![(0, &[1, 2][..]), (3, &[][..])])));
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None);
        }
        let sharded = Head { sharded: true, ..sample() };
        assert_eq!(decode(&encode(&sharded, &[])), Some((sharded, Vec::new())));
        assert_eq!(decode(&encode(&sample(), &[(3, Vec::new()), (3, Vec::new())])), None);
    }

    /// The bytes are part of the format.
    #[test]
    fn golden_bytes() {
        let expected = [
            1, 7, 0xC8, 1, 2, // version, number, size, flags
            3, 2, 2, 0xAC, 2, // hints
            2, 1, b'a', 3, b'o', b'n', b'e', 1, b'b', 0, // attributes
            1, 4, 2, 9, 9, // a shard
        ];
        assert_eq!(encode(&sample(), &[(4, vec![9, 9])]), expected);
    }
}
