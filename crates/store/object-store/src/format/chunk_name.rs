//! The names of this store's chunks: a chunk list alone says which files there are.

use shingle_chunk_store::{ChunkId, Stream};

const MAGIC: [u8; 4] = *b"SHO1";

/// A chunk's place in its file, as its id spells it. Integers are big-endian, so that ids are ordered by file, then
/// ordinal.
///
/// | at | size | field     | meaning                                                        |
/// |---:|-----:|-----------|----------------------------------------------------------------|
/// |  0 |    4 | `magic`   | `SHO1`; the digit is the format version                         |
/// |  4 |    8 | `file`    | file number, never used twice in a set                          |
/// | 12 |    4 | `ordinal` | place of the chunk in its file, from 0                          |
/// | 16 |    1 | `stream`  | 0 data, 1 GC, 2 metadata (an index backup)                      |
/// | 17 |    3 |           | zero                                                           |
/// | 20 |    4 | `set`     | the store set: drives of another object store are recognised   |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkName {
    /// File number.
    pub file: u64,
    /// Place in the file, from 0.
    pub ordinal: u32,
    /// Stream of the file.
    pub stream: Stream,
    /// The store set it belongs to.
    pub set: u32,
}

impl ChunkName {
    /// The id that spells this name.
    pub fn id(self) -> ChunkId {
        let mut id = [0; ChunkId::SIZE];
        id[0..4].copy_from_slice(&MAGIC);
        id[4..12].copy_from_slice(&self.file.to_be_bytes());
        id[12..16].copy_from_slice(&self.ordinal.to_be_bytes());
        id[16] = match self.stream {
            Stream::Data => 0,
            Stream::Gc => 1,
            Stream::Meta => 2,
        };
        id[20..24].copy_from_slice(&self.set.to_be_bytes());
        ChunkId(id)
    }

    /// The name an id spells; none if the chunk is not an object store's.
    pub fn parse(id: ChunkId) -> Option<Self> {
        let (magic, rest) = id.0.split_first_chunk::<4>()?;
        let (file, rest) = rest.split_first_chunk::<8>()?;
        let (ordinal, rest) = rest.split_first_chunk::<4>()?;
        let (stream, set) = rest.split_first_chunk::<4>()?;
        let stream = match *stream {
            [0, 0, 0, 0] => Stream::Data,
            [1, 0, 0, 0] => Stream::Gc,
            [2, 0, 0, 0] => Stream::Meta,
            _ => return None,
        };
        (*magic == MAGIC).then_some(())?;
        Some(Self {
            file: u64::from_be_bytes(*file),
            ordinal: u32::from_be_bytes(*ordinal),
            stream,
            set: u32::from_be_bytes(set.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_names_keep_their_golden_bytes() {
        let name = ChunkName { file: 0x0102_0304_0506_0708, ordinal: 9, stream: Stream::Gc, set: 0xa0b0_c0d0 };
        assert_eq!(name.id().to_string(), "53484f3101020304050607080000000901000000a0b0c0d0");
        assert_eq!(ChunkName::parse(name.id()), Some(name));
    }

    #[test]
    fn ids_of_others_are_no_names() {
        let good = ChunkName { file: 1, ordinal: 0, stream: Stream::Data, set: 1 }.id();
        for (at, byte) in [(0, b'X'), (3, b'2'), (16, 3), (17, 1), (19, 1)] {
            let mut id = good;
            id.0[at] = byte;
            assert_eq!(ChunkName::parse(id), None, "byte {at}");
        }
        assert_eq!(ChunkName::parse(ChunkId::from_u64(7)), None);
    }

    #[test]
    fn ids_are_ordered_by_file_then_ordinal() {
        let id = |file, ordinal| ChunkName { file, ordinal, stream: Stream::Data, set: 7 }.id();
        assert!(id(1, 300) < id(2, 0) && id(2, 0) < id(2, 1) && id(255, 0) < id(256, 0));
    }
}
