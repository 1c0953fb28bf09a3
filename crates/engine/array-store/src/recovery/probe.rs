//! Records of zone sets, read off single members.
//!
//! **Owns** how often a read is tried, and what it means that all tries failed. **Knows nothing of** what of a set
//! counts.
//!
//! # Invariants
//! - AS-PROBE-1: a read that fails is tried three times, unless its drive is lost; so is a report of all zones. A block
//!   that cannot be read then is [`Unread`]: it is never taken for wrong bytes.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::{Blocks, ZoneId};
use shingle_record::{Expect, Form, HEADER_SIZE, Header};
use shingle_zoned::{DeviceErrorKind, read_patiently};

use crate::drives::asking::at;
use crate::engine::Engine;
use crate::format::{
    DIGEST, Digest, DigestItem, FRAGMENT, ItemBody, MARKER, Marker, Member, SET_HEAD, SetHead, TOMBSTONES, Trailer,
    decode_tombstones,
};
use crate::types::SetId;
use crate::zone_set::Written;

/// Blocks read at the end of a zone, in which most digests lie whole.
const TAIL: u32 = 16;

/// A place that could not be read: what it holds is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unread;

/// The wanted record; `None` if something else is there, or nothing.
pub(crate) type Look<T> = std::result::Result<Option<T>, Unread>;

/// A record with its payload.
pub(crate) struct Record {
    pub(crate) header: Header,
    payload: Bytes,
}

impl Engine {
    /// Blocks of a member's zone. `None` behind what was written to it. (AS-PROBE-1)
    async fn read_blocks(&self, member: Member, block: u32, blocks: Blocks) -> Look<Bytes> {
        let Some(dev) = self.drives.usable(member.drive) else { return Err(Unread) };
        match read_patiently(&dev, at(&dev, member.zone, block), blocks).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if matches!(error.kind, DeviceErrorKind::Rule(_)) => Ok(None),
            Err(error) => {
                tracing::warn!(drive = self.drives.name(member.drive), zone = member.zone.0, block, %error, "unreadable");
                Err(Unread)
            }
        }
    }

    /// Looks whether a block of a member's zone has nothing but zeros, as a hole in a drive's file does.
    pub(crate) async fn is_hole(&self, member: Member, block: u32) -> Look<()> {
        let bytes = self.read_blocks(member, block, Blocks(1)).await?;
        Ok(bytes.filter(|bytes| bytes.iter().all(|byte| *byte == 0)).map(drop))
    }

    /// The life of the set that the head of a member's zone tells of.
    pub(crate) async fn read_epoch(&self, id: SetId, members: &[Member], member: Member) -> Look<u64> {
        let Some(head) = self.read_record(member, 0, None).await? else { return Ok(None) };
        let own = SetHead::decode(&head.header.info).filter(|_| head.header.kind == SET_HEAD);
        let number = members.iter().position(|other| *other == member);
        let is_its = own.is_some_and(|own| own.set == id && Some(usize::from(own.member)) == number);
        Ok(is_its.then_some(head.header.place.epoch))
    }

    /// The set's life and its digest, off a member that was `written` so far, of a set whose items are known to end at
    /// `end`; and whether the zone ends with it.
    pub(crate) async fn read_digest(
        &self,
        id: SetId,
        members: &[Member],
        member: Member,
        written: u32,
        end: u32,
    ) -> Look<(u64, Digest, bool)> {
        let (header, payload, closed) = match self.read_tail(member, written).await? {
            Some((header, payload)) => (header, payload, true),
            // A set that ended early has it behind its last item, and its zone may have been finished.
            None if end < written => {
                let Some(record) = self.read_record(member, end, None).await? else { return Ok(None) };
                (record.header, record.payload, false)
            }
            None => return Ok(None),
        };
        let Some(digest) = Digest::decode(&payload).filter(|_| header.kind == DIGEST) else { return Ok(None) };
        // A zone that came back from another life, or was put in another's place, has another head.
        let life = self.read_epoch(id, members, member).await?;
        let epoch = header.place.epoch;
        Ok((life == Some(epoch)).then_some((epoch, digest, closed)))
    }

    /// The digest that the trailer in a zone's last block names: its header and payload.
    async fn read_tail(&self, member: Member, end: u32) -> Look<(Header, Bytes)> {
        let from = end.saturating_sub(TAIL);
        let Some(tail) = self.read_blocks(member, from, Blocks(u64::from(end - from))).await? else { return Ok(None) };
        let last = tail.len().checked_sub(shingle_base::BLOCK_SIZE).and_then(|at| tail.get(at..));
        let trailer = last.and_then(|last| Header::decode(last, &self.expect(member.zone, end - 1, None)).ok());
        let named = trailer.as_ref().and_then(|trailer| Some((trailer, Trailer::decode(trailer)?.start)));
        let Some((trailer, start)) = named else { return Ok(None) };
        let bytes = match start.checked_sub(from) {
            Some(skipped) => tail.get(Blocks(u64::from(skipped)).bytes() as usize..).map(|bytes| tail.slice_ref(bytes)),
            None => match (end - 1).checked_sub(start) {
                Some(blocks) => self.read_blocks(member, start, Blocks(u64::from(blocks))).await?,
                None => None,
            },
        };
        let Some(bytes) = bytes else { return Ok(None) };
        let expect = self.expect(member.zone, start, Some(trailer.place.epoch));
        let header = Header::decode(&bytes, &expect).ok().filter(|header| header.verify_payload(&bytes).is_ok());
        Ok(header.and_then(|header| {
            let payload = bytes.get(HEADER_SIZE..HEADER_SIZE + header.length as usize)?;
            let payload = bytes.slice_ref(payload);
            Some((header, payload))
        }))
    }

    fn expect(&self, zone: ZoneId, block: u32, epoch: Option<u64>) -> Expect {
        Expect { store: Some(self.array), epoch, at: Some((zone, block)) }
    }

    /// The record at a block, verified. Not for fragments, whose payload stays where it is.
    pub(crate) async fn read_record(&self, member: Member, block: u32, epoch: Option<u64>) -> Look<Record> {
        let Some(first) = self.read_blocks(member, block, Blocks(1)).await? else { return Ok(None) };
        let header = Header::decode(&first, &self.expect(member.zone, block, epoch)).ok();
        let Some(header) = header.filter(|header| header.kind != FRAGMENT && header.form == Form::Plain) else {
            return Ok(None);
        };
        let bytes = match header.blocks() {
            Blocks(1) => Some(first),
            blocks => self.read_blocks(member, block, blocks).await?,
        };
        let Some(bytes) = bytes.filter(|bytes| header.verify_payload(bytes).is_ok()) else { return Ok(None) };
        let payload = bytes.get(HEADER_SIZE..HEADER_SIZE + header.length as usize);
        let payload = payload.map(|payload| bytes.slice_ref(payload));
        Ok(payload.map(|payload| Record { header, payload }))
    }

    /// The item at a block of the first member that has it whole; `Unread` if one may have it that cannot be read.
    /// (AS-PROBE-1)
    pub(crate) async fn read_item(
        &self,
        members: &[Member],
        holding: &Written,
        block: u32,
        epoch: u64,
    ) -> Look<(ItemBody, u32)> {
        let mut unread = None;
        for (number, member) in members.iter().enumerate() {
            if !holding.iter().any(|(other, end)| other == member && block < *end) {
                continue;
            }
            match self.read_record(*member, block, Some(epoch)).await {
                Ok(record) => {
                    if let Some(found) = record.and_then(|record| self.item(&record, number as u8, block)) {
                        return Ok(Some(found));
                    }
                }
                Err(error) => unread = Some(error),
            }
        }
        unread.map_or(Ok(None), Err)
    }

    /// The items at a block, and at those where others are if all are as long as `step`: each off another member, since
    /// all have it, and the reads take turns of the drives where one after the other would wait for each.
    pub(crate) async fn read_ahead(
        &self,
        members: &[Member],
        holding: &Written,
        block: u32,
        step: Option<u32>,
        epoch: u64,
    ) -> VecDeque<(u32, Option<(ItemBody, u32)>)> {
        let count = if step.is_some() { holding.len() as u32 } else { 1 };
        let reads = (0..count).map_while(|nth| {
            let block = block.checked_add(nth.checked_mul(step.unwrap_or(0))?)?;
            let mut turned = holding.iter().cycle().skip(nth as usize).take(holding.len());
            let (member, _) = turned.find(|(_, end)| block < *end)?;
            let number = members.iter().position(|other| other == member)?;
            Some(async move {
                let record = self.read_record(*member, block, Some(epoch)).await.ok().flatten();
                (block, record.and_then(|record| self.item(&record, number as u8, block)))
            })
        });
        join_all(reads).await.into()
    }

    /// Item of a member's record at a block, and the blocks it takes with those that follow it.
    fn item(&self, record: &Record, number: u8, block: u32) -> Option<(ItemBody, u32)> {
        let own = record.header.blocks();
        match record.header.kind {
            MARKER => {
                let (marker, fragment) = Marker::decode(&record.header.info, &record.payload)?;
                let own_fragment =
                    self.framing.rotation.fragment_of(usize::from(number), block.checked_add(own.0 as u32)?);
                if usize::from(fragment) != own_fragment || marker.shape.code() != self.code {
                    return None;
                }
                let blocks = own + marker.shape.fragment_blocks();
                Some((ItemBody::Segment(marker), blocks.0 as u32))
            }
            TOMBSTONES => {
                let tombstones = decode_tombstones(&record.payload)?;
                Some((ItemBody::Tombstones { stamp: record.header.sequence, tombstones }, own.0 as u32))
            }
            _ => None,
        }
    }

    /// Looks whether a member holds its marker and fragment (or tombstones) whole.
    pub(crate) async fn verify_member(&self, number: usize, member: Member, item: &DigestItem) -> Look<()> {
        let Some(record) = self.read_record(member, item.block, None).await? else { return Ok(None) };
        if self.item(&record, number as u8, item.block).is_none_or(|(body, _)| body != item.body) {
            return Ok(None);
        }
        let ItemBody::Segment(marker) = &item.body else { return Ok(Some(())) };
        let blocks = marker.shape.fragment_blocks();
        if blocks == Blocks::ZERO {
            return Ok(Some(()));
        }
        let block = item.block + record.header.blocks().0 as u32;
        let Some(bytes) = self.read_blocks(member, block, blocks).await? else { return Ok(None) };
        let keeps_payload = self.drives.usable(member.drive).is_none_or(|dev| dev.geometry().keeps_payload);
        if !keeps_payload {
            return Ok(Some(()));
        }
        let header = Header::decode(&bytes, &self.expect(member.zone, block, Some(record.header.place.epoch))).ok();
        let header = header.filter(|header| header.kind == FRAGMENT && header.sequence == marker.stamp);
        Ok(header.and_then(|header| header.verify_payload(&bytes).ok()))
    }
}
