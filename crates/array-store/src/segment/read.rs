//! Reading of a part: from its data fragments, or from any others where those fail. (SMORE, section III-G.)
//!
//! # Invariants
//! - ARRAY-READ-1: bytes that are returned passed the check of their own slices, or were computed from slices that did.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::{Blocks, BufferPool, ChunkId};
use shingle_erasure::Coder;
use shingle_record::{SLICE_SIZE, SlicePlan, extract, slices};

use super::shape::{Piece, Shape};
use crate::drives::Drives;
use crate::format::{FragmentId, Member};
use crate::types::{DriveId, PartPlace};

/// A fragment that could not be read as it should.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) drive: DriveId,
    pub(crate) fragment: usize,
    pub(crate) why: String,
}

/// Where a part's segment lies on the drives.
pub(crate) struct Source<'a> {
    pub(crate) drives: &'a Drives,
    /// The members, in the order of fragments.
    pub(crate) members: &'a [Member],
    pub(crate) place: &'a PartPlace,
    pub(crate) shape: Shape,
}

impl Source<'_> {
    /// The blocks that hold a range of a fragment's bytes, as they are.
    async fn blocks(&self, fragment: usize, range: &Range<u32>) -> Result<Bytes, Fault> {
        let member = self.members[fragment];
        let fault = |why: String| Fault { drive: member.drive, fragment, why };
        let dev = self.drives.usable(member.drive).ok_or_else(|| fault("the drive is not there".into()))?;
        let plan = self.plan(range);
        let block = Blocks(u64::from(self.place.block)) + plan.first_block();
        let at = dev.geometry().start_of(member.zone) + block;
        dev.read(at, plan.blocks()).await.map_err(|error| fault(error.to_string()))
    }

    fn plan(&self, range: &Range<u32>) -> SlicePlan {
        SlicePlan::new(self.shape.fragment_length(), range.start, range.len() as u32)
    }

    /// Appends a range of a fragment, verified, to `out`; nothing if it cannot be believed.
    fn verified(&self, fragment: usize, range: &Range<u32>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let member = self.members[fragment];
        let start = out.len();
        let Err(error) = extract(&self.plan(range), raw, self.chunk(fragment), 0, out) else { return Ok(()) };
        out.truncate(start);
        if self.drives.usable(member.drive).is_some_and(|dev| !dev.geometry().keeps_payload) {
            // The drive dropped it.
            out.resize(start + range.len(), 0);
            return Ok(());
        }
        Err(Fault { drive: member.drive, fragment, why: error.to_string() })
    }

    /// A whole fragment, verified.
    pub(crate) async fn fragment(&self, pool: &BufferPool, fragment: usize) -> Result<Vec<u8>, Fault> {
        let range = 0..self.shape.fragment_length();
        let raw = self.blocks(fragment, &range).await?;
        let mut bytes = pool.take(range.len());
        self.verified(fragment, &range, &raw, &mut bytes).map(|()| bytes)
    }

    /// A whole fragment, computed from others.
    pub(crate) async fn fragment_anew(
        &self,
        coder: &std::cell::RefCell<Coder>,
        pool: &BufferPool,
        fragment: usize,
        faults: &mut Vec<Fault>,
    ) -> Option<Vec<u8>> {
        let range = 0..self.shape.fragment_length();
        let others = (0..self.shape.code().width()).filter(|&number| number != fragment);
        let there = others.filter(|&number| self.drives.usable(self.members[number].drive).is_some());
        let chosen: Vec<usize> = there.take(self.shape.code().data()).collect();
        let reads = join_all(chosen.iter().map(|&number| self.blocks(number, &range))).await;
        if let Ok(raw) = reads.into_iter().collect::<Result<Vec<Bytes>, Fault>>()
            && let Some(bytes) = self.computed(coder, pool.take(range.len()), fragment, &chosen, &raw)
        {
            return Some(bytes);
        }
        // With others, and with what can be had of a drive that drops payload.
        self.reconstruct(coder, &Piece { fragment, range }, &[], faults).await
    }

    /// A whole fragment, computed from the blocks of others, slice by slice: what was verified is in the cache still when it
    /// is used, and is not copied. `None` if something cannot be believed.
    fn computed(
        &self,
        coder: &std::cell::RefCell<Coder>,
        mut bytes: Vec<u8>,
        fragment: usize,
        chosen: &[usize],
        raw: &[Bytes],
    ) -> Option<Vec<u8>> {
        let length = self.shape.fragment_length();
        let plan = self.plan(&(0..length));
        let sources = chosen.iter().zip(raw);
        let mut sources: Vec<_> =
            sources.map(|(&number, raw)| (number, slices(&plan, raw, self.chunk(number), 0))).collect();
        let mut present = Vec::with_capacity(sources.len());
        while bytes.len() < length as usize {
            present.clear();
            for (number, slices) in &mut sources {
                present.push((*number, slices.next()?.ok()?));
            }
            let made = coder.borrow_mut().reconstruct(&present, &[fragment]).ok()?;
            bytes.extend_from_slice(made.first()?);
        }
        Some(bytes)
    }

    fn chunk(&self, fragment: usize) -> ChunkId {
        FragmentId { stamp: self.place.stamp, set: self.place.set, fragment: fragment as u8 }.chunk()
    }

    /// A range of fragment `wanted`, computed from others; those that were `read` already are not read again. The range
    /// is widened to whole slices.
    async fn reconstruct<'r>(
        &self,
        coder: &std::cell::RefCell<Coder>,
        wanted: &Piece,
        read: &[(&Piece, &'r [u8])],
        faults: &mut Vec<Fault>,
    ) -> Option<Vec<u8>> {
        let slice = SLICE_SIZE as u32;
        let range = &wanted.range;
        let wide = range.start / slice * slice..range.end.next_multiple_of(slice);
        let at_hand = |(piece, bytes): &(&Piece, &'r [u8])| {
            let whole = piece.range.start <= wide.start && wide.end <= piece.range.end;
            let from = wide.start.checked_sub(piece.range.start)? as usize;
            whole.then_some(())?;
            bytes.get(from..from + wide.len()).map(|bytes| (piece.fragment, Cow::Borrowed(bytes)))
        };
        let code = self.shape.code();
        let mut good: Vec<(usize, Cow<'_, [u8]>)> = read.iter().filter_map(at_hand).collect();
        let tried = |number: usize| good.iter().any(|(other, _)| *other == number) || number == wanted.fragment;
        let untried: Vec<usize> = (0..code.width()).filter(|&number| !tried(number)).collect();
        let mut untried = untried.into_iter();
        while good.len() < code.data() {
            let batch: Vec<usize> = untried.by_ref().take(code.data() - good.len()).collect();
            if batch.is_empty() {
                return None;
            }
            let reads = batch.iter().map(|&number| self.blocks(number, &wide));
            for (&number, raw) in batch.iter().zip(join_all(reads).await) {
                let mut bytes = Vec::with_capacity(wide.len());
                match raw.and_then(|raw| self.verified(number, &wide, &raw, &mut bytes)) {
                    Ok(()) => good.push((number, Cow::Owned(bytes))),
                    Err(fault) => faults.push(fault),
                }
            }
        }
        good.sort_unstable_by_key(|(number, _)| *number);
        let present: Vec<(usize, &[u8])> = good.iter().map(|(number, bytes)| (*number, &**bytes)).collect();
        let mut found = coder.borrow_mut().reconstruct(&present, &[wanted.fragment]).ok()?;
        let mut bytes = found.pop()?;
        bytes.drain(..(range.start - wide.start) as usize);
        bytes.truncate(range.len());
        Some(bytes)
    }
}

/// `length` bytes from `from` bytes into a part, and what went wrong on the way; `None` if too much did.
pub(crate) async fn read_part(
    source: &Source<'_>,
    coder: &std::cell::RefCell<Coder>,
    pool: &BufferPool,
    from: u32,
    length: u32,
    faults: &mut Vec<Fault>,
) -> Option<Bytes> {
    let pieces = source.shape.pieces(source.place.at + from, length);
    let reads = join_all(pieces.iter().map(|piece| source.blocks(piece.fragment, &piece.range))).await;
    let mut out = pool.take(length as usize);
    let mut failed = Vec::new();
    let mut starts = Vec::with_capacity(pieces.len());
    for (number, (piece, raw)) in pieces.iter().zip(reads).enumerate() {
        starts.push(out.len());
        if let Err(fault) = raw.and_then(|raw| source.verified(piece.fragment, &piece.range, &raw, &mut out)) {
            faults.push(fault);
            failed.push(number);
            // Its place is kept for what is computed.
            out.resize(out.len() + piece.range.len(), 0);
        }
    }
    for &number in &failed {
        let good = pieces.iter().zip(&starts).enumerate().filter(|(at, _)| !failed.contains(at));
        let good: Vec<_> = good.map(|(_, (piece, &at))| (piece, &out[at..at + piece.range.len()])).collect();
        let bytes = source.reconstruct(coder, &pieces[number], &good, faults).await?;
        out[starts[number]..][..bytes.len()].copy_from_slice(&bytes);
    }
    Some(pool.share(out))
}
