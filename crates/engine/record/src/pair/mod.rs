//! Pairs: records that journal themselves, with a header before and a trailer behind their data. (FSTL, section III-A.)
//!
//! Writes that arrive together share a pair. Header and trailer both have the [names](Name) of its data: which sectors
//! it is, and the numbers of the writes. So a write is durable with one command and no change of a map elsewhere, and the
//! loss of any one block costs the data in that block alone. Data are in slices of 4,096 bytes, each with a check that
//! holds for its place alone, so that any sector can be read and verified without header or trailer.
//!
//! | at                | size         | contents                                             |
//! |------------------:|-------------:|------------------------------------------------------|
//! |                 0 |           96 | header                                               |
//! |                96 | 12 or 20 each | names                                               |
//! | 1,536 + 4,100 `n` |        4,100 | slice `n`: 4,096 bytes (the last filled with zeros), and its check |
//! |       end - 1,536 |           96 | trailer: a header that names its own block and the pair's first |
//! |       end - 1,440 | 12 or 20 each | the same names                                      |
//!
//! With up to 1 MiB of data all this takes one block besides the data: 0.4 % of 1 MiB, 0.8 % of 500 KiB, as the paper's.
//!
//! **Owns** the format. **Knows nothing of** maps, frontiers, and which pairs count.
//!
//! # Invariants
//! - RC-PAIR-1: either of header and trailer tells all names, the number of the first write and the zone that follows.
//! - RC-PAIR-2: a slice passes only at its place (store, zone, generation, pair, number). `a_slice_passes_only_at_its_place`.
//! - RC-PAIR-3: names tell of as much data as there is; others are not believed.

mod framer;
mod judge;
mod names;
mod plan;
mod side;
#[cfg(test)]
mod tests;

use shingle_base::Blocks;

use crate::slices::SLICE_SIZE;

pub use framer::{PairFramer, frame_hollow_pair};
pub(crate) use judge::verify_pair;
pub use judge::{JudgedPair, judge_pair};
pub use names::{NAMES_MAX, Name, NameKind, Numbering};
pub use plan::{PairPlan, PairSliceError, check_slice, slice_tag};
pub use side::{NextZone, Pair};

/// Bytes of header and names, and of trailer and names.
pub const SIDE_SIZE: usize = 1536;

/// Bytes of a slice's check: CRC-32C of its data, xor its [tag](slice_tag).
pub const CHECK_SIZE: usize = 4;

/// Bytes of a slice with its check.
const STRIDE: usize = SLICE_SIZE + CHECK_SIZE;

/// The most data of a pair, in slices: what keeps header, trailer and checks within one block.
pub const PAIR_SLICES_MAX: u32 = 256;

/// Blocks of a pair with `length` bytes of data: two at least, so that no block has both header and trailer.
pub fn pair_blocks(length: u64) -> Blocks {
    let slices = length.div_ceil(SLICE_SIZE as u64);
    Blocks::holding((2 * SIDE_SIZE) as u64 + slices * STRIDE as u64).max(Blocks(2))
}
