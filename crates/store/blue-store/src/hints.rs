//! Expectations of an object's user, and what follows from them for new blobs. (Dissertation, sections 4.5.1 and 4.5.3.)
//!
//! **Owns** the policy. **Knows nothing of** blobs and zones.

use shingle_base::wire::Fields;
use shingle_record::number::{put, take_u32};

use crate::blob::packing::Packing;
use crate::blob::{BLOCK, UNIT_SHIFT_MAX};

/// Expected lifetime of an object's bytes: those of one lifetime share zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lifetime {
    /// Unknown.
    #[default]
    None,
    /// Gone first.
    Short,
    /// Gone soon.
    Medium,
    /// Kept long.
    Long,
    /// Kept longest.
    Extreme,
}

/// Expected way of reading and writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Unknown.
    #[default]
    Unknown,
    /// Small pieces anywhere.
    Random,
    /// Written once and read in long pieces.
    Sequential,
}

/// Compression of new bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// None.
    #[default]
    None,
    /// Fast.
    Lz4,
    /// Small.
    Zstd,
}

/// Hints about an object. They change the cost of calls, never their results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Expected lifetime.
    pub lifetime: Lifetime,
    /// Expected access.
    pub access: Access,
    /// Compression, for objects that are seldom overwritten.
    pub compression: Compression,
    /// Expected size of a write in bytes; zero if unknown.
    pub expected_write: u32,
}

const LIFETIMES: [Lifetime; 5] = [Lifetime::None, Lifetime::Short, Lifetime::Medium, Lifetime::Long, Lifetime::Extreme];
const ACCESSES: [Access; 3] = [Access::Unknown, Access::Random, Access::Sequential];
const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

fn position<T: PartialEq>(all: &[T], one: &T) -> u8 {
    all.iter().position(|other| other == one).unwrap_or(0) as u8
}

impl Hints {
    /// Adds them to a value: lifetime, access and compression in one byte each, then the expected size of a write.
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        bytes.push(position(&LIFETIMES, &self.lifetime));
        bytes.push(position(&ACCESSES, &self.access));
        bytes.push(position(&COMPRESSIONS, &self.compression));
        put(bytes, u64::from(self.expected_write));
    }

    pub(crate) fn take(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self {
            lifetime: *LIFETIMES.get(usize::from(fields.u8()?))?,
            access: *ACCESSES.get(usize::from(fields.u8()?))?,
            compression: *COMPRESSIONS.get(usize::from(fields.u8()?))?,
            expected_write: take_u32(fields)?,
        })
    }

    /// Blocks of a checksum unit of a new blob, as a power of two: small ones for bytes that are read and written in small pieces, 128 KiB
    /// for those that are read in long ones.
    pub(crate) fn unit_shift(&self, length: u32) -> u8 {
        let most = match self.access {
            Access::Random => 0,
            Access::Unknown => 2,
            Access::Sequential => UNIT_SHIFT_MAX,
        };
        let write = if self.expected_write > 0 { length.min(self.expected_write) } else { length };
        // A unit is no longer than the blob: else each read of it would verify padding.
        let blocks = (write / BLOCK).max(1);
        most.min(blocks.ilog2() as u8)
    }

    pub(crate) fn packing(&self) -> Packing {
        match self.compression {
            Compression::None => Packing::Plain,
            Compression::Lz4 => Packing::Lz4,
            Compression::Zstd => Packing::Zstd,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_grow_with_writes_and_hints() {
        let of = |access, expected_write| Hints { access, expected_write, ..Hints::default() };
        let shifts = |hints: Hints| [100, 16 << 10, 128 << 10, 512 << 10].map(|length| hints.unit_shift(length));
        assert_eq!(shifts(of(Access::Unknown, 0)), [0, 2, 2, 2]);
        assert_eq!(shifts(of(Access::Sequential, 0)), [0, 2, 5, 5]);
        assert_eq!(shifts(of(Access::Sequential, 32 << 10)), [0, 2, 3, 3]);
        assert_eq!(shifts(of(Access::Random, 0)), [0; 4]);
    }
}
