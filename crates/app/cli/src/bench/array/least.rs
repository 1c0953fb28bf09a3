//! Limit of an array of 10+2: the least work for each byte, with the same library, in the fastest of several ways. All
//! go strip by strip, so that a step finds the bytes of the last one in the cache.

use std::hint::black_box;

use shingle_base::crc32c;
use shingle_erasure::Coder;

use super::shape::{DATA, FRAGMENT, PARITY, SEGMENT, code, segment};
use crate::bench::figure::median;
use crate::bench::limit;
use crate::failure::{Failure, Outcome};

/// Bytes of each fragment worked on at a time.
const STRIPS: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];

/// Bytes copied and summed at a time.
const PIECE: usize = 4 << 10;

/// Order and pieces of summing.
struct Sums {
    sum: u32,
    /// Before it is copied, or afterwards.
    sum_first: bool,
}

impl Sums {
    /// Takes the CRC-32C of `from`.
    fn check(&mut self, from: &[u8]) {
        from.chunks(PIECE).for_each(|piece| self.sum ^= crc32c(black_box(piece)));
    }

    /// The same, and copies it.
    fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        for (from, to) in from.chunks(PIECE).zip(to.chunks_mut(PIECE)) {
            if self.sum_first {
                self.check(from);
                to.copy_from_slice(from);
                black_box(to);
            } else {
                to.copy_from_slice(black_box(from));
                self.check(to);
            }
        }
    }
}

/// Segments a second, way by way.
pub(super) type Ways = Vec<f64>;

/// The best way, by its median over all rounds.
pub(super) fn best(rounds: &[Ways]) -> f64 {
    let ways = rounds.first().map_or(0, Vec::len);
    (0..ways).map(|way| median(rounds.iter().map(|round| round[way]).collect())).fold(0.0, f64::max)
}

/// The rates of all ways; `once` does it for one segment.
fn all_ways(
    segments: &[impl AsRef<[u8]>],
    mut once: impl FnMut(&mut Sums, &[u8], usize, &mut [u8]) -> Outcome<()>,
) -> Outcome<Ways> {
    let mut target = vec![1u8; SEGMENT];
    let mut rates = Vec::new();
    for strip in STRIPS {
        for sum_first in [false, true] {
            let mut sums = Sums { sum: 0, sum_first };
            let began = limit::now();
            for segment in segments {
                once(&mut sums, black_box(segment.as_ref()), strip, &mut target)?;
                black_box(&mut target);
            }
            rates.push(segments.len() as f64 / began.elapsed().as_secs_f64());
            black_box(sums.sum);
        }
    }
    Ok(rates)
}

fn failed(error: shingle_erasure::CodeError) -> Failure {
    Failure::new(error.to_string())
}

/// Segments a second that can be put: encode, copy each byte once, take its CRC-32C once.
pub(super) fn put(segments: usize) -> Outcome<Ways> {
    let mut coder = Coder::new(code()?);
    let data = segment();
    let mut parity = vec![Vec::new(); usize::from(PARITY)];
    let segments = vec![data; segments];
    all_ways(&segments, |sums, from, strip, target| {
        for start in (0..FRAGMENT).step_by(strip) {
            let pieces: Vec<&[u8]> =
                from.chunks_exact(FRAGMENT).map(|fragment| &fragment[start..start + strip]).collect();
            coder.encode(&pieces, &mut parity).map_err(failed)?;
            black_box(&parity);
            for (piece, target) in pieces.iter().zip(target.chunks_exact_mut(FRAGMENT)) {
                sums.copy(piece, &mut target[start..start + strip]);
            }
        }
        Ok(())
    })
}

/// Segments a second that can be got: copy each byte once, take its CRC-32C once. With a drive lost, its part of each
/// segment, a data fragment, is computed from the others, one of which is read for nothing else.
pub(super) fn get(segments: &[Vec<u8>], lost: bool) -> Outcome<Ways> {
    let mut coder = Coder::new(code()?);
    all_ways(segments, |sums, from, strip, target| {
        if !lost {
            sums.copy(from, target);
            return Ok(());
        }
        for start in (0..FRAGMENT).step_by(strip) {
            // Any ten fragments do; data fragments cost the same.
            let pieces = strips_of(from, start, strip);
            let (needed, rest) = pieces.split_at(usize::from(DATA) - 1);
            for ((_, piece), target) in needed.iter().zip(target.chunks_exact_mut(FRAGMENT)) {
                sums.copy(piece, &mut target[start..start + strip]);
            }
            rest.iter().for_each(|(_, piece)| sums.check(piece));
            let made = coder.reconstruct(black_box(&pieces), &[0]).map_err(failed)?;
            target[SEGMENT - FRAGMENT + start..][..strip].copy_from_slice(&made[0]);
        }
        Ok(())
    })
}

/// Segments a second of which a lost fragment can be rebuilt: take the CRC-32C of ten others, compute it, copy it, and
/// take its CRC-32C.
pub(super) fn rebuild(segments: &[Vec<u8>]) -> Outcome<Ways> {
    let mut coder = Coder::new(code()?);
    all_ways(segments, |sums, from, strip, target| {
        for start in (0..FRAGMENT).step_by(strip) {
            let pieces = strips_of(from, start, strip);
            pieces.iter().for_each(|(_, piece)| sums.check(piece));
            let made = coder.reconstruct(black_box(&pieces), &[0]).map_err(failed)?;
            sums.copy(&made[0], &mut target[start..start + strip]);
        }
        Ok(())
    })
}

/// A strip of each of ten fragments, as if they were the second to the eleventh.
fn strips_of(segment: &[u8], start: usize, strip: usize) -> Vec<(usize, &[u8])> {
    let fragments = segment.chunks_exact(FRAGMENT).enumerate();
    fragments.map(|(at, fragment)| (at + 1, &fragment[start..start + strip])).collect()
}
