//! Keys of the metadata: one byte for the namespace, then fields whose order as bytes is the order of what they name.
//!
//! | namespace | key                                                     | value                            |
//! |-----------|---------------------------------------------------------|----------------------------------|
//! | `S`       | name                                                    | of the store as a whole          |
//! | `C`       | pool, seed                                              | a collection                     |
//! | `O`       | object                                                  | its head                         |
//! | `E`       | number of the object, shard                             | a shard of its extent map        |
//! | `M`       | number of the object, omap key                          | omap value                       |
//! | `X`       | number of the shared blob                               | a shared blob                    |
//! | `G`       | zone, 0, object, shard; or zone, 1, shared blob         | empty: it has live blocks there  |
//! | `Z`       | zone                                                    | state of the zone                |
//! | `L`       | number                                                  | a deferred write                 |
//!
//! # Invariants
//! - BLU-KEY-1: keys of objects have the order of the objects, and no key is the beginning of another one's.

use shingle_base::wire::Fields;

use crate::ids::{CollectionId, CollectionInfo, NAME_MAX, NAMESPACE_MAX, ObjectId};

/// A key of the metadata, without its namespace where that is clear.
pub(crate) type Key = Vec<u8>;

/// Beginnings of keys.
pub(crate) mod space {
    pub(crate) const STORE: u8 = b'S';
    pub(crate) const COLLECTION: u8 = b'C';
    pub(crate) const OBJECT: u8 = b'O';
    pub(crate) const SHARD: u8 = b'E';
    pub(crate) const OMAP: u8 = b'M';
    pub(crate) const SHARED: u8 = b'X';
    pub(crate) const LIVE: u8 = b'G';
    pub(crate) const ZONE: u8 = b'Z';
    pub(crate) const DEFERRED: u8 = b'L';
}

fn key(space: u8, fields: &[&[u8]]) -> Key {
    let mut key = vec![space];
    fields.iter().for_each(|field| key.extend_from_slice(field));
    key
}

/// The key behind all that begin with `prefix`, which does not end with 255.
pub(crate) fn behind(prefix: &[u8]) -> Key {
    let mut key = prefix.to_vec();
    while key.pop_if(|last| *last == u8::MAX).is_some() {}
    if let Some(last) = key.last_mut() {
        *last += 1;
    }
    key
}

/// The numbers that were given out.
pub(crate) fn numbers() -> Key {
    key(space::STORE, &[b"numbers"])
}

/// A collection.
pub(crate) fn collection(id: CollectionId) -> Key {
    key(space::COLLECTION, &[&id.pool.to_be_bytes(), &id.seed.to_be_bytes()])
}

/// Reads the key of a collection.
pub(crate) fn parse_collection(bytes: &[u8]) -> Option<CollectionId> {
    let mut fields = of_space(space::COLLECTION, bytes)?;
    let id = CollectionId { pool: be64(&mut fields)?, seed: be32(&mut fields)? };
    fields.end().map(|()| id)
}

/// Bytes whose order is that of `text`, and that end themselves: a zero becomes 0 255, and 0 0 is the end.
fn put_text(key: &mut Key, text: &[u8]) {
    for byte in text {
        key.push(*byte);
        if *byte == 0 {
            key.push(0xFF);
        }
    }
    key.extend([0, 0]);
}

fn take_text(fields: &mut Fields<'_>, most: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        match fields.u8()? {
            0 => match fields.u8()? {
                0 => return Some(text),
                0xFF => text.push(0),
                _ => return None,
            },
            byte => text.push(byte),
        }
        if text.len() > most {
            return None;
        }
    }
}

fn be32(fields: &mut Fields<'_>) -> Option<u32> {
    fields.array().map(u32::from_be_bytes)
}

fn be64(fields: &mut Fields<'_>) -> Option<u64> {
    fields.array().map(u64::from_be_bytes)
}

fn of_space(space: u8, bytes: &[u8]) -> Option<Fields<'_>> {
    let (first, rest) = bytes.split_first()?;
    (*first == space).then(|| Fields::new(rest))
}

fn put_object(key: &mut Key, id: &ObjectId) {
    key.extend(id.pool.to_be_bytes());
    key.extend(id.hash.reverse_bits().to_be_bytes());
    put_text(key, &id.namespace);
    put_text(key, &id.name);
    key.extend(id.generation.to_be_bytes());
}

fn take_object(fields: &mut Fields<'_>) -> Option<ObjectId> {
    Some(ObjectId {
        pool: be64(fields)?,
        hash: be32(fields)?.reverse_bits(),
        namespace: take_text(fields, NAMESPACE_MAX)?,
        name: take_text(fields, NAME_MAX)?,
        generation: be64(fields)?,
    })
}

/// An object. (BLU-KEY-1)
pub(crate) fn object(id: &ObjectId) -> Key {
    let mut key = vec![space::OBJECT];
    put_object(&mut key, id);
    key
}

/// Reads the key of an object.
pub(crate) fn parse_object(bytes: &[u8]) -> Option<ObjectId> {
    let mut fields = of_space(space::OBJECT, bytes)?;
    let id = take_object(&mut fields)?;
    fields.end().map(|()| id)
}

/// Keys of a collection's objects: the first, and the one behind the last.
pub(crate) fn objects_of(info: &CollectionInfo) -> (Key, Key) {
    let (first, last) = info.order();
    let pool = info.id.pool.to_be_bytes();
    (key(space::OBJECT, &[&pool, &first.to_be_bytes()]), behind(&key(space::OBJECT, &[&pool, &last.to_be_bytes()])))
}

/// A shard of an object's extent map.
pub(crate) fn shard(number: u64, shard: u32) -> Key {
    key(space::SHARD, &[&number.to_be_bytes(), &shard.to_be_bytes()])
}

/// Reads the key of a shard.
pub(crate) fn parse_shard(bytes: &[u8]) -> Option<(u64, u32)> {
    let mut fields = of_space(space::SHARD, bytes)?;
    let of = (be64(&mut fields)?, be32(&mut fields)?);
    fields.end().map(|()| of)
}

/// Keys of all shards of an object: the first, and the one behind the last.
pub(crate) fn shards_of(number: u64) -> (Key, Key) {
    let prefix = key(space::SHARD, &[&number.to_be_bytes()]);
    let end = behind(&prefix);
    (prefix, end)
}

/// An entry of an object's omap.
pub(crate) fn omap(number: u64, name: &[u8]) -> Key {
    key(space::OMAP, &[&number.to_be_bytes(), name])
}

/// The key in an omap that a key of the metadata is for, and the number of the object.
pub(crate) fn parse_omap(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut fields = of_space(space::OMAP, bytes)?;
    Some((be64(&mut fields)?, fields.rest()))
}

/// Keys of an object's omap: the first, and the one behind the last.
pub(crate) fn omap_of(number: u64) -> (Key, Key) {
    let prefix = omap(number, b"");
    let end = behind(&prefix);
    (prefix, end)
}

/// A shared blob.
pub(crate) fn shared(number: u64) -> Key {
    key(space::SHARED, &[&number.to_be_bytes()])
}

/// Reads the key of a shared blob.
pub(crate) fn parse_shared(bytes: &[u8]) -> Option<u64> {
    let mut fields = of_space(space::SHARED, bytes)?;
    let number = be64(&mut fields)?;
    fields.end().map(|()| number)
}

/// A holder of live blocks in a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    /// A shard of an object's extent map.
    Object(ObjectId, u32),
    /// A shared blob.
    Shared(u64),
}

/// Live blocks of a holder in a zone.
pub(crate) fn live(zone: u32, holder: &Holder) -> Key {
    let mut key = key(space::LIVE, &[&zone.to_be_bytes()]);
    match holder {
        Holder::Object(id, shard) => {
            key.push(0);
            put_object(&mut key, id);
            key.extend(shard.to_be_bytes());
        }
        Holder::Shared(number) => {
            key.push(1);
            key.extend(number.to_be_bytes());
        }
    }
    key
}

/// Reads the key of live blocks.
pub(crate) fn parse_live(bytes: &[u8]) -> Option<(u32, Holder)> {
    let mut fields = of_space(space::LIVE, bytes)?;
    let zone = be32(&mut fields)?;
    let holder = match fields.u8()? {
        0 => Holder::Object(take_object(&mut fields)?, be32(&mut fields)?),
        1 => Holder::Shared(be64(&mut fields)?),
        _ => return None,
    };
    fields.end().map(|()| (zone, holder))
}

/// Keys of live blocks in a zone: the first, and the one behind the last.
pub(crate) fn live_in(zone: u32) -> (Key, Key) {
    let prefix = key(space::LIVE, &[&zone.to_be_bytes()]);
    let end = behind(&prefix);
    (prefix, end)
}

/// A zone.
pub(crate) fn zone(zone: u32) -> Key {
    key(space::ZONE, &[&zone.to_be_bytes()])
}

/// Reads the key of a zone.
pub(crate) fn parse_zone(bytes: &[u8]) -> Option<u32> {
    let mut fields = of_space(space::ZONE, bytes)?;
    let zone = be32(&mut fields)?;
    fields.end().map(|()| zone)
}

/// A deferred write.
pub(crate) fn deferred(number: u64) -> Key {
    key(space::DEFERRED, &[&number.to_be_bytes()])
}

/// Reads the key of a deferred write.
pub(crate) fn parse_deferred(bytes: &[u8]) -> Option<u64> {
    let mut fields = of_space(space::DEFERRED, bytes)?;
    let number = be64(&mut fields)?;
    fields.end().map(|()| number)
}

/// All keys of a namespace: the first, and the one behind the last.
pub(crate) fn all_of(space: u8) -> (Key, Key) {
    (vec![space], vec![space + 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::HEAD;

    fn some_objects() -> Vec<ObjectId> {
        let texts: [&[u8]; 8] = [b"", b"a", b"ab", b"a\0", b"a\0b", b"\0", b"\xff", b"b"];
        let mut ids = Vec::new();
        for (number, name) in texts.iter().enumerate() {
            for namespace in texts {
                let hash = 0x9E37_79B9u32.wrapping_mul(number as u32 % 3);
                let id = ObjectId { pool: 1, hash, namespace: namespace.into(), name: name.to_vec(), generation: HEAD };
                ids.extend([id.at_generation(3), ObjectId { pool: 2, ..id.clone() }, id]);
            }
        }
        ids
    }

    /// BLU-KEY-1.
    #[test]
    fn keys_of_objects_have_their_order_and_come_back() {
        let mut ids = some_objects();
        ids.sort();
        ids.dedup();
        let keys: Vec<Key> = ids.iter().map(object).collect();
        assert!(keys.is_sorted_by(|one, next| one < next && !next.starts_with(one)));
        for (key, id) in keys.iter().zip(&ids) {
            assert_eq!(parse_object(key).as_ref(), Some(id));
            let holder = Holder::Object(id.clone(), 7);
            assert_eq!(parse_live(&live(9, &holder)), Some((9, holder)));
        }
    }

    #[test]
    fn other_keys_come_back() {
        let id = CollectionId { pool: 3, seed: 0xE4 };
        assert_eq!(parse_collection(&collection(id)), Some(id));
        assert_eq!(parse_shard(&shard(u64::MAX, 2)), Some((u64::MAX, 2)));
        assert_eq!(parse_omap(&omap(5, b"k")), Some((5, &b"k"[..])));
        assert_eq!(
            (parse_shared(&shared(8)), parse_zone(&zone(9)), parse_deferred(&deferred(1))),
            (Some(8), Some(9), Some(1))
        );
        assert_eq!(parse_live(&live(4, &Holder::Shared(8))), Some((4, Holder::Shared(8))));
        assert_eq!((parse_zone(b"Z123"), parse_zone(b"X1234"), parse_object(b"O")), (None, None, None));
    }

    #[test]
    fn ranges_hold_what_they_are_for() {
        let info = CollectionInfo { id: CollectionId { pool: 1, seed: 0b11 }, bits: 2 };
        let (from, to) = objects_of(&info);
        for id in some_objects() {
            let key = object(&id);
            assert_eq!(info.holds(id.pool, id.hash), (&from..&to).contains(&&key), "{id}");
        }
        assert_eq!(behind(&[1, 0xFF, 0xFF]), [2]);
        let (from, to) = omap_of(7);
        assert!((&from..&to).contains(&&omap(7, &[0xFF; 9])) && !(&from..&to).contains(&&omap(8, b"")));
    }

    /// The bytes are part of the format.
    #[test]
    fn golden_bytes() {
        let id = ObjectId { pool: 1, hash: 1, namespace: b"n".into(), name: b"a\0".into(), generation: 2 };
        let expected = b"O\0\0\0\0\0\0\0\x01\x80\0\0\0n\0\0a\0\xff\0\0\0\0\0\0\0\0\0\x02";
        assert_eq!(object(&id), expected);
        assert_eq!(live(3, &Holder::Shared(4)), b"G\0\0\0\x03\x01\0\0\0\0\0\0\0\x04");
        assert_eq!(shard(1, 2), b"E\0\0\0\0\0\0\0\x01\0\0\0\x02");
    }
}
