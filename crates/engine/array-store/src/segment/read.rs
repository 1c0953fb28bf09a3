//! Reading of one fragment, as it is or computed from others. (SMORE, section III-G.)
//!
//! # Invariants
//! - AS-READ-1: bytes that are returned passed the check of their own slices, or were computed from slices that did.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, join_all, select};
use shingle_base::{Blocks, BufferPool, ChunkId, Lba};
use shingle_erasure::Coder;
use shingle_record::{SlicePlan, extract, slices};
use shingle_zoned::{DeviceError, DeviceResult, ZonedDevice};

use super::shape::{Piece, Shape};
use crate::drives::Drives;
use crate::format::{FragmentId, Member};
use crate::pace::{Answer, Paces, Ticket};
use crate::types::{DriveId, PartPlace};

/// A fragment that could not be read as it should.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) drive: DriveId,
    pub(crate) fragment: usize,
    pub(crate) why: String,
    pub(crate) kind: FaultKind,
}

/// Remedy for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// Nothing: the drive is not there, or did not answer in time.
    Away,
    /// The drive failed the command, or answered with other bytes than were written: write the fragment anew.
    Bad,
}

/// Place of a part's segment on the drives.
pub(crate) struct Source<'a> {
    pub(crate) drives: &'a Drives,
    pub(crate) paces: &'a Rc<Paces>,
    /// The members, in the order of fragments.
    pub(crate) members: &'a [Member],
    pub(crate) place: &'a PartPlace,
    pub(crate) shape: Shape,
}

impl Source<'_> {
    /// The drive of a fragment, and the blocks that hold a range of its bytes; nothing if the drive is not there.
    fn extent(&self, fragment: usize, range: &Range<u32>) -> Option<(Rc<dyn ZonedDevice>, Lba, Blocks)> {
        let member = self.members[fragment];
        let dev = self.drives.usable(member.drive)?;
        let plan = self.plan(range);
        let at = dev.geometry().start_of(member.zone) + Blocks(u64::from(self.place.block)) + plan.first_block();
        Some((dev, at, plan.blocks()))
    }

    /// Asks for the blocks that hold a range of a fragment's bytes, as they are.
    pub(super) fn ask(&self, fragment: usize, range: &Range<u32>) -> Result<(Ticket, Answer), Fault> {
        let drive = self.members[fragment].drive;
        let away = || self.fault(fragment, FaultKind::Away, "the drive is not there".into());
        let (dev, at, blocks) = self.extent(fragment, range).ok_or_else(away)?;
        Ok(self.paces.read(drive, dev, at, blocks))
    }

    /// Reads them for nobody, if it is time to see whether a slow drive still is.
    pub(super) fn probe(&self, fragment: usize, range: &Range<u32>) {
        if let Some((dev, at, blocks)) = self.extent(fragment, range) {
            self.paces.probe(self.members[fragment].drive, dev, at, blocks);
        }
    }

    /// Blocks that hold a range of a fragment's bytes.
    pub(super) fn blocks_of(&self, range: &Range<u32>) -> Blocks {
        self.plan(range).blocks()
    }

    pub(super) fn fault(&self, fragment: usize, kind: FaultKind, why: String) -> Fault {
        Fault { drive: self.members[fragment].drive, fragment, why, kind }
    }

    pub(super) fn device_fault(&self, fragment: usize, error: DeviceError) -> Fault {
        self.fault(fragment, FaultKind::Bad, error.to_string())
    }

    /// The blocks that hold a range of a fragment's bytes, unless the last deadline passes: there are others.
    pub(super) async fn blocks(&self, fragment: usize, range: &Range<u32>) -> Result<Bytes, Fault> {
        let away = || self.fault(fragment, FaultKind::Away, "the drive is not there".into());
        let (dev, at, blocks) = self.extent(fragment, range).ok_or_else(away)?;
        let (patience, answer) = self.answer(self.members[fragment].drive, dev, at, blocks).await;
        match answer {
            Some(answer) => answer.map_err(|error| self.device_fault(fragment, error)),
            None => {
                let why = format!("the drive did not answer in {patience:?}");
                Err(self.fault(fragment, FaultKind::Away, why))
            }
        }
    }

    /// A drive's answer, `None` if the last deadline passes first; and that deadline.
    pub(super) async fn answer(
        &self,
        drive: DriveId,
        dev: Rc<dyn ZonedDevice>,
        at: Lba,
        blocks: Blocks,
    ) -> (Duration, Option<DeviceResult<Bytes>>) {
        let (ticket, answer) = self.paces.read(drive, dev, at, blocks);
        let patience = self.paces.last_deadline(blocks);
        let rt = self.paces.runtime();
        match select(answer, Box::pin(rt.sleep(patience))).await {
            Either::Left((answer, _)) => (patience, Some(answer)),
            Either::Right(_) => {
                ticket.is_late(rt.now());
                (patience, None)
            }
        }
    }

    pub(super) fn plan(&self, range: &Range<u32>) -> SlicePlan {
        SlicePlan::new(self.shape.fragment_length(), range.start, range.len() as u32)
    }

    /// Appends a range of a fragment, verified, to `out`; nothing if it cannot be believed.
    pub(super) fn verified(
        &self,
        fragment: usize,
        range: &Range<u32>,
        raw: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let member = self.members[fragment];
        let start = out.len();
        let Err(error) = extract(&self.plan(range), raw, self.chunk(fragment), 0, out) else { return Ok(()) };
        out.truncate(start);
        if self.drives.usable(member.drive).is_some_and(|dev| !dev.geometry().keeps_payload) {
            // The drive dropped it.
            out.resize(start + range.len(), 0);
            return Ok(());
        }
        Err(self.fault(fragment, FaultKind::Bad, error.to_string()))
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
        let mut there: Vec<usize> =
            others.filter(|&number| self.drives.usable(self.members[number].drive).is_some()).collect();
        there.sort_by_key(|&number| self.is_slow(number));
        let chosen: Vec<usize> = there.into_iter().take(self.shape.code().data()).collect();
        let reads = join_all(chosen.iter().map(|&number| self.blocks(number, &range))).await;
        if let Ok(raw) = reads.into_iter().collect::<Result<Vec<Bytes>, Fault>>()
            && let Some(bytes) = self.computed(coder, pool.take(range.len()), fragment, &chosen, &raw)
        {
            return Some(bytes);
        }
        // With others, and with what can be had of a drive that drops payload.
        let (found, more) = self.reconstruct(coder, &Piece { fragment, range }, &[], &[]).await;
        faults.extend(more);
        found
    }

    /// True if a fragment lies on a drive that is slow.
    pub(super) fn is_slow(&self, fragment: usize) -> bool {
        self.paces.is_slow(self.members[fragment].drive)
    }

    /// A whole fragment, computed from the blocks of others, slice by slice: what was verified is in the cache still
    /// when it is used, and is not copied. `None` if something cannot be believed.
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

    pub(super) fn chunk(&self, fragment: usize) -> ChunkId {
        FragmentId { stamp: self.place.stamp, set: self.place.set, fragment: fragment as u8 }.chunk()
    }
}
