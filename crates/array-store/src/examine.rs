//! What a zone set holds, read off its drives: from its digest, or from marker to marker. (SMORE, sections III-D and IV-A.)
//!
//! # Invariants
//! - EXAM-1: an item is taken only if every member whose drive is there was written up to its end: where one was not, the
//!   item was never acknowledged (WRITE-1).
//! - EXAM-2: what a power cut may have torn (the last items that were launched, in sets without a digest) is taken only if
//!   enough of its fragments verify. Where not all do, the others are written anew: what it replaced is gone.
//! - EXAM-3: what one recovery decided about a torn end holds for every later one, to which it looks otherwise: it may find
//!   other drives, and the digests that the first one wrote. What was refused is cut off in the superblock; what was taken has
//!   a stamp from before that opening, which the superblock names too. On the strength of it older versions may be gone.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;
use shingle_base::{Blocks, ZoneId};
use shingle_record::{Expect, HEADER_SIZE, Header};
use shingle_zoned::ZonedDevice;

use crate::drives::at;
use crate::engine::Engine;
use crate::format::{
    DIGEST, Digest, DigestItem, FRAGMENT, ItemBody, MARKER, Marker, Member, SET_HEAD, SetHead, TOMBSTONES, Trailer,
    decode_tombstones,
};
use crate::sets::ZoneSet;
use crate::types::{SetId, SetState};

/// Of those, so many are read at once: each may have several MiB on every drive.
const VERIFIED_AT_ONCE: usize = 4;

/// Blocks read at the end of a zone, in which most digests lie whole.
const TAIL: u32 = 16;

/// How far each live member was written.
pub(crate) type Written = Vec<(Member, u32)>;

/// A set as it was found.
#[derive(Debug)]
pub(crate) enum Examined {
    /// No member holds anything.
    Empty,
    /// It ends with a digest.
    Closed {
        epoch: u64,
        digest: Digest,
        /// Items that end beyond it are void.
        cut: u32,
    },
    /// It has none: its items were found one by one.
    Open {
        epoch: u64,
        digest: Digest,
        /// The first block behind the last item.
        end: u32,
        /// All live members end there: it can be written to again.
        in_step: bool,
    },
    /// Too much of it is unreadable to say.
    Damaged(String),
}

/// What a look at a set came to, before anything in it was verified that may be torn.
pub(crate) enum Surveyed {
    Certain(Examined),
    Doubtful(Doubtful),
}

/// A set whose last items may be torn.
pub(crate) struct Doubtful {
    epoch: u64,
    /// It ends with a digest, written behind items that were still on their way.
    closed: bool,
    members: Vec<Member>,
    /// Those that hold anything.
    holding: Written,
    items: Vec<DigestItem>,
}

impl Doubtful {
    /// The stamps of items that may be torn: of `most` at most.
    pub(crate) fn stamps(&self, most: usize) -> impl Iterator<Item = u64> {
        self.items.iter().rev().take(most).map(|item| item.body.stamp())
    }
}

/// How much of an item the drives that are there hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Whole,
    /// Enough, and not all.
    Degraded,
    Torn,
}

/// A record with its payload.
struct Record {
    header: Header,
    payload: Bytes,
}

/// What of a set counts, before anything is verified. (EXAM-1)
struct Limit {
    /// Items that end before this block.
    block: u32,
    /// Where an earlier recovery cut nothing off: also items that it saw, which have stamps up to this (EXAM-3).
    judged: Option<u64>,
}

impl Limit {
    fn allows(&self, end: u32, stamp: u64) -> bool {
        end <= self.block || self.judged.is_some_and(|judged| stamp <= judged)
    }
}

impl Engine {
    /// Reads what `set` holds; `written` has its members whose drives are there.
    pub(crate) async fn examine(&self, id: SetId, set: &ZoneSet, written: &Written) -> Examined {
        match self.survey_set(id, set, written).await {
            Surveyed::Certain(examined) => examined,
            Surveyed::Doubtful(doubtful) => self.verified(id, set, written, doubtful, 0).await,
        }
    }

    /// The same without verifying anything.
    pub(crate) async fn survey_set(&self, id: SetId, set: &ZoneSet, written: &Written) -> Surveyed {
        let holding: Written = written.iter().copied().filter(|(_, blocks)| *blocks > 0).collect();
        if holding.is_empty() {
            return Surveyed::Certain(Examined::Empty);
        }
        let members = set.ordered_members(id);
        // Digests are read off different drives for different sets, so that all drives take part.
        let turn = if self.options.spread_digests { id.0 as usize % holding.len() } else { 0 };
        for &(member, end) in holding[turn..].iter().chain(&holding[..turn]) {
            if let Some((epoch, digest)) = self.read_digest(id, &members, member, end).await {
                let in_step = written.iter().all(|(_, blocks)| *blocks == end);
                if in_step && set.cut.get() == u32::MAX {
                    return Surveyed::Certain(Examined::Closed { epoch, digest, cut: u32::MAX });
                }
                // Digests are written behind items that are still on their way: what they say is not all there yet.
                let limit = self.limit(set, written);
                let within = |item: &DigestItem| limit.allows(item.end(), item.body.stamp());
                let items = digest.items.into_iter().take_while(within).collect();
                return Surveyed::Doubtful(Doubtful { epoch, closed: true, members, holding, items });
            }
        }
        self.walk(id, set, members, holding, written).await
    }

    /// The last stamp that an earlier opening saw in a set. What is older in one that was empty is what a drive that was away
    /// has of an earlier life.
    fn judged(&self, set: &ZoneSet) -> Option<u64> {
        (set.state.get() != SetState::Available).then_some(self.opened.get())
    }

    fn limit(&self, set: &ZoneSet, written: &Written) -> Limit {
        match set.cut.get() {
            u32::MAX => {
                Limit { block: written.iter().map(|(_, end)| *end).min().unwrap_or(0), judged: self.judged(set) }
            }
            cut => Limit { block: cut, judged: None },
        }
    }

    /// What a set holds of which items from the stamp `torn_from` on may be torn. (EXAM-2)
    pub(crate) async fn verified(
        &self,
        id: SetId,
        set: &ZoneSet,
        written: &Written,
        doubtful: Doubtful,
        torn_from: u64,
    ) -> Examined {
        let Doubtful { epoch, closed, members, holding, mut items } = doubtful;
        if set.cut.get() == u32::MAX {
            let torn_from = torn_from.max(self.judged(set).map_or(0, |judged| judged + 1));
            let certain = items.partition_point(|item| item.body.stamp() < torn_from);
            let certain = certain.max(items.len().saturating_sub(self.window.most()));
            let good = stream::iter(&items[certain..])
                .map(|item| self.verify_item(id, &members, &holding, item))
                .buffered(VERIFIED_AT_ONCE)
                .take_while(|good| std::future::ready(*good != Found::Torn));
            let good: Vec<Found> = good.collect().await;
            items.truncate(certain + good.len());
            if good.contains(&Found::Degraded) {
                self.suspect.borrow_mut().insert(id);
            }
        }
        let end = items.last().map_or(1, DigestItem::end);
        if written.iter().any(|(_, blocks)| *blocks < end) {
            self.suspect.borrow_mut().insert(id);
        }
        if closed {
            return Examined::Closed { epoch, digest: Digest::of(items), cut: end };
        }
        let in_step = written.iter().all(|(_, blocks)| *blocks == end) && set.cut.get() == u32::MAX;
        Examined::Open { epoch, digest: Digest::of(items), end, in_step }
    }

    /// The digest at the end of a member's zone, and the set's life.
    pub(crate) async fn read_digest(
        &self,
        id: SetId,
        members: &[Member],
        member: Member,
        end: u32,
    ) -> Option<(u64, Digest)> {
        let dev = self.drives.usable(member.drive)?;
        let from = end.saturating_sub(TAIL);
        let tail = dev.read(at(&dev, member.zone, from), Blocks(u64::from(end - from))).await.ok()?;
        let last = tail.get(tail.len().checked_sub(shingle_base::BLOCK_SIZE)?..)?;
        let trailer = Header::decode(last, &self.expect(member.zone, end - 1, None)).ok()?;
        let start = Trailer::decode(&trailer)?.start;
        let bytes = match start.checked_sub(from) {
            Some(skipped) => tail.slice(Blocks(u64::from(skipped)).bytes() as usize..),
            None => dev.read(at(&dev, member.zone, start), Blocks(u64::from(end - 1 - start))).await.ok()?,
        };
        let header = Header::decode(&bytes, &self.expect(member.zone, start, Some(trailer.place.epoch))).ok()?;
        if header.kind != DIGEST || header.verify_payload(&bytes).is_err() {
            return None;
        }
        let digest = Digest::decode(bytes.get(HEADER_SIZE..HEADER_SIZE + header.length as usize)?)?;
        // A zone that came back from another life, or was put in another's place, has another head.
        let head = self.read_record(&dev, member.zone, 0, Some(header.place.epoch)).await?;
        let own = SetHead::decode(&head.header.info).filter(|_| head.header.kind == SET_HEAD)?;
        let number = members.iter().position(|other| *other == member)?;
        (own.set == id && usize::from(own.member) == number).then_some((header.place.epoch, digest))
    }

    fn expect(&self, zone: ZoneId, block: u32, epoch: Option<u64>) -> Expect {
        Expect { store: Some(self.array), epoch, at: Some((zone, block)) }
    }

    /// The record at a block, verified. Not for fragments, whose payload stays where it is.
    async fn read_record(
        &self,
        dev: &Rc<dyn ZonedDevice>,
        zone: ZoneId,
        block: u32,
        epoch: Option<u64>,
    ) -> Option<Record> {
        let first = dev.read(at(dev, zone, block), Blocks(1)).await.ok()?;
        let header = Header::decode(&first, &self.expect(zone, block, epoch)).ok()?;
        if header.kind == FRAGMENT || header.sliced {
            return None;
        }
        let bytes = match header.blocks() {
            Blocks(1) => first,
            blocks => dev.read(at(dev, zone, block), blocks).await.ok()?,
        };
        header.verify_payload(&bytes).ok()?;
        let payload = bytes.get(HEADER_SIZE..HEADER_SIZE + header.length as usize)?;
        Some(Record { header, payload: bytes.slice_ref(payload) })
    }

    /// The record at a block of the first member that has a good one.
    async fn read_any(
        &self,
        members: &[Member],
        holding: &Written,
        block: u32,
        epoch: Option<u64>,
    ) -> Option<(Record, u8)> {
        for (number, member) in members.iter().enumerate() {
            let within = holding.iter().any(|(other, end)| other == member && block < *end);
            let Some(dev) = self.drives.usable(member.drive).filter(|_| within) else { continue };
            if let Some(record) = self.read_record(&dev, member.zone, block, epoch).await {
                return Some((record, number as u8));
            }
        }
        None
    }

    /// The records at a block, and at those where others are if all are as long as `step`: each off another member, since all
    /// have it, and the reads take turns of the drives where one after the other would wait for each.
    async fn read_ahead(
        &self,
        members: &[Member],
        holding: &Written,
        block: u32,
        step: Option<u32>,
        epoch: u64,
    ) -> VecDeque<(u32, Option<(Record, u8)>)> {
        let count = if step.is_some() { holding.len() as u32 } else { 1 };
        let reads = (0..count).map_while(|nth| {
            let block = block.checked_add(nth.checked_mul(step.unwrap_or(0))?)?;
            let mut turned = holding.iter().cycle().skip(nth as usize).take(holding.len());
            let (member, _) = turned.find(|(_, end)| block < *end)?;
            let number = members.iter().position(|other| other == member)?;
            let dev = self.drives.usable(member.drive)?;
            Some(async move {
                let record = self.read_record(&dev, member.zone, block, Some(epoch)).await;
                (block, record.map(|record| (record, number as u8)))
            })
        });
        join_all(reads).await.into()
    }

    /// Goes from marker to marker.
    async fn walk(
        &self,
        id: SetId,
        set: &ZoneSet,
        members: Vec<Member>,
        holding: Written,
        written: &Written,
    ) -> Surveyed {
        let damaged = |why: &str| Surveyed::Certain(Examined::Damaged(why.into()));
        let Some((head, number)) = self.read_any(&members, &holding, 0, None).await else {
            if holding.len() < written.len() {
                // Its very first write was torn: nothing in it was acknowledged (EXAM-1).
                let digest = Digest::default();
                return Surveyed::Certain(Examined::Open { epoch: 0, digest, end: 0, in_step: false });
            }
            return damaged("no member has a readable head");
        };
        let own = SetHead::decode(&head.header.info).filter(|_| head.header.kind == SET_HEAD);
        if own.is_none_or(|own| own.set != id || own.member != number) {
            return damaged("its zones belong to another set");
        }
        let epoch = head.header.place.epoch;
        let mut items = Vec::new();
        let mut next = 1;
        let limit = self.limit(set, written);
        let (mut ahead, mut step) = (VecDeque::new(), None);
        while next < limit.block || limit.judged.is_some() {
            if ahead.front().is_none_or(|(block, _)| *block != next) {
                ahead = self.read_ahead(&members, &holding, next, step, epoch).await;
            }
            let read = match ahead.pop_front() {
                Some((_, Some(read))) => Some(read),
                _ => self.read_any(&members, &holding, next, Some(epoch)).await,
            };
            let Some((record, number)) = read else { break };
            let Some((body, blocks)) = self.item(&record, number, next) else { break };
            if !limit.allows(next + blocks, body.stamp()) {
                break;
            }
            items.push(DigestItem { block: next, body });
            next += blocks;
            step = Some(blocks);
        }
        Surveyed::Doubtful(Doubtful { epoch, closed: false, members, holding, items })
    }

    /// What a member's record at a block says, and how many blocks it takes with what follows it.
    fn item(&self, record: &Record, number: u8, block: u32) -> Option<(ItemBody, u32)> {
        let own = record.header.blocks();
        match record.header.kind {
            MARKER => {
                let (marker, fragment) = Marker::decode(&record.header.info, &record.payload)?;
                let own_fragment = self.rotation.fragment_of(usize::from(number), block.checked_add(own.0 as u32)?);
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

    /// Whether enough members hold the item whole.
    async fn verify_item(&self, id: SetId, members: &[Member], holding: &Written, item: &DigestItem) -> Found {
        let enough = match &item.body {
            ItemBody::Segment(_) => self.code.data(),
            // Replicated: one would do, were there not those that the drive may yet lose.
            ItemBody::Tombstones { .. } => 1,
        };
        let checks = members.iter().enumerate().map(|(number, member)| async move {
            if !holding.iter().any(|(other, _)| other == member) {
                return false;
            }
            self.verify_member(id, number, *member, item).await.is_some()
        });
        match join_all(checks).await.into_iter().filter(|good| *good).count() {
            count if count < enough => Found::Torn,
            count if count < holding.len() => Found::Degraded,
            _ => Found::Whole,
        }
    }

    /// Whether a member holds its marker and fragment (or tombstones) whole.
    pub(crate) async fn verify_member(
        &self,
        _id: SetId,
        number: usize,
        member: Member,
        item: &DigestItem,
    ) -> Option<()> {
        let dev = self.drives.usable(member.drive)?;
        let record = self.read_record(&dev, member.zone, item.block, None).await?;
        let (body, _) = self.item(&record, number as u8, item.block)?;
        if body != item.body {
            return None;
        }
        let ItemBody::Segment(marker) = &item.body else { return Some(()) };
        let blocks = marker.shape.fragment_blocks();
        if blocks == Blocks::ZERO {
            return Some(());
        }
        let block = item.block + record.header.blocks().0 as u32;
        let bytes = dev.read(at(&dev, member.zone, block), blocks).await.ok()?;
        if !dev.geometry().keeps_payload {
            return Some(());
        }
        let header = Header::decode(&bytes, &self.expect(member.zone, block, Some(record.header.place.epoch))).ok()?;
        (header.kind == FRAGMENT && header.sequence == marker.stamp).then_some(())?;
        header.verify_payload(&bytes).ok()
    }
}
