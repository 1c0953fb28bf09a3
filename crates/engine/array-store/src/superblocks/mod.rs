//! The log of superblocks: each on several drives, the newest counts. (SMORE, section III-B.)
//!
//! A small table of sets is in each superblock, and drives take turns with them. A large one is not written anew for
//! each change: a few drives, the keepers, have a base (all sets, in pieces) and behind it superblocks with what
//! changed.
//!
//! # Invariants
//! - AS-SB-1: a superblock, with all that it builds on, is on as many drives as [`copies`] says when
//!   [`Superblocks::write`] returns; or on all drives that are left, if they are fewer. It says that number, which
//!   never falls: of an array of which fewer drives cannot be asked, the newest superblock is found. (AS-GATHER-4)
//! - AS-SB-2: a superblock zone is reset only when a more recent superblock is elsewhere; and the one with a drive's
//!   newest, where its other one takes none, only as far as an opening does without drives that have none
//!   (AS-GATHER-4): what fails the writes of many drives leaves the array its superblocks.
//!   `what_fails_superblocks_of_many_drives_leaves_them_the_ones_they_have`.
//! - AS-SB-3: the records that a superblock builds on lie before it in its zone, each naming the one before. If one
//!   cannot be read, records behind it are not believed on that drive, and known to be there: other drives' copies
//!   count.
//! - AS-SB-4: a base is encoded piece by piece while sets change. It counts only with a superblock behind it, which has
//!   every set that changed since the base was begun, so together they are of one moment.
//! - AS-SB-6: generations grow along a zone; a record that is older than one before it, or of another array, is of a former
//!   life of the zone, and tells nothing.

mod chain;
mod keeper;
mod ledger;
mod read;
pub(crate) mod saying;
mod unflushed;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{BLOCK_SIZE, StoreId, ZoneId};
use shingle_erasure::Code;
use shingle_record::{INFO_SIZE, RecordPlace, frame};
use shingle_zoned::{DeviceError, ZoneInfo, ZoneOp, ZonedDevice};

use crate::drives::Drives;
use crate::drives::asking::{at, is_lost};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{DriveState, SUPERBLOCK, SetEntry, Superblock, frame_trailer, set_bytes};
use crate::types::{DriveId, DriveSet, SetId};
use crate::zone_set::SetTable;
use keeper::Keeper;

pub(crate) use chain::blocks_needed;
pub(crate) use ledger::Ledger;
pub(crate) use read::{Tip, Tips, load, tips_of};

/// Copies of a superblock where codes need no more. (The paper's number.)
const COPIES_MIN: usize = 3;

/// Number of drives that a superblock goes to: one more than may be lost of those that sets have in common, and one
/// more for each further set that so many drives hold side by side, since each may lack some then. Not more than a set
/// can do with; and not fewer than `before`. (AS-SB-1)
pub(crate) fn copies(code: Code, drives: usize, before: u8) -> u8 {
    let grown = (code.parity() + drives / code.width()).min(code.data());
    let copies = COPIES_MIN.max(code.parity() + 1).max(grown);
    u8::try_from(copies).unwrap_or(u8::MAX).max(before)
}

/// Number of drives that may be left out while the newest superblock is found for certain: fewer than have it. Drives
/// that wrote it without all others were more than that. (AS-GATHER-4, AS-EVICT-4)
pub(crate) fn unread_most(code: Code, copies: u8) -> usize {
    code.parity().max(usize::from(copies).min(code.data()).saturating_sub(1))
}

/// A table of sets with up to so many bytes is in the first superblock of an array, and in those that are large
/// themselves.
const WHOLE_MOST: usize = 64 << 10;

/// Place of the next superblock of a drive.
#[derive(Clone, Copy, Debug)]
struct Next {
    /// One of its two zones.
    zone: usize,
    block: u32,
    /// The zone with the drive's newest superblock that can be read.
    newest: Option<usize>,
}

impl Next {
    /// Of a drive that has none.
    const FIRST: Self = Self { zone: 0, block: 0, newest: None };

    /// The zone that is begun anew where there is no room in this one: the other one, unless it has the drive's newest.
    /// (AS-SB-2)
    fn other(&self) -> usize {
        if self.newest == Some(1 - self.zone) { self.zone } else { 1 - self.zone }
    }

    /// True if that zone has no superblock that can be read.
    fn is_fresh(&self) -> bool {
        self.newest != Some(self.zone)
    }

    /// A zone that is reset from here on.
    fn begun_anew(&self, zone: usize) -> Self {
        Self { zone, block: 0, newest: self.newest.filter(|newest| *newest != zone) }
    }
}

/// The places of the next superblocks.
pub(crate) struct Superblocks {
    next: RefCell<BTreeMap<DriveId, Next>>,
    /// The drive that has the next turn.
    turn: Cell<usize>,
    keepers: RefCell<BTreeMap<DriveId, Keeper>>,
    /// A table of sets with up to so many bytes is in each superblock.
    pub(crate) whole_most: Cell<usize>,
}

impl Default for Superblocks {
    fn default() -> Self {
        Self {
            next: RefCell::default(),
            turn: Cell::new(0),
            keepers: RefCell::default(),
            whole_most: Cell::new(WHOLE_MOST),
        }
    }
}

/// Source of superblocks' fields.
pub(crate) trait Source {
    fn drives(&self) -> &Drives;

    fn sets(&self) -> &SetTable;

    fn array(&self) -> StoreId;

    fn code(&self) -> Code;

    /// Data and parity fragments of a set.
    fn width(&self) -> usize {
        self.code().width()
    }

    /// Number of drives that a superblock goes to.
    fn copies(&self) -> u8;

    /// Drives that get one only where the others are too few: they write slowly, and everybody would wait.
    fn avoided(&self) -> DriveSet {
        DriveSet::EMPTY
    }

    /// So many drives may have none while the newest is found for certain.
    fn unread_most(&self) -> usize {
        unread_most(self.code(), self.copies())
    }

    /// A number above all generations so far.
    fn next_generation(&self) -> u64;

    /// All but the sets, as things are now, under the next generation.
    fn fields(&self) -> Superblock;

    /// Makes durable what the next superblock relies on. Nothing is awaited between this and [`Source::fields`].
    async fn settle(&self) -> Result<()>;

    /// Lets others have their turn.
    async fn breathe(&self);
}

/// Drives that took a superblock, and those that did not.
pub(crate) struct Written {
    count: usize,
    wanted: usize,
    /// Drives that did not take it in either of their zones.
    pub(crate) refused: Vec<(DriveId, DeviceError)>,
}

impl Written {
    /// No drive took it.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.count == 0
    }

    /// Fails unless it is on all drives that were there.
    ///
    /// # Errors
    /// `Device`.
    pub(crate) fn everywhere(&self, drives: &Drives) -> Result<()> {
        self.enough(drives)?;
        // Drives that were lost on the way are not among those any more.
        let Some((drive, error)) = self.refused.first() else { return Ok(()) };
        Err(Error::new(ErrorKind::Device, format!("{} took no superblock: {error}", drives.name(*drive))))
    }

    /// Fails unless it is on enough drives. (AS-SB-1)
    ///
    /// # Errors
    /// `Device`.
    pub(crate) fn enough(&self, drives: &Drives) -> Result<()> {
        let error = |what: &str| match self.refused.last() {
            Some((_, error)) => Err(Error::new(ErrorKind::Device, format!("{what}: {error}"))),
            None => Err(Error::new(ErrorKind::Device, what)),
        };
        match self.count {
            0 if self.refused.is_empty() => error("no drive of the array is left"),
            0 => error("no drive took the superblock"),
            // Drives that are there but refused it leave too few copies.
            count if count < self.wanted.min(drives.all_usable().len()) => error("too few drives took the superblock"),
            _ => Ok(()),
        }
    }
}

fn info(drive: DriveId, drive_id: u64) -> [u8; INFO_SIZE] {
    let mut info = [0; INFO_SIZE];
    info[..8].copy_from_slice(&drive_id.to_le_bytes());
    info[8] = drive.0;
    info
}

/// The record of a superblock at `place`, and the trailer behind it.
fn frames(place: &RecordPlace, superblock: &Superblock, drive: DriveId, payload: &[u8]) -> Vec<Bytes> {
    let entry_id = superblock.drives.get(usize::from(drive.0)).map_or(0, |entry| entry.id);
    let record = frame(SUPERBLOCK, place, superblock.generation, info(drive, entry_id), &[payload]);
    let behind = place.block + (record.len() / BLOCK_SIZE) as u32;
    let trailer = frame_trailer(&RecordPlace { block: behind, ..*place }, superblock.generation, place.block);
    vec![record, trailer]
}

/// Blocks of a superblock's record and trailer.
fn blocks_of(payload: &[u8]) -> u32 {
    shingle_record::record_blocks(payload.len() as u64).0 as u32 + 1
}

impl Superblocks {
    /// Says where the zones of a drive end, as its report has it; the one with the `newest` superblock is gone on with.
    pub(crate) fn place(&self, drive: DriveId, zones: [&ZoneInfo; 2], newest: usize) {
        let block = zones[newest].written.0 as u32;
        self.next.borrow_mut().insert(drive, Next { zone: newest, block, newest: Some(newest) });
    }

    /// Neither zone of a drive has a superblock that can be read: they are begun anew.
    pub(crate) fn place_anew(&self, drive: DriveId) {
        self.next.borrow_mut().insert(drive, Next { zone: 1, block: u32::MAX, newest: None });
    }

    /// A drive has another number.
    pub(crate) fn renumber(&self, old: DriveId, new: DriveId) {
        let mut next = self.next.borrow_mut();
        if let Some(place) = next.remove(&old) {
            next.insert(new, place);
        }
    }

    /// A number is another drive's from now on, which has no superblock yet.
    pub(crate) fn forget_drive(&self, drive: DriveId) {
        self.next.borrow_mut().remove(&drive);
        self.keepers.borrow_mut().remove(&drive);
    }

    /// True if a drive has a superblock that can be read.
    fn is_known(&self, drive: DriveId) -> bool {
        self.newest_zone(drive).is_some()
    }

    /// The one of a drive's two zones that has its newest superblock that can be read.
    pub(crate) fn newest_zone(&self, drive: DriveId) -> Option<usize> {
        self.next.borrow().get(&drive)?.newest
    }

    /// True if an opening may find a drive without a superblock, besides those that have none or are away. (AS-SB-2)
    fn may_be_bare(&self, drives: &Drives, most: usize, drive: DriveId) -> bool {
        let is_there = |id: DriveId| drives.usable(id).is_some() && (id == drive || self.is_known(id));
        let in_use = drives.entries().into_iter().zip(drives.ids());
        let in_use = in_use.filter(|(entry, _)| entry.state == DriveState::Present);
        in_use.filter(|(_, id)| !is_there(*id)).count() < most
    }

    /// Writes a superblock to as many drives as AS-SB-1 says; to all, where `everywhere`. Drives that are lost on the
    /// way are marked as failed. One that says that the array was closed has the live bytes of all sets.
    ///
    /// # Errors
    /// Those of [`Source::settle`]; which drives did not take it is in the answer.
    pub(crate) async fn write(&self, source: &impl Source, closed: bool, everywhere: bool) -> Result<Written> {
        let wanted = if everywhere { usize::MAX } else { source.copies().into() };
        if source.sets().numbers() * set_bytes(source.width()) > self.whole_most.get() {
            return self.write_chained(source, closed, wanted).await;
        }
        self.keepers.borrow_mut().clear();
        source.settle().await?;
        let superblock = source.fields();
        let all: Vec<(SetId, Option<SetEntry>)> = source.sets().entries();
        let payload = superblock.encode(None, &all);
        source.sets().forget_changes(u64::MAX, u64::MAX);
        Ok(self.write_whole(source, &superblock, &payload, wanted).await)
    }

    async fn write_whole(
        &self,
        source: &impl Source,
        superblock: &Superblock,
        payload: &[u8],
        wanted: usize,
    ) -> Written {
        let (drives, everywhere) = (source.drives(), wanted == usize::MAX);
        let mut order = self.in_turn(source, wanted);
        if everywhere {
            // A drive that joins first: were it named elsewhere before it has a superblock, it would be missed after a
            // power cut, and is not known as a part of the array.
            order.sort_by_key(|(id, _)| self.is_known(*id));
        }
        let mut written = Written { count: 0, wanted, refused: Vec::new() };
        let mut again = Vec::new();
        for (id, dev) in order {
            if written.count == wanted {
                break;
            }
            match self.write_either(drives, id, &dev, superblock, payload, written.count > 0).await {
                Ok(()) => written.count += 1,
                Err(error) if is_lost(&error) => {
                    drives.fail(id);
                    written.refused.push((id, error));
                }
                Err(_) => again.push((id, dev)),
            }
        }
        // Now it is elsewhere: their other zone may be reset.
        for (id, dev) in again {
            if written.count == wanted {
                break;
            }
            match self.write_either(drives, id, &dev, superblock, payload, written.count > 0).await {
                Ok(()) => written.count += 1,
                Err(error) => {
                    tracing::warn!(drive = drives.name(id), %error, "a drive takes no superblock");
                    written.refused.push((id, error));
                }
            }
        }
        written
    }

    /// The drives in use, from the one whose turn it is, those that are avoided last; the turn goes on by `wanted`.
    fn in_turn(&self, source: &impl Source, wanted: usize) -> Vec<(DriveId, Rc<dyn ZonedDevice>)> {
        let (mut order, avoided) = (source.drives().all_usable(), source.avoided());
        let turn = self.turn.get() % order.len().max(1);
        order.rotate_left(turn);
        order.sort_by_key(|(drive, _)| avoided.has(*drive));
        self.turn.set(turn + wanted.min(order.len()));
        order
    }

    /// Writes to the zone whose turn it is; to the drive's other one, where that fails and may be reset (AS-SB-2): it
    /// has older superblocks, or this one is `elsewhere` already.
    async fn write_either(
        &self,
        drives: &Drives,
        id: DriveId,
        dev: &Rc<dyn ZonedDevice>,
        superblock: &Superblock,
        payload: &[u8],
        elsewhere: bool,
    ) -> std::result::Result<(), DeviceError> {
        let before = self.next.borrow().get(&id).copied();
        let failed = match self.write_one(drives, id, dev, superblock, payload).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let went_on = before.is_some_and(|before| before.block > 0 && before.block != u32::MAX && !before.is_fresh());
        let next = self.next.borrow().get(&id).copied().unwrap_or(Next::FIRST);
        let has_older = went_on && before.is_some_and(|before| before.zone == next.zone);
        let most = unread_most(superblock.code, superblock.copies);
        let may_go = next.newest != Some(1 - next.zone) || self.may_be_bare(drives, most, id);
        if is_lost(&failed) || !(has_older || elsewhere && may_go) {
            return Err(failed);
        }
        tracing::warn!(drive = drives.name(id), error = %failed, "a superblock zone failed; going on in the drive's other one");
        self.begin_anew(drives, id, dev, 1 - next.zone).await?;
        self.write_one(drives, id, dev, superblock, payload).await
    }

    /// Resets a superblock zone of a drive, which goes on there.
    async fn begin_anew(
        &self,
        drives: &Drives,
        drive: DriveId,
        dev: &Rc<dyn ZonedDevice>,
        zone: usize,
    ) -> std::result::Result<Next, DeviceError> {
        let zones = drives.superblock_zones(drive).unwrap_or_default();
        let before = self.next.borrow().get(&drive).copied().unwrap_or(Next::FIRST);
        let next = before.begun_anew(zone);
        self.next.borrow_mut().insert(drive, next);
        dev.manage(zones[zone], ZoneOp::Reset).await?;
        Ok(next)
    }

    async fn write_one(
        &self,
        drives: &Drives,
        id: DriveId,
        dev: &Rc<dyn ZonedDevice>,
        superblock: &Superblock,
        payload: &[u8],
    ) -> std::result::Result<(), DeviceError> {
        let zones = drives.superblock_zones(id).unwrap_or_default();
        let mut next = self.next.borrow().get(&id).copied().unwrap_or(Next::FIRST);
        if next.block.saturating_add(blocks_of(payload)) > drives.zone_capacity(id) {
            next = self.begin_anew(drives, id, dev, next.other()).await?;
        }
        let zone = zones[next.zone];
        let place = RecordPlace { store: superblock.array, epoch: 0, zone, block: next.block };
        let written = dev.write(at(dev, zone, next.block), frames(&place, superblock, id, payload)).await;
        // After a failed write nobody knows where the write pointer is: ask.
        let block = match &written {
            Ok(()) => next.block + blocks_of(payload),
            Err(_) => dev.report(zone, 1).await?.first().map_or(u32::MAX, |zone| zone.written.0 as u32),
        };
        let newest = if written.is_ok() { Some(next.zone) } else { next.newest };
        self.next.borrow_mut().insert(id, Next { block, newest, ..next });
        written?;
        // Superblocks are written one at a time: nobody would share the flush.
        shingle_zone_kit::flush(&**dev).await?;
        Ok(())
    }
}

/// The two superblock zones of a drive: its first sequential ones.
pub(crate) fn superblock_zones(dev: &Rc<dyn ZonedDevice>) -> [ZoneId; 2] {
    let first = dev.geometry().conventional_zones;
    [ZoneId(first), ZoneId(first + 1)]
}
