//! Reading some of a pair's data, verified, without its header or trailer.

use std::fmt;

use shingle_base::{BLOCK_SIZE, Blocks, crc32c};

use super::{CHECK_SIZE, SIDE_SIZE, STRIDE};
use crate::header::RecordPlace;
use crate::slices::SLICE_SIZE;

/// A slice that fails its check: it is damaged, or belongs elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairSliceError {
    /// Its number in the pair.
    pub slice: u32,
}

impl fmt::Display for PairSliceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slice {} fails its check: it is damaged, or belongs elsewhere", self.slice)
    }
}

impl std::error::Error for PairSliceError {}

/// The part of a slice's check that stands for its place. It is added (xor) to the checksum of the data, so that this can
/// be computed before the place is known. (RC-PAIR-2)
pub fn slice_tag(place: &RecordPlace, slice: u32) -> u32 {
    let mut bytes = [0; 28];
    bytes[..8].copy_from_slice(&place.store.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&place.epoch.to_le_bytes());
    bytes[16..20].copy_from_slice(&place.zone.0.to_le_bytes());
    bytes[20..24].copy_from_slice(&place.block.to_le_bytes());
    bytes[24..].copy_from_slice(&slice.to_le_bytes());
    crc32c(&bytes)
}

/// Data of a slice, with its check behind it in `bytes`.
///
/// # Errors
/// It fails its check.
pub fn check_slice<'r>(place: &RecordPlace, slice: u32, bytes: &'r [u8]) -> Result<&'r [u8], PairSliceError> {
    let split = bytes.split_last_chunk::<CHECK_SIZE>();
    let good = split.filter(|(data, check)| {
        data.len() == SLICE_SIZE && crc32c(data) ^ slice_tag(place, slice) == u32::from_le_bytes(**check)
    });
    good.map(|(data, _)| data).ok_or(PairSliceError { slice })
}

/// Blocks of a pair that hold a range of its data, with the checks that vouch for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairPlan {
    from: u64,
    length: u64,
}

impl PairPlan {
    /// A plan for `length` bytes of the data from byte `from` on.
    pub fn new(from: u32, length: u32) -> Self {
        Self { from: from.into(), length: length.into() }
    }

    /// Number of the first slice, and of the one behind the last.
    fn slices(&self) -> (u64, u64) {
        let slice = SLICE_SIZE as u64;
        (self.from / slice, (self.from + self.length).div_ceil(slice).max(self.from / slice))
    }

    /// The first block to read, from the pair's start.
    pub fn first_block(&self) -> Blocks {
        Blocks((SIDE_SIZE as u64 + self.slices().0 * STRIDE as u64) / BLOCK_SIZE as u64)
    }

    /// Blocks to read.
    pub fn blocks(&self) -> Blocks {
        let (first, end) = self.slices();
        if first == end {
            return Blocks::ZERO;
        }
        Blocks::holding(SIDE_SIZE as u64 + end * STRIDE as u64) - self.first_block()
    }

    /// The wanted bytes, slice by slice, each verified when its turn comes. `raw` begins at the plan's first block of
    /// the pair at `place`.
    pub fn extract<'r>(
        &self,
        raw: &'r [u8],
        place: &RecordPlace,
    ) -> impl Iterator<Item = Result<&'r [u8], PairSliceError>> + use<'r> {
        let (plan, place) = (*self, *place);
        let ((first, end), base) = (plan.slices(), plan.first_block().bytes());
        (first..end).map(move |slice| {
            let at = (SIDE_SIZE as u64 + slice * STRIDE as u64 - base) as usize;
            let number = slice as u32;
            let bytes = raw.get(at..at + STRIDE).ok_or(PairSliceError { slice: number })?;
            let data = check_slice(&place, number, bytes)?;
            let start = slice * SLICE_SIZE as u64;
            let to = (plan.from + plan.length - start).min(SLICE_SIZE as u64);
            Ok(&data[plan.from.saturating_sub(start) as usize..to as usize])
        })
    }
}
