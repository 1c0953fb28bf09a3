//! Writing a lost or damaged member of a set anew, to a free zone. (SMORE, section III-G.)
//!
//! # Invariants
//! - AS-REPLACE-1: a zone takes a member's place only when it holds all that the member should: every item that counts,
//!   and the digest, durably before a superblock says so; and it ends where the others end. Durably: its drive was flushed, and said behind
//!   that that the zone can be written still. One that failed has lost what the cache held of it, though the flush succeeded. While the
//!   drive says nothing the zone waits for the next superblock.
//!   `a_zone_that_failed_before_it_was_flushed_takes_no_members_place`, `a_drive_that_says_nothing_for_a_while_spoils_no_zone`.
//! - AS-REPLACE-3: zeros stand only for slices that nothing gives back: every other member of their row was read or was given
//!   up, and too few have theirs. While one is away that was not given up, or cannot be read, the zone is not replaced; what
//!   else lives in its set is moved elsewhere meanwhile.
//! - AS-REPLACE-2: what is written was verified, or computed from fragments that were.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::{LocalBoxFuture, join_all};
use futures_util::stream::{self, StreamExt};
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks};
use shingle_record::{INFO_SIZE, RecordPlace, frame, record_blocks, slice_place};
use shingle_zoned::{DeviceError, ZonedDevice, report_patiently};

use crate::append::writer::start_now;
use crate::drives::asking::{at, is_lost};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    Digest, DigestItem, FragmentId, ItemBody, MARKER, Member, SET_HEAD, SetHead, TOMBSTONES, encode_tombstones,
};
use crate::recovery::examine::{Examined, Holds};
use crate::repair::membership::is_dead;
use crate::repair::rows::whole_segment;
use crate::repair::told::Copied;
use crate::segment::{Columns, Payload, Shape, Source};
use crate::types::SetId;
use crate::zone_set::{Phase, ZoneSet};

/// Items that are read ahead of the one that is written.
const AHEAD: usize = 4;

/// Writes on their way to the new zone: a drive without a write cache would lose a revolution after each.
const WRITES: usize = 3;

/// Contents of a set in one of its generations. They stay the same as long as that lasts.
pub(crate) struct Contents {
    generation: u64,
    /// Its epoch and items; `None` if nothing was ever written to it.
    found: Option<(u64, Digest)>,
    /// End of the zones of all members that are there, with a digest, if they end at one block.
    written: Option<u32>,
}

/// Outcome of a try to replace a member.
pub(crate) enum Replaced {
    /// With so many bytes.
    By(u64),
    /// The set does not hold the same any more: nothing was done.
    Changed,
    /// Something cannot be read for now that others may give back later: the zone stays. (AS-REPLACE-3)
    Unread(Error),
}

/// A member that is being written anew.
struct Copy<'a> {
    engine: &'a Rc<Engine>,
    id: SetId,
    set: &'a ZoneSet,
    epoch: u64,
    /// As in [`Contents`].
    written: Option<u32>,
    /// The members as they were, in the order of fragments.
    members: Vec<Member>,
    /// The number of its fragments.
    number: usize,
    spare: Member,
    dev: Rc<dyn ZonedDevice>,
    next: u32,
    writes: VecDeque<LocalBoxFuture<'static, std::result::Result<(), DeviceError>>>,
}

impl Engine {
    /// Reads what `set` holds, without `lost` if that is gone; `None` if it is empty. The set may be reset afterwards:
    /// what was read is of use only if it was not.
    pub(crate) async fn contents_without(
        self: &Rc<Self>,
        id: SetId,
        set: &Rc<ZoneSet>,
        lost: Member,
    ) -> Result<Option<Contents>> {
        let Some(_pin) = self.settled(id, set).await? else { return Ok(None) };
        let generation = set.generation();
        let mut written = self.written(set).await?;
        if self.drives.usable(lost.drive).is_none() {
            written.retain(|(member, _)| *member != lost);
        }
        let damaged = |why: String| Err(Error::new(ErrorKind::Corrupt, format!("{id}: {why}")));
        let (found, closed) = match self.examine(id, set, &written).await {
            Examined::Empty if self.nothing_lives(id, set).await? => (None, false),
            Examined::Empty => return damaged("nothing is there of what lives in it".into()),
            Examined::Holds(Holds { lost: Some(why), .. }) | Examined::Damaged(why) | Examined::Unread(why) => {
                return damaged(why);
            }
            Examined::Holds(Holds { epoch, digest, closed, .. }) => (Some((epoch, digest)), closed),
        };
        let others = || written.iter().filter(|(member, _)| *member != lost).map(|(_, blocks)| *blocks);
        let in_step = closed && others().min() == others().max();
        let written = others().max().filter(|_| in_step);
        Ok(Some(Contents { generation, found, written }))
    }

    /// Puts `spare`, which is empty, in the place of `lost` in `set`, with what that held.
    pub(crate) async fn replace_member(
        self: &Rc<Self>,
        id: SetId,
        set: &Rc<ZoneSet>,
        lost: Member,
        spare: Member,
        contents: &Contents,
    ) -> Result<Replaced> {
        let Some(_pin) = self.settled(id, set).await? else { return Ok(Replaced::Changed) };
        if set.generation() != contents.generation {
            return Ok(Replaced::Changed);
        }
        let bytes = match &contents.found {
            Some((epoch, digest)) => {
                match self.copy_member(id, set, lost, spare, (*epoch, contents.written), digest).await? {
                    Ok(bytes) => bytes,
                    Err(error) => return Ok(Replaced::Unread(error)),
                }
            }
            None => 0,
        };
        if !set.has_member(|member| *member == lost) {
            return Err(Error::new(ErrorKind::Invalid, format!("{id} has no such zone any more")));
        }
        // Its drive goes on while the next set is read: a flush here would leave it idle in between.
        self.superblock.unflushed.add([spare.drive]);
        let copied = Copied { id, set: set.clone(), generation: contents.generation, lost, spare };
        self.membership.copied.borrow_mut().push(Rc::new(copied));
        self.superblock.count_replaced();
        Ok(Replaced::By(bytes))
    }

    /// Gives zones that were written anew their members' places, if they are well behind a flush of their drives, which has been. A set that
    /// was emptied meanwhile needs none. Returns those of which the drive says nothing: they wait on. (AS-REPLACE-1)
    pub(crate) async fn give_places(&self, copied: &[Rc<Copied>]) -> Vec<Rc<Copied>> {
        let well = join_all(copied.iter().map(|copied| self.is_well(copied.spare))).await;
        let mut silent = Vec::new();
        for (copied, well) in copied.iter().zip(well) {
            let Some(well) = well else {
                silent.push(copied.clone());
                continue;
            };
            if !self.membership.end_copied(copied) {
                continue;
            }
            let Copied { id, set, generation, lost, spare } = &**copied;
            if !well {
                let drive = self.drives.name(spare.drive);
                tracing::warn!(
                    drive,
                    zone = spare.zone.0,
                    set = id.0,
                    "a zone that was written anew failed: the set keeps the one that it had"
                );
                self.membership.spoilt.set(self.membership.spoilt.get() + 1);
                continue;
            }
            let is_there = self.sets.get(*id).is_some_and(|there| Rc::ptr_eq(&there, set));
            if is_there && set.phase() == Phase::Still && set.generation() == *generation {
                set.replace_member(*lost, *spare);
            }
        }
        silent
    }

    /// The drive says that the zone can be written, or that it cannot; `None` if it says nothing.
    async fn is_well(&self, Member { drive, zone }: Member) -> Option<bool> {
        let Some(dev) = self.drives.usable(drive) else { return Some(false) };
        match report_patiently(&dev, zone, 1).await {
            Ok(zones) => Some(zones.first().is_some_and(|found| found.zone == zone && !is_dead(found))),
            Err(error) => {
                tracing::warn!(drive = self.drives.name(drive), %error, "a drive does not say what became of a zone");
                is_lost(&error).then_some(false)
            }
        }
    }

    /// Writes what `lost` held to `spare`: so many bytes, or why something cannot be read for now.
    async fn copy_member(
        self: &Rc<Self>,
        id: SetId,
        set: &ZoneSet,
        lost: Member,
        spare: Member,
        (epoch, written): (u64, Option<u32>),
        digest: &Digest,
    ) -> Result<std::result::Result<u64, Error>> {
        let members = set.ordered_members(id);
        let number = members.iter().position(|member| *member == lost);
        let (Some(number), Some(dev)) = (number, self.drives.usable(spare.drive)) else {
            return Err(Error::new(ErrorKind::Device, format!("{id}: the zone or its replacement is gone")));
        };
        let mut copy = Copy {
            engine: self,
            id,
            set,
            epoch,
            written,
            members,
            number,
            spare,
            dev,
            next: 0,
            writes: VecDeque::new(),
        };
        let result = copy.all(digest).await;
        // After success or failure, nothing is on its way to the zone when it is used again.
        let landed = copy.landed(0).await;
        let blocks = copy.next;
        let unread = result?;
        landed?;
        if let Some(error) = unread {
            return Ok(Err(error));
        }
        Ok(Ok(Blocks(u64::from(blocks)).bytes()))
    }

    async fn copy_failed(&self, drive: crate::types::DriveId, error: DeviceError) -> Error {
        match self.drive_error(drive, &error).await {
            Ok(()) => Error::device(format!("writing a lost zone anew on {}", self.drives.name(drive)), error),
            Err(error) => error,
        }
    }
}

impl Copy<'_> {
    /// Copies all. Returns the reason if something cannot be read for now.
    async fn all(&mut self, digest: &Digest) -> Result<Option<Error>> {
        let opened = self.engine.rt.unix_time().nanos;
        let (drive, drive_id) = (self.spare.drive, self.engine.drives.own_id(self.spare.drive));
        let head = SetHead { set: self.id, member: self.number as u8, drive, opened, drive_id };
        let head = frame(SET_HEAD, &self.place(0), self.epoch, head.encode(), &[]);
        self.write(0, vec![head]).await?;
        // The reader is made of copies of what it needs, since the writer goes on beside it.
        let (engine, members) = (self.engine.clone(), self.members.clone());
        let reader = MemberReader { engine, id: self.id, members, number: self.number, payload: self.payload() };
        let reads = digest.items.iter().map(|item| reader.item(item));
        let mut reads = stream::iter(reads).buffered(AHEAD);
        let mut items = digest.items.iter();
        while let (Some(read), Some(item)) = (reads.next().await, items.next()) {
            self.engine.running()?;
            let fragment = match read {
                Ok(fragment) => fragment,
                Err(error) => return Ok(Some(error)),
            };
            let frames = self.frames(item, fragment);
            self.write(item.block, frames).await?;
        }
        self.digest(digest).await.map(|()| None)
    }

    fn payload(&self) -> Payload {
        self.engine.framing.payload(self.set.state())
    }

    fn place(&self, block: u32) -> RecordPlace {
        RecordPlace { store: self.engine.array, epoch: self.epoch, zone: self.spare.zone, block }
    }

    fn frames(&self, item: &DigestItem, fragment: Fragment) -> Vec<Bytes> {
        let place = self.place(item.block);
        match &item.body {
            ItemBody::Tombstones { stamp, tombstones } => {
                vec![frame(TOMBSTONES, &place, *stamp, [0; INFO_SIZE], &[&encode_tombstones(tombstones)])]
            }
            ItemBody::Segment(marker) => {
                let block = marker.fragments_at(item.block);
                let number = self.engine.framing.rotation.fragment_of(self.number, block) as u8;
                let info = marker.info(number);
                let mut frames = vec![frame(MARKER, &place, marker.stamp, info, &[&marker.payload()])];
                let place = self.place(block);
                let id = FragmentId { stamp: marker.stamp, set: self.id, fragment: number }.chunk();
                match fragment {
                    Fragment::None => {}
                    Fragment::Some { bytes, lost } => {
                        let pool = &self.engine.framing.pool;
                        let whole = self.payload().frame(&place, marker.stamp, id, bytes, pool);
                        frames.extend(if lost.is_empty() { whole } else { without(&whole, &lost) });
                    }
                }
                frames
            }
        }
    }

    /// The digest where the others have theirs, at the end, or behind the last item; none where it does not fit.
    async fn digest(&mut self, digest: &Digest) -> Result<()> {
        let blocks = record_blocks(digest.encoded().len() as u64).0 as u32;
        let last = self.written.map_or(0, |written| written.saturating_sub(blocks + 1));
        let start = last.max(self.next);
        if start + blocks + 1 > self.engine.drives.zone_capacity(self.spare.drive) {
            return Ok(());
        }
        let sequence = self.engine.stamps.next();
        let frames = self.engine.digest_frames(self.epoch, digest, self.spare, start, sequence);
        self.write(start, frames).await?;
        self.landed(0).await?;
        self.engine.finish_longer(&[self.spare], self.next).await;
        Ok(())
    }

    /// Starts a write at `block`, with zeros before it up to where the zone is.
    async fn write(&mut self, block: u32, mut pieces: Vec<Bytes>) -> Result<()> {
        self.landed(WRITES - 1).await?;
        if block > self.next {
            pieces.insert(0, AlignedBuf::zeroed(Blocks(u64::from(block - self.next))).freeze());
        }
        let blocks = pieces.iter().map(|piece| piece.len() / BLOCK_SIZE).sum::<usize>() as u32;
        let (dev, lba) = (self.dev.clone(), at(&self.dev, self.spare.zone, self.next));
        self.next += blocks;
        let write = start_now(Box::pin(async move { dev.write(lba, pieces).await }));
        self.writes.push_back(write);
        Ok(())
    }

    /// Waits until at most `most` writes are on their way.
    async fn landed(&mut self, most: usize) -> Result<()> {
        let mut failed = None;
        while self.writes.len() > most {
            let Some(write) = self.writes.pop_front() else { break };
            if let Err(error) = write.await {
                failed.get_or_insert(error);
            }
        }
        match failed {
            Some(error) => Err(self.engine.copy_failed(self.spare.drive, error).await),
            None => Ok(()),
        }
    }
}

/// Fragment that belongs behind a marker.
enum Fragment {
    None,
    /// Nothing gives the slices with those numbers back: their places are filled with zeros, which pass no check.
    Some {
        bytes: Bytes,
        lost: BTreeSet<u32>,
    },
}

/// A fragment's record with zeros for those slices.
fn without(record: &[Bytes], lost: &BTreeSet<u32>) -> Vec<Bytes> {
    let length = record.iter().map(Bytes::len).sum::<usize>();
    let mut bytes = AlignedBuf::zeroed(Blocks::holding(length as u64));
    let mut at = 0;
    for piece in record {
        bytes[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    for number in lost {
        let place = slice_place(*number);
        if let Some(slice) = bytes.get_mut(place.start..place.end.min(length)) {
            slice.fill(0);
        }
    }
    vec![bytes.freeze()]
}

/// Reads what belongs into the new member.
struct MemberReader {
    engine: Rc<Engine>,
    id: SetId,
    members: Vec<Member>,
    number: usize,
    payload: Payload,
}

impl MemberReader {
    /// The fragment of an item: as it is on the old member, if it can be read, or computed from others.
    async fn item(&self, item: &DigestItem) -> Result<Fragment> {
        let ItemBody::Segment(marker) = &item.body else { return Ok(Fragment::None) };
        let shape = Shape::new(self.engine.code, marker.shape.length());
        let length = shape.fragment_length();
        if length == 0 {
            return Ok(Fragment::None);
        }
        let place = whole_segment(self.id, item, marker);
        let rotation = self.engine.framing.rotation;
        let number = rotation.fragment_of(self.number, place.block);
        let members = rotation.in_order(self.members.clone(), place.block);
        let source =
            Source { drives: &self.engine.drives, paces: &self.engine.paces, members: &members, place: &place, shape };
        let mut faults = Vec::new();
        if let Some(bytes) = self.payload.fragment(&self.engine.framing, &source, number, &mut faults).await {
            return Ok(Fragment::Some { bytes, lost: BTreeSet::new() });
        }
        let error = self.engine.unreadable(&place, &faults);
        let columns = source.columns(&self.engine.framing.coder, number, &(0..length)).await;
        if self.may_come_back(&columns, &members) {
            return Err(error);
        }
        if !columns.lost.is_empty() {
            tracing::error!(%error, slices = columns.lost.len(), "a segment is lost in part; what else its zone set holds is kept");
        }
        Ok(Fragment::Some { bytes: columns.bytes.into(), lost: columns.lost })
    }

    /// True if some member may give back later the bytes that it does not give now: it is away and was not given up, or
    /// cannot be read. (AS-REPLACE-3)
    fn may_come_back(&self, columns: &Columns, members: &[Member]) -> bool {
        columns.unread.iter().filter_map(|fragment| members.get(*fragment)).any(|member| {
            let own = self.members.get(self.number) == Some(member);
            match self.engine.drives.usable(member.drive) {
                Some(_) => true,
                // A member that was lost for good, and is replaced for that, does not come back.
                None => !own && self.engine.is_away(member),
            }
        })
    }
}
