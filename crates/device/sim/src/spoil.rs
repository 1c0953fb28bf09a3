//! Remains of writes that go wrong: cut short, with garbage at the end, with a flipped bit.

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks};

use crate::seeds::Random;

/// The first `blocks` of the pieces.
pub(crate) fn prefix(data: &[Bytes], blocks: Blocks) -> Vec<Bytes> {
    let mut left = blocks.bytes() as usize;
    let mut out = Vec::new();
    for piece in data {
        let take = piece.len().min(left);
        if take > 0 {
            out.push(piece.slice(..take));
        }
        left -= take;
    }
    out
}

pub(crate) fn join(data: &[Bytes]) -> Vec<u8> {
    data.concat()
}

fn aligned(bytes: &[u8]) -> AlignedBuf {
    let mut out = AlignedBuf::zeroed(Blocks::holding(bytes.len() as u64));
    out.copy_from_slice(bytes);
    out
}

pub(crate) fn flip_bit(bytes: &[u8], random: &mut Random) -> Bytes {
    let mut out = aligned(bytes);
    let bit = random.below(bytes.len() as u64 * 8);
    out[(bit / 8) as usize] ^= 1 << (bit % 8);
    out.freeze()
}

pub(crate) fn garbage_after(bytes: &[u8], good: Blocks, random: &mut Random) -> Bytes {
    let mut out = aligned(bytes);
    let from = good.bytes() as usize;
    let garbage = random.bytes(bytes.len() - from);
    out[from..].copy_from_slice(&garbage);
    out.freeze()
}
