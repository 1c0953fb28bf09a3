//! What a zone set holds, read off its drives: from its digest, or from marker to marker. (SMORE, sections III-D and IV-A.)
//!
//! Two questions, and never both of one set. Sets that received writes when the array stopped are *judged* once, by the opening
//! that finds them: which of their items count? The answer is durable before that opening goes on: the set is closed, and the
//! superblock names its end. Of all others the end is certain, and what cannot be read below it is damage: nothing that reads
//! them (a rebuild, cleaning, a scrub, a check) decides what counts.
//!
//! # Invariants
//! - EXAM-1: judging takes an item only if every member whose drive is there was written up to its end: where one was not, the
//!   item was never acknowledged (WRITE-1).
//! - EXAM-2: of what a power cut may have torn (the last items that were launched, in sets without a digest) judging takes
//!   everything up to the last item of which enough fragments verify: zones keep what is written in order, so one before it
//!   that does not verify is damaged, not torn. Where not all fragments verify, the others are written anew: what they
//!   replaced is gone.
//! - EXAM-3: a set is judged once. What was not taken is void for every later opening, whichever drives that finds; what was
//!   taken counts, and may be all that is left.

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
use crate::types::SetId;

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
    Holds(Holds),
    /// Too much of it is unreadable to say.
    Damaged(String),
}

/// Contents of a set.
#[derive(Debug)]
pub(crate) struct Holds {
    pub(crate) epoch: u64,
    pub(crate) digest: Digest,
    /// The first block behind the last item that counts.
    pub(crate) end: u32,
    /// Some member ends with a digest.
    pub(crate) closed: bool,
    /// Items below the end that no member has any more, in words.
    pub(crate) lost: Option<String>,
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

/// Findings on the way from marker to marker.
#[derive(Default)]
struct Walked {
    epoch: u64,
    items: Vec<DigestItem>,
    /// The first block at which no record was found where one could be.
    unread: Option<u32>,
    /// The same, with an item behind it.
    hole: Option<u32>,
}

/// The first block behind items.
fn end_of(items: &[DigestItem]) -> u32 {
    items.last().map_or(1, DigestItem::end)
}

/// A record with its payload.
struct Record {
    header: Header,
    payload: Bytes,
}

impl Engine {
    /// Reads what a set holds of which it is certain what counts; `written` has its members whose drives are there.
    pub(crate) async fn examine(&self, id: SetId, set: &ZoneSet, written: &Written) -> Examined {
        let holding: Written = written.iter().copied().filter(|(_, blocks)| *blocks > 0).collect();
        if holding.is_empty() {
            return Examined::Empty;
        }
        let members = set.ordered_members(id);
        let end = set.end();
        for (member, written) in self.in_turn(id, &holding) {
            if let Some((epoch, digest, closed)) = self.read_digest(id, &members, member, written, end).await {
                let items: Vec<DigestItem> = digest.items.into_iter().take_while(|item| item.end() <= end).collect();
                let reached = end_of(&items);
                if end == u32::MAX || reached == end {
                    let digest = Digest::of(items);
                    return Examined::Holds(Holds { epoch, digest, end: reached, closed, lost: None });
                }
            }
        }
        let most = holding.iter().map(|(_, blocks)| *blocks).max().unwrap_or(0).min(end);
        let walked = match self.walk(id, &members, &holding, written, most, true).await {
            Ok(walked) => walked,
            Err(why) => return Examined::Damaged(why),
        };
        let reached = end_of(&walked.items);
        let short = (end != u32::MAX && reached != end).then_some(reached);
        let lost = walked.hole.or(short).map(|block| format!("block {block} can be read on no drive"));
        let end = if end == u32::MAX { reached } else { end };
        Examined::Holds(Holds { epoch: walked.epoch, digest: Digest::of(walked.items), end, closed: false, lost })
    }

    /// Looks at a set that received writes when the array stopped. (EXAM-1)
    pub(crate) async fn survey_set(&self, id: SetId, set: &ZoneSet, written: &Written) -> Surveyed {
        let holding: Written = written.iter().copied().filter(|(_, blocks)| *blocks > 0).collect();
        if holding.is_empty() {
            return Surveyed::Certain(Examined::Empty);
        }
        let members = set.ordered_members(id);
        let limit = written.iter().map(|(_, end)| *end).min().unwrap_or(0);
        for (member, end) in self.in_turn(id, &holding) {
            if let Some((epoch, digest, _)) = self.read_digest(id, &members, member, end, u32::MAX).await {
                if written.iter().all(|(_, blocks)| *blocks == end) {
                    let end = end_of(&digest.items);
                    return Surveyed::Certain(Examined::Holds(Holds { epoch, digest, end, closed: true, lost: None }));
                }
                // Digests are written behind items that are still on their way: what they say is not all there yet.
                let items = digest.items.into_iter().take_while(|item| item.end() <= limit).collect();
                return Surveyed::Doubtful(Doubtful { epoch, closed: true, members, holding, items });
            }
        }
        match self.walk(id, &members, &holding, written, limit, false).await {
            Ok(Walked { epoch, items, .. }) => {
                Surveyed::Doubtful(Doubtful { epoch, closed: false, members, holding, items })
            }
            Err(why) => Surveyed::Certain(Examined::Damaged(why)),
        }
    }

    /// Members in the order in which their digests are looked for: for different sets off different drives, so that all drives
    /// take part.
    fn in_turn(&self, id: SetId, holding: &Written) -> Written {
        let turn = if self.options.spread_digests { id.0 as usize % holding.len().max(1) } else { 0 };
        [&holding[turn..], &holding[..turn]].concat()
    }

    /// What counts of a set that was surveyed, of which items from the stamp `torn_from` on may be torn. (EXAM-2)
    pub(crate) async fn judged(&self, id: SetId, doubtful: Doubtful, torn_from: u64) -> Examined {
        let Doubtful { epoch, closed, members, holding, mut items } = doubtful;
        let certain = items.partition_point(|item| item.body.stamp() < torn_from);
        let certain = certain.max(items.len().saturating_sub(self.window.most()));
        let found = stream::iter(&items[certain..])
            .map(|item| self.verify_item(id, &members, &holding, item))
            .buffered(VERIFIED_AT_ONCE);
        let found: Vec<Found> = found.collect().await;
        let good = found.iter().rposition(|found| *found != Found::Torn).map_or(0, |last| last + 1);
        items.truncate(certain + good);
        if found[..good].iter().any(|found| *found != Found::Whole) {
            self.suspect.borrow_mut().insert(id);
        }
        let end = end_of(&items);
        Examined::Holds(Holds { epoch, digest: Digest::of(items), end, closed, lost: None })
    }

    /// The set's life and its digest, off a member that was `written` so far, of a set whose items are known to end at `end`; and
    /// whether the zone ends with it.
    pub(crate) async fn read_digest(
        &self,
        id: SetId,
        members: &[Member],
        member: Member,
        written: u32,
        end: u32,
    ) -> Option<(u64, Digest, bool)> {
        let dev = self.drives.usable(member.drive)?;
        let (header, payload, closed) = match self.read_tail(&dev, member.zone, written).await {
            Some((header, payload)) => (header, payload, true),
            // A set that ended early has it behind its last item, and its zone may have been finished.
            None if end < written => {
                let record = self.read_record(&dev, member.zone, end, None).await?;
                (record.header, record.payload, false)
            }
            None => return None,
        };
        let digest = Digest::decode(&payload).filter(|_| header.kind == DIGEST)?;
        // A zone that came back from another life, or was put in another's place, has another head.
        let head = self.read_record(&dev, member.zone, 0, Some(header.place.epoch)).await?;
        let own = SetHead::decode(&head.header.info).filter(|_| head.header.kind == SET_HEAD)?;
        let number = members.iter().position(|other| *other == member)?;
        (own.set == id && usize::from(own.member) == number).then_some((header.place.epoch, digest, closed))
    }

    /// The digest that the trailer in a zone's last block names: its header and payload.
    async fn read_tail(&self, dev: &Rc<dyn ZonedDevice>, zone: ZoneId, end: u32) -> Option<(Header, Bytes)> {
        let from = end.saturating_sub(TAIL);
        let tail = dev.read(at(dev, zone, from), Blocks(u64::from(end - from))).await.ok()?;
        let last = tail.get(tail.len().checked_sub(shingle_base::BLOCK_SIZE)?..)?;
        let trailer = Header::decode(last, &self.expect(zone, end - 1, None)).ok()?;
        let start = Trailer::decode(&trailer)?.start;
        let bytes = match start.checked_sub(from) {
            Some(skipped) => tail.slice(Blocks(u64::from(skipped)).bytes() as usize..),
            None => dev.read(at(dev, zone, start), Blocks(u64::from((end - 1).checked_sub(start)?))).await.ok()?,
        };
        let header = Header::decode(&bytes, &self.expect(zone, start, Some(trailer.place.epoch))).ok()?;
        header.verify_payload(&bytes).ok()?;
        let payload = bytes.get(HEADER_SIZE..HEADER_SIZE + header.length as usize)?;
        let payload = bytes.slice_ref(payload);
        Some((header, payload))
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

    /// Goes from marker to marker, up to the block `limit`; over those that no member has any more, too, where it is certain
    /// that something was there.
    async fn walk(
        &self,
        id: SetId,
        members: &[Member],
        holding: &Written,
        written: &Written,
        limit: u32,
        past_holes: bool,
    ) -> std::result::Result<Walked, String> {
        let Some((head, number)) = self.read_any(members, holding, 0, None).await else {
            if holding.len() < written.len() && !past_holes {
                // Its very first write was torn: nothing in it was acknowledged (EXAM-1).
                return Ok(Walked::default());
            }
            return Err("no member has a readable head".into());
        };
        let own = SetHead::decode(&head.header.info).filter(|_| head.header.kind == SET_HEAD);
        if own.is_none_or(|own| own.set != id || own.member != number) {
            return Err("its zones belong to another set".into());
        }
        let mut walked = Walked { epoch: head.header.place.epoch, ..Walked::default() };
        let mut next = 1;
        let (mut ahead, mut step) = (VecDeque::new(), None);
        while next < limit {
            if ahead.front().is_none_or(|(block, _)| *block != next) {
                ahead = self.read_ahead(members, holding, next, step, walked.epoch).await;
            }
            let read = match ahead.pop_front() {
                Some((_, Some(read))) => Some(read),
                _ => self.read_any(members, holding, next, Some(walked.epoch)).await,
            };
            let found = read.and_then(|(record, number)| self.item(&record, number, next));
            let Some((body, blocks)) = found else {
                if !past_holes {
                    break;
                }
                walked.unread.get_or_insert(next);
                (next, step) = (next + 1, None);
                continue;
            };
            if next + blocks > limit {
                break;
            }
            // There is something behind it: a hole, and not the end.
            walked.hole = walked.hole.or(walked.unread);
            walked.items.push(DigestItem { block: next, body });
            next += blocks;
            step = Some(blocks);
        }
        Ok(walked)
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
