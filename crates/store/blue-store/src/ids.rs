//! Names of collections and objects, and the order of hashes. (Dissertation, section 4.4.1, "Metadata Organization".)
//!
//! # Invariants
//! - BLU-HASH-1: objects of a collection follow each other in the order of keys, and so do those of each part into which it can be split.

use std::fmt;

use shingle_base::{crc32c, printable};

use crate::error::{BlueError, BlueResult};

/// Bytes of an object's name at most.
pub const NAME_MAX: usize = 2048;

/// Bytes of a namespace at most.
pub const NAMESPACE_MAX: usize = 255;

/// Bits of the hash that a collection's identity may have at most.
pub const BITS_MAX: u8 = 24;

/// The generation of an object that is no snapshot.
pub const HEAD: u64 = u64::MAX;

/// A collection: the objects of a pool whose hash ends with some bits. `12.e4` with 6 bits has those whose hash ends with the lowest 6
/// bits of `e4`. Collections of one pool have no object in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CollectionId {
    /// Number of the pool.
    pub pool: u64,
    /// The lowest bits of its objects' hashes.
    pub seed: u32,
}

impl fmt::Display for CollectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.pool, self.seed)
    }
}

/// The bits of a hash that a collection looks at.
pub(crate) fn mask(bits: u8) -> u32 {
    if bits >= 32 { u32::MAX } else { (1 << bits) - 1 }
}

/// A collection, and how many bits of a hash count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CollectionInfo {
    /// Its identity.
    pub id: CollectionId,
    /// Bits of the hash that its objects have in common.
    pub bits: u8,
}

impl CollectionInfo {
    /// True if objects of this pool and hash belong to it.
    pub fn holds(&self, pool: u64, hash: u32) -> bool {
        pool == self.id.pool && hash & mask(self.bits) == self.id.seed
    }

    /// True if one of them has objects of the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        let common = mask(self.bits.min(other.bits));
        self.id.pool == other.id.pool && self.id.seed & common == other.id.seed & common
    }

    /// Reversed hashes of its objects: the first and the last.
    pub(crate) fn order(&self) -> (u32, u32) {
        let first = self.id.seed.reverse_bits();
        (first, first | u32::MAX.checked_shr(u32::from(self.bits)).unwrap_or(0))
    }

    /// Fails for a seed that has other bits than those that count.
    pub(crate) fn check(&self) -> BlueResult<()> {
        if self.bits > BITS_MAX || self.id.seed & !mask(self.bits) != 0 {
            return Err(BlueError::invalid(format!(
                "collection {} with {} bits: at most {BITS_MAX} bits, and none of the seed beyond them",
                self.id, self.bits
            )));
        }
        Ok(())
    }
}

/// An object's name. Objects are ordered by pool, the hash with its bits reversed, namespace, name, generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectId {
    /// Number of the pool.
    pub pool: u64,
    /// The hash that chooses the collection: [`ObjectId::new`] takes that of the name. Objects that are cloned to each other have the
    /// same.
    pub hash: u32,
    /// Namespace inside of the pool.
    pub namespace: Vec<u8>,
    /// Name.
    pub name: Vec<u8>,
    /// Number of a snapshot; [`HEAD`] for the object itself.
    pub generation: u64,
}

impl ObjectId {
    /// An object of the empty namespace, with the hash of its name.
    pub fn new(pool: u64, name: impl Into<Vec<u8>>) -> Self {
        let name = name.into();
        Self { pool, hash: crc32c(&name), namespace: Vec::new(), name, generation: HEAD }
    }

    /// The same object as of a snapshot.
    pub fn at_generation(&self, generation: u64) -> Self {
        Self { generation, ..self.clone() }
    }

    /// Fails for a name that is too long.
    pub(crate) fn check(&self) -> BlueResult<()> {
        if self.name.len() > NAME_MAX || self.namespace.len() > NAMESPACE_MAX {
            return Err(BlueError::invalid(format!(
                "a name has at most {NAME_MAX} bytes, and a namespace {NAMESPACE_MAX}; `{self}` has more"
            )));
        }
        Ok(())
    }

    fn order(&self) -> (u64, u32, &[u8], &[u8], u64) {
        (self.pool, self.hash.reverse_bits(), &self.namespace, &self.name, self.generation)
    }
}

impl PartialOrd for ObjectId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |bytes: &[u8]| printable(bytes.get(..80).unwrap_or(bytes));
        write!(f, "{}:{:08x}:{}:{}", self.pool, self.hash, short(&self.namespace), short(&self.name))?;
        if self.generation == HEAD { Ok(()) } else { write!(f, "@{}", self.generation) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BLU-HASH-1.
    #[test]
    fn parts_of_a_collection_are_ranges_of_the_order() {
        let of = |seed, bits| CollectionInfo { id: CollectionId { pool: 1, seed }, bits };
        let whole = of(0b01, 2);
        let parts = [of(0b001, 3), of(0b101, 3)];
        for hash in (0..4000u32).map(|number| number.wrapping_mul(2_654_435_761)) {
            let place = hash.reverse_bits();
            for one in [whole, parts[0], parts[1], of(0, 0)] {
                let (first, last) = one.order();
                assert_eq!(one.holds(1, hash), (first..=last).contains(&place), "{hash:x} in {one:?}");
            }
        }
        assert_eq!((whole.order().0, whole.order().1), (parts[0].order().0, parts[1].order().1));
        assert!(whole.overlaps(&parts[1]) && !parts[0].overlaps(&parts[1]) && !of(0b10, 2).overlaps(&whole));
        assert!(of(4, 2).check().is_err() && of(3, 2).check().is_ok() && of(0, 32).check().is_err());
    }
}
