//! Lengths of the chunks of Table 3, which the paper does not give to the block.
//!
//! **Owns** the lengths that are tried.
//! **Knows nothing of** stores: a length is of data, whatever its framing takes.

/// Bytes of data in chunks that the paper calls 256 MiB and 64 MiB. It says that a chunk must fit a zone with its headers, and
/// not how much room it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    large: u64,
    small: u64,
}

const MIB: u64 = 1 << 20;

/// The most that fits four times into a zone, with headers and checksums.
const QUARTER: u64 = 64 * MIB / 256 * 255 - 4096;

/// All that are tried. The first one is what runs of one length have: note 0015 says why, and that it was chosen by results.
pub(crate) const LENGTHS: [Lengths; 4] = [
    Lengths { large: 254 * MIB, small: QUARTER },
    Lengths { large: 255 * MIB, small: 63 * MIB },
    Lengths { large: 252 * MIB, small: QUARTER },
    Lengths { large: 255 * MIB - 4096, small: QUARTER },
];

impl Lengths {
    /// The data of a chunk of that size in Table 3.
    pub(crate) fn data_bytes(self, chunk_mib: u64) -> u64 {
        match chunk_mib {
            ..64 => chunk_mib * MIB,
            64..256 => self.small,
            256.. => self.large,
        }
    }

    /// The same with no chunk longer than the small ones.
    pub(crate) fn all_small(self) -> Self {
        Self { large: self.small, ..self }
    }

    /// Name of it, by MiB of data in a large chunk.
    pub(crate) fn name(self) -> String {
        if self.large.is_multiple_of(MIB) { format!("{} MiB", self.large / MIB) } else { "the last block".to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_note_0015() {
        assert_eq!(LENGTHS.map(Lengths::name), ["254 MiB", "255 MiB", "252 MiB", "the last block"]);
        assert_eq!(LENGTHS.map(|lengths| lengths.data_bytes(64)), [QUARTER, 63 * MIB, QUARTER, QUARTER]);
        assert_eq!(LENGTHS[3].data_bytes(256), 255 * MIB - 4096);
        assert_eq!(LENGTHS[0].all_small(), LENGTHS[2].all_small(), "what has no large chunks is the same run");
    }
}
