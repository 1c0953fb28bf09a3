//! MD5 of one stream, whose bytes may wait to be digested, and of several side by side.

use std::collections::VecDeque;

use bytes::Bytes;

use super::lanes::{self, BEGIN, BLOCK, LANES, State};

/// A stream of bytes and its digest so far.
pub(super) struct Stream {
    state: State,
    /// Bytes in all.
    length: u64,
    /// Bytes behind the last whole block that was digested, before those of `pieces`; less than a block.
    part: Vec<u8>,
    /// Pieces that wait; none is empty.
    pieces: VecDeque<Bytes>,
    /// Bytes in `pieces`.
    waiting: usize,
}

impl Stream {
    pub(super) fn new() -> Self {
        Self { state: BEGIN, length: 0, part: Vec::new(), pieces: VecDeque::new(), waiting: 0 }
    }

    /// Bytes that wait to be digested.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds bytes, which wait.
    pub(super) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.length += piece.len() as u64;
            self.waiting += piece.len();
            self.pieces.push_back(piece);
        }
    }

    /// Adds bytes, and digests all.
    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        self.digest();
        self.length += bytes.len() as u64;
        if !self.part.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK - self.part.len()));
            self.part.extend_from_slice(now);
            bytes = rest;
            if self.part.len() < BLOCK {
                return;
            }
            md5::block_api::compress(&mut self.state, self.part.as_chunks().0);
            self.part.clear();
        }
        let (blocks, rest) = bytes.as_chunks();
        md5::block_api::compress(&mut self.state, blocks);
        self.part.extend_from_slice(rest);
    }

    /// Digests what waits.
    pub(super) fn digest(&mut self) {
        while let Some(blocks) = self.next_blocks() {
            md5::block_api::compress(&mut self.state, blocks.as_chunks().0);
        }
    }

    /// Digests all that waits here, and what waits of `others` beside it, as far as it comes.
    pub(super) fn digest_with(&mut self, others: &mut [Stream]) {
        let mut lanes: Vec<Lane<'_>> = std::iter::once(self).chain(others).enumerate().map(Lane::new).collect();
        loop {
            lanes.retain_mut(|lane| lane.fill() || lane.first);
            // Two streams take as long side by side as one behind the other.
            let alone = lanes.len() < LANES - 1;
            let Some(own) = lanes.first_mut().filter(|own| !own.blocks.is_empty()) else { break };
            if alone {
                md5::block_api::compress(&mut own.stream.state, own.blocks.as_chunks().0);
                own.blocks.clear();
                continue;
            }
            compress(&mut lanes);
        }
        lanes.into_iter().for_each(Lane::put_back);
    }

    /// Takes the next whole blocks that wait in one piece.
    fn next_blocks(&mut self) -> Option<Bytes> {
        loop {
            let piece = self.pieces.front_mut()?;
            let taken = if self.part.is_empty() && piece.len() >= BLOCK {
                piece.split_to(piece.len() / BLOCK * BLOCK)
            } else {
                // The end of a piece, or the beginning of one behind such an end.
                let part = piece.split_to(piece.len().min(BLOCK - self.part.len()));
                self.part.extend_from_slice(&part);
                self.waiting -= part.len();
                Bytes::new()
            };
            if piece.is_empty() {
                self.pieces.pop_front();
            }
            if !taken.is_empty() {
                self.waiting -= taken.len();
                return Some(taken);
            }
            if self.part.len() == BLOCK {
                return Some(std::mem::take(&mut self.part).into());
            }
        }
    }

    /// The digest of all bytes.
    pub(super) fn finish(mut self) -> [u8; 16] {
        self.digest();
        // A one, zeros up to the length in bits, and that, up to the end of a block. (RFC 1321, sections 3.1 and 3.2.)
        let bits = self.length.wrapping_mul(8);
        let mut end = std::mem::take(&mut self.part);
        end.push(0x80);
        end.resize((end.len() + 8).next_multiple_of(BLOCK) - 8, 0);
        end.extend_from_slice(&bits.to_le_bytes());
        md5::block_api::compress(&mut self.state, end.as_chunks().0);
        let mut digest = [0; 16];
        for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(self.state) {
            *bytes = word.to_le_bytes();
        }
        digest
    }
}

/// A stream while it is digested beside others.
struct Lane<'s> {
    stream: &'s mut Stream,
    /// The next blocks.
    blocks: Bytes,
    /// The one that must be digested whole.
    first: bool,
}

impl<'s> Lane<'s> {
    fn new((at, stream): (usize, &'s mut Stream)) -> Self {
        Self { stream, blocks: Bytes::new(), first: at == 0 }
    }

    /// True if it has blocks, or gets some.
    fn fill(&mut self) -> bool {
        if self.blocks.is_empty() {
            self.blocks = self.stream.next_blocks().unwrap_or_default();
        }
        !self.blocks.is_empty()
    }

    fn put_back(self) {
        if !self.blocks.is_empty() {
            self.stream.waiting += self.blocks.len();
            self.stream.pieces.push_front(self.blocks);
        }
    }
}

/// Compresses blocks of all lanes, as many as the shortest has. A lane without a stream goes over the first one's blocks again.
fn compress(lanes: &mut [Lane<'_>]) {
    let mut spare = BEGIN;
    let count = {
        let first = lanes.first().map(|lane| lane.blocks.clone()).unwrap_or_default();
        let mut used = lanes.iter_mut().map(|lane| (&mut lane.stream.state, lane.blocks.as_chunks().0));
        let (a, b, c) = (used.next(), used.next(), used.next());
        let (Some((s0, b0)), Some((s1, b1)), Some((s2, b2))) = (a, b, c) else { return };
        let (s3, b3) = used.next().unwrap_or((&mut spare, first.as_chunks().0));
        lanes::compress([s0, s1, s2, s3], [b0, b1, b2, b3])
    };
    for lane in lanes {
        drop(lane.blocks.split_to(count * BLOCK));
    }
}

#[cfg(test)]
mod tests {
    use s3s::crypto::{Checksum as _, Md5};

    use super::*;

    fn bytes(length: usize, seed: usize) -> Bytes {
        (0..length).map(|at| (at * 31 + at / 251 + seed * 77) as u8).collect()
    }

    #[test]
    fn every_length_in_any_pieces_has_its_digest() {
        for length in (0..300).chain([4096, 10_000]) {
            let all = bytes(length, 1);
            for step in [1, 55, 63, 64, 65, 1000] {
                let (mut waits, mut goes) = (Stream::new(), Stream::new());
                for at in (0..length).step_by(step) {
                    let piece = all.slice(at..length.min(at + step));
                    goes.update(&piece);
                    waits.push(piece);
                }
                assert_eq!(waits.waiting(), length);
                let digest = Md5::checksum(&all);
                assert_eq!((waits.finish(), goes.finish()), (digest, digest), "{length} in {step}s");
            }
        }
    }

    /// Each stream is of another length and in other pieces, so that lanes run out at different times.
    #[test]
    fn streams_side_by_side_have_their_own_digests() {
        for count in 1..=LANES {
            for longest in 0..count {
                let lengths: Vec<usize> = (0..count).map(|at| 3000 + 777 * ((at + longest) % count)).collect();
                let mut streams: Vec<Stream> = (0..count).map(|_| Stream::new()).collect();
                for (at, stream) in streams.iter_mut().enumerate() {
                    let all = bytes(lengths[at], at);
                    let step = [64, 100, 1000, 65][at];
                    (0..lengths[at]).step_by(step).for_each(|from| {
                        stream.push(all.slice(from..lengths[at].min(from + step)));
                    });
                }
                if let Some((first, others)) = streams.split_first_mut() {
                    first.digest_with(others);
                    assert_eq!(first.waiting(), 0);
                }
                for (at, stream) in streams.into_iter().enumerate() {
                    assert_eq!(stream.finish(), Md5::checksum(&bytes(lengths[at], at)), "{at} of {count}");
                }
            }
        }
    }
}
