//! Compression of a blob's content. (Dissertation, section 4.5.3.)
//!
//! # Invariants
//! - BLU-PACK-1: bytes that a blob names are unpacked to exactly its content's length, or are damage; no length allocates without bound.

use shingle_base::BLOCK_SIZE;

/// Content of a compressed blob at most: what a read of any byte of it unpacks.
pub(crate) const PACKED_RAW_MAX: u32 = 128 << 10;

/// Level of zstd: its usual one.
const LEVEL: i32 = 3;

/// Way in which a blob's content is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Lz4,
    Zstd,
}

impl Packing {
    /// Its number in the format.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Lz4 => 1,
            Self::Zstd => 2,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        [Self::Plain, Self::Lz4, Self::Zstd].into_iter().find(|packing| packing.code() == code)
    }

    /// Content as it is stored; `None` if that takes as many blocks as it does without.
    pub(crate) fn pack(self, content: &[u8]) -> Option<Vec<u8>> {
        let packed = match self {
            Self::Plain => return None,
            Self::Lz4 => lz4_flex::block::compress(content),
            Self::Zstd => zstd::bulk::compress(content, LEVEL).ok()?,
        };
        let fewer = packed.len().div_ceil(BLOCK_SIZE) < content.len().div_ceil(BLOCK_SIZE);
        fewer.then_some(packed)
    }

    /// The content of `raw` bytes; `None` if the stored bytes are not of that. (BLU-PACK-1)
    pub(crate) fn unpack(self, stored: &[u8], raw: u32) -> Option<Vec<u8>> {
        let raw = raw as usize;
        let content = match self {
            Self::Plain => stored.get(..raw)?.to_vec(),
            Self::Lz4 => {
                let mut content = vec![0; raw];
                let length = lz4_flex::block::decompress_into(stored, &mut content).ok()?;
                content.truncate(length);
                content
            }
            Self::Zstd => zstd::bulk::decompress(stored, raw).ok()?,
        };
        (content.len() == raw).then_some(content)
    }
}

#[cfg(test)]
mod tests {
    use shingle_sim::{Random, seeds};

    use super::*;

    /// BLU-PACK-1.
    #[test]
    fn content_comes_back_and_damage_does_not() {
        for seed in seeds(30) {
            let mut random = Random::new(seed);
            let word = random.bytes(40);
            let content: Vec<u8> = word.iter().copied().cycle().take(20_000 + random.below(90_000) as usize).collect();
            for packing in [Packing::Lz4, Packing::Zstd] {
                let packed = packing.pack(&content).expect("it repeats itself");
                assert!(packed.len() < content.len() / 4, "seed {seed}");
                let raw = content.len() as u32;
                assert_eq!(packing.unpack(&packed, raw).as_deref(), Some(&content[..]), "seed {seed}");
                assert_eq!(packing.unpack(&packed, raw - 1), None, "seed {seed}");
                assert_eq!(packing.unpack(&packed, raw + 1), None, "seed {seed}");
                let mut bad = packed.clone();
                let at = random.below(bad.len() as u64) as usize;
                bad[at] ^= 1 << random.below(8);
                if let Some(other) = packing.unpack(&bad, raw) {
                    assert_eq!(other.len(), content.len(), "seed {seed}: the checksum tells them apart");
                }
                assert_eq!(packing.pack(&random.bytes(20_000)), None, "seed {seed}: noise stays as it is");
                assert_eq!(Packing::of_code(packing.code()), Some(packing));
            }
        }
        assert_eq!((Packing::Plain.pack(&[0; 100_000]), Packing::of_code(3)), (None, None));
    }
}
