//! Objects of the store by what they are for. [docs/formats/blue-objects.md]

use shingle_blue_store::{CollectionId, CollectionInfo, ObjectId};

/// The pool of all objects.
const POOL: u64 = 1;

/// The collection of all objects.
pub(crate) const COLLECTION: CollectionInfo = CollectionInfo { id: CollectionId { pool: POOL, seed: 0 }, bits: 0 };

const NAMES: u8 = b'n';
const UPLOADS: u8 = b'u';
const PARTS: u8 = b'p';
const BYTES: u8 = b'b';

/// Buckets by name.
pub(crate) fn root() -> ObjectId {
    ObjectId::new(POOL, "buckets")
}

/// Bytes that go, or that are being written.
pub(crate) fn going() -> ObjectId {
    ObjectId::new(POOL, "going")
}

fn numbered(kind: u8, number: u64) -> ObjectId {
    ObjectId::new(POOL, [&[kind][..], &number.to_be_bytes()].concat())
}

/// Objects of a bucket by key.
pub(crate) fn names(bucket: u64) -> ObjectId {
    numbered(NAMES, bucket)
}

/// Uploads of a bucket by key and identity.
pub(crate) fn uploads(bucket: u64) -> ObjectId {
    numbered(UPLOADS, bucket)
}

/// Parts of an upload by number.
pub(crate) fn parts(upload: u64) -> ObjectId {
    numbered(PARTS, upload)
}

/// A piece of the bytes of an object or part. All pieces of one have the same hash, so they lie beside each other.
pub(crate) fn piece(blob: u64, index: u32) -> ObjectId {
    let whole = numbered(BYTES, blob);
    ObjectId { name: [&whole.name[..], &index.to_be_bytes()].concat(), ..whole }
}

/// A use of an object of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    Root,
    Going,
    Names(u64),
    Uploads(u64),
    Parts(u64),
    Piece(u64, u32),
}

/// The use of an object; `None` if it is none of these.
pub(crate) fn use_of(id: &ObjectId) -> Option<Use> {
    let (kind, rest) = id.name.split_first()?;
    let number = rest.get(..8).and_then(|bytes| Some(u64::from_be_bytes(bytes.try_into().ok()?)));
    let found = match (*kind, number, rest.len()) {
        (NAMES, Some(number), 8) => Use::Names(number),
        (UPLOADS, Some(number), 8) => Use::Uploads(number),
        (PARTS, Some(number), 8) => Use::Parts(number),
        (BYTES, Some(number), 12) => Use::Piece(number, u32::from_be_bytes(rest.get(8..)?.try_into().ok()?)),
        _ if *id == root() => Use::Root,
        _ if *id == going() => Use::Going,
        _ => return None,
    };
    let own = match found {
        Use::Root => root(),
        Use::Going => going(),
        Use::Names(number) => names(number),
        Use::Uploads(number) => uploads(number),
        Use::Parts(number) => parts(number),
        Use::Piece(number, index) => piece(number, index),
    };
    (own == *id).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_tell_what_they_are_for() {
        let number = 0x0102_0304_0506_0708;
        for (id, found) in [
            (root(), Use::Root),
            (going(), Use::Going),
            (names(number), Use::Names(number)),
            (uploads(number), Use::Uploads(number)),
            (parts(number), Use::Parts(number)),
            (piece(number, 3), Use::Piece(number, 3)),
        ] {
            assert_eq!(use_of(&id), Some(found));
            assert!(COLLECTION.holds(id.pool, id.hash));
            let other = ObjectId { hash: id.hash ^ 1, ..id.clone() };
            assert_eq!(use_of(&other), None, "another hash");
        }
        assert_eq!(use_of(&ObjectId::new(1, "n")), None);
        assert_eq!(piece(number, 0).hash, piece(number, 7).hash);
    }
}
