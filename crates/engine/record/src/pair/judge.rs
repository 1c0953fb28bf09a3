//! State of a pair of which some blocks cannot be read or are damaged.

use bytes::Bytes;
use shingle_base::BLOCK_SIZE;

use super::plan::check_slice;
use super::side::Pair;
use super::{SIDE_SIZE, STRIDE, pair_blocks};
use crate::header::{Expect, FrameError, Header, RecordPlace};
use crate::slices::SLICE_SIZE;

/// State of a pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgedPair {
    /// Contents of header or trailer; `None` if neither can be believed.
    pub pair: Option<Pair>,
    /// The header is good.
    pub front: bool,
    /// The trailer is good, and tells the same.
    pub back: bool,
    /// Slices that fail their checks.
    pub damaged: Vec<u32>,
    /// Slices with a block that cannot be read.
    pub unreadable: Vec<u32>,
}

impl JudgedPair {
    /// Nothing of it is missing.
    pub fn is_whole(&self) -> bool {
        self.front && self.back && self.damaged.is_empty() && self.unreadable.is_empty()
    }
}

/// Judges the pair at `place`; `blocks` are all of its blocks, `None` for those that cannot be read.
pub fn judge_pair(blocks: &[Option<Bytes>], place: &RecordPlace) -> JudgedPair {
    let blocks: Vec<_> = blocks.iter().map(|block| block.as_deref()).collect();
    judge(&blocks, place)
}

fn judge(blocks: &[Option<&[u8]>], place: &RecordPlace) -> JudgedPair {
    let mut judged = JudgedPair::default();
    let Some(last) = blocks.len().checked_sub(1).and_then(|last| u32::try_from(last).ok()) else { return judged };
    let fits = |pair: &Pair| pair.place == *place && pair_blocks(pair.length()).0 == blocks.len() as u64;
    let block = |at: usize| blocks.get(at).copied().flatten();
    let front = block(0).and_then(|block| Pair::from_front(block, &Expect::place(place)).ok()).filter(fits);
    let back = place.block.checked_add(last).and_then(|last_block| {
        let expect = Expect::place(&RecordPlace { block: last_block, ..*place });
        Pair::from_back(block(last as usize)?, &expect).ok()
    });
    let back = back.filter(fits).filter(|back| front.as_ref().is_none_or(|front| front == back));
    (judged.front, judged.back) = (front.is_some(), back.is_some());
    judged.pair = front.or(back);
    let slices = judged.pair.as_ref().map_or(0, |pair| pair.length().div_ceil(SLICE_SIZE as u64));
    for slice in 0..slices as u32 {
        let at = SIDE_SIZE + slice as usize * STRIDE;
        match bytes_at(blocks, at) {
            None => judged.unreadable.push(slice),
            Some(bytes) if check_slice(place, slice, &bytes).is_err() => judged.damaged.push(slice),
            Some(_) => {}
        }
    }
    judged
}

/// The bytes of a slice; `None` if some of them cannot be read.
fn bytes_at(blocks: &[Option<&[u8]>], at: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(STRIDE);
    let end = at + STRIDE;
    for number in at / BLOCK_SIZE..end.div_ceil(BLOCK_SIZE) {
        let start = number * BLOCK_SIZE;
        let block = (*blocks.get(number)?)?;
        bytes.extend_from_slice(block.get(at.saturating_sub(start)..BLOCK_SIZE.min(end - start))?);
    }
    Some(bytes)
}

/// Checks all of a whole pair that a scan found by its header.
pub(crate) fn verify_pair(record: &[u8], header: &Header) -> Result<(), FrameError> {
    let record = record.get(..header.blocks().bytes() as usize).ok_or(FrameError::NotARecord)?;
    let blocks: Vec<_> = record.chunks(BLOCK_SIZE).map(Some).collect();
    if judge(&blocks, &header.place).is_whole() { Ok(()) } else { Err(FrameError::BadPayload) }
}
