//! Payload that modelled drives do not keep: zeros, which all such segments share, and reads that take a drive's time
//! and move no bytes. So an experiment over terabytes costs no time for bytes that nobody will see.

use std::cell::RefCell;
use std::ops::Range;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::Blocks;
use shingle_record::SlicePlan;

use super::read::{Fault, FaultKind, Source};

/// Blocks of a read of which one does not matter.
const LONG: u64 = 128;

thread_local! {
    static ZEROS: RefCell<Bytes> = RefCell::default();
}

/// `length` zeros: a part of one buffer, which grows to the longest that was asked for.
pub(crate) fn zeros(length: usize) -> Bytes {
    ZEROS.with_borrow_mut(|zeros| {
        if zeros.len() < length {
            *zeros = vec![0; length.next_power_of_two()].into();
        }
        zeros.slice(..length)
    })
}

/// Reads what [`read_part`](super::hedge::read_part) would, and returns zeros in its place.
pub(crate) async fn read_hollow(source: &Source<'_>, from: u32, length: u32, faults: &mut Vec<Fault>) -> Option<Bytes> {
    let pieces = source.shape.pieces(source.place.at + from, length);
    let reads = join_all(pieces.iter().map(|piece| source.touch(piece.fragment, &piece.range))).await;
    for (piece, read) in pieces.iter().zip(reads) {
        if let Err(fault) = read {
            faults.push(fault);
            source.touch_others(piece.fragment, &piece.range, faults).await?;
        }
    }
    Some(zeros(length as usize))
}

/// Reads a whole fragment, or as many others as give it back, and returns zeros in its place.
pub(crate) async fn fragment_hollow(source: &Source<'_>, fragment: usize, faults: &mut Vec<Fault>) -> Option<Bytes> {
    let range = 0..source.shape.fragment_length();
    if source.touch(fragment, &range).await.is_err() {
        source.touch_others(fragment, &range, faults).await?;
    }
    Some(zeros(range.len()))
}

impl Source<'_> {
    /// Takes the time of reading that range of as many other fragments as the code needs.
    async fn touch_others(&self, wanted: usize, range: &Range<u32>, faults: &mut Vec<Fault>) -> Option<()> {
        let mut untried: Vec<usize> = (0..self.shape.code().width()).filter(|&other| other != wanted).collect();
        let mut missing = self.shape.code().data();
        while missing > 0 {
            let batch: Vec<usize> = untried.drain(..missing.min(untried.len())).collect();
            if batch.is_empty() {
                return None;
            }
            for read in join_all(batch.iter().map(|&other| self.touch(other, range))).await {
                match read {
                    Ok(()) => missing -= 1,
                    Err(fault) => faults.push(fault),
                }
            }
        }
        Some(())
    }

    /// Takes the time of a read of that range of a fragment.
    async fn touch(&self, fragment: usize, range: &Range<u32>) -> Result<(), Fault> {
        let member = self.members[fragment];
        let away = || self.fault(fragment, FaultKind::Away, "the drive is not there".into());
        let dev = self.drives.usable(member.drive).ok_or_else(away)?;
        let plan = SlicePlan::new(self.shape.fragment_length(), range.start, range.len() as u32);
        let (mut first, mut blocks) = (plan.first_block(), plan.blocks());
        if first == Blocks::ZERO && blocks > Blocks(LONG) {
            // All but the record's header, the one block that is kept: then the device has no bytes to lay out.
            (first, blocks) = (Blocks(1), blocks - Blocks(1));
        }
        let at = dev.geometry().start_of(member.zone) + Blocks(u64::from(self.place.block)) + first;
        dev.read(at, blocks).await.map(drop).map_err(|error| self.device_fault(fragment, error))
    }
}
