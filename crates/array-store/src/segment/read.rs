//! Reading of a part: from its data fragments, or from any others where those fail. (SMORE, section III-G.)
//!
//! # Invariants
//! - ARRAY-READ-1: bytes that are returned passed the check of their own slices, or were computed from slices that did.

use std::ops::Range;

use futures_util::future::join_all;
use shingle_base::{BLOCK_SIZE, Blocks};
use shingle_erasure::Coder;
use shingle_record::{SLICE_SIZE, SlicePlan, extract};

use super::shape::Shape;
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
    /// A range of a fragment's bytes, verified.
    pub(crate) async fn fragment(&self, fragment: usize, range: Range<u32>) -> Result<Vec<u8>, Fault> {
        let member = self.members[fragment];
        let fault = |why: String| Fault { drive: member.drive, fragment, why };
        let dev = self.drives.usable(member.drive).ok_or_else(|| fault("the drive is not there".into()))?;
        let plan = SlicePlan::new(self.shape.fragment_length(), range.start, range.len() as u32);
        let block = Blocks(u64::from(self.place.block)) + plan.first_block();
        let at = dev.geometry().start_of(member.zone) + block;
        let raw = dev.read(at, plan.blocks()).await.map_err(|error| fault(error.to_string()))?;
        if !dev.geometry().keeps_payload {
            return Ok(vec![0; range.len()]);
        }
        let id = FragmentId { stamp: self.place.stamp, set: self.place.set, fragment: fragment as u8 }.chunk();
        let mut out = Vec::with_capacity(range.len() + BLOCK_SIZE);
        extract(&plan, &raw, id, 0, &mut out).map_err(|error| fault(error.to_string()))?;
        Ok(out)
    }

    /// The same range of fragment `wanted`, computed from others. The range is widened to whole slices.
    pub(crate) async fn reconstruct(
        &self,
        coder: &std::cell::RefCell<Coder>,
        wanted: usize,
        range: Range<u32>,
        faults: &mut Vec<Fault>,
    ) -> Option<Vec<u8>> {
        let slice = SLICE_SIZE as u32;
        let wide = range.start / slice * slice..range.end.next_multiple_of(slice);
        let code = self.shape.code();
        let mut good: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut untried = (0..code.width()).filter(|&number| number != wanted).collect::<Vec<_>>().into_iter();
        while good.len() < code.data() {
            let batch: Vec<usize> = untried.by_ref().take(code.data() - good.len()).collect();
            if batch.is_empty() {
                return None;
            }
            let reads = batch.iter().map(|&number| self.fragment(number, wide.clone()));
            for (number, read) in batch.iter().zip(join_all(reads).await) {
                match read {
                    Ok(bytes) => good.push((*number, bytes)),
                    Err(fault) => faults.push(fault),
                }
            }
        }
        let present: Vec<(usize, &[u8])> = good.iter().map(|(number, bytes)| (*number, bytes.as_slice())).collect();
        let mut found = coder.borrow_mut().reconstruct(&present, &[wanted]).ok()?;
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
    from: u32,
    length: u32,
    faults: &mut Vec<Fault>,
) -> Option<Vec<u8>> {
    let pieces = source.shape.pieces(source.place.at + from, length);
    let reads = join_all(pieces.iter().map(|piece| source.fragment(piece.fragment, piece.range.clone()))).await;
    let mut out = Vec::with_capacity(length as usize);
    for (piece, read) in pieces.iter().zip(reads) {
        match read {
            Ok(bytes) if out.is_empty() => out = bytes,
            Ok(bytes) => out.extend_from_slice(&bytes),
            Err(fault) => {
                faults.push(fault);
                let bytes = source.reconstruct(coder, piece.fragment, piece.range.clone(), faults).await?;
                out.extend_from_slice(&bytes);
            }
        }
    }
    Some(out)
}
