//! Superblocks of a large table: a base now and then, and behind it what changed. (AS-SB-3, AS-SB-4)
//!
//! A fixed few drives, the keepers, have the chain: as many as a superblock has copies. One on which a write fails is
//! no keeper any more; another drive gets a base and takes its place. An opening chooses its keepers anew, so that no
//! chain is gone on with that another one began.

use std::collections::BTreeSet;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::{BLOCK_SIZE, StoreId};
use shingle_record::{RecordPlace, frame};
use shingle_zoned::{DeviceError, ZonedDevice};

use super::keeper::Keeper;
use super::{Next, Source, Superblocks, WHOLE_MOST, Written, blocks_of, frames};
use crate::drives::asking::{at, is_lost};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Base, SUPERBLOCK_PIECE, Superblock, encode_piece, set_bytes};
use crate::types::{DriveId, SetId};

/// Bytes of a piece: what is encoded before others have their turn.
const PIECE_MOST: usize = 256 << 10;

/// Bytes of changes in one superblock: where there are more, a base is written.
const CHANGES_MOST: usize = 1 << 20;

/// Blocks of superblocks behind a base: as many as that has, or these.
const CHAIN_MIN: u32 = 64;

/// Blocks that there must be room for behind a base.
const ROOM_MIN: u32 = 16;

/// Bases begun anew for one superblock.
const PLANS_MOST: usize = 8;

/// A superblock for one keeper.
struct Planned {
    drive: DriveId,
    payload: Vec<u8>,
}

/// Drives that failed while a superblock was written.
#[derive(Default)]
struct Failed {
    refused: Vec<(DriveId, DeviceError)>,
    tried: BTreeSet<DriveId>,
}

impl Superblocks {
    /// Writes a superblock to `wanted` keepers; to drives that join first.
    pub(super) async fn write_chained(&self, source: &impl Source, closed: bool, wanted: usize) -> Result<Written> {
        let mut failed = Failed::default();
        let (mut second, mut planned_in_vain, mut moved) = (false, 0, BTreeSet::new());
        loop {
            self.find_keepers(source, wanted, &mut failed, false).await;
            if self.keepers.borrow().is_empty() {
                return Ok(Written { count: 0, wanted, refused: failed.refused });
            }
            source.settle().await?;
            // At one moment, from here to the last payload.
            let fields = source.fields();
            let numbers = source.sets().changes_so_far();
            let Some(planned) = self.plan(source, &fields, closed) else {
                planned_in_vain += 1;
                if planned_in_vain > PLANS_MOST {
                    return Err(Error::new(
                        ErrorKind::Device,
                        "a superblock zone has no room for what a superblock says",
                    ));
                }
                continue;
            };
            let mut count = 0;
            for Planned { drive, payload } in planned {
                match self.append(source, drive, &fields, &payload).await {
                    Ok(()) => {
                        let mut keepers = self.keepers.borrow_mut();
                        if let Some(keeper) = keepers.get_mut(&drive) {
                            keeper.base.follows = fields.generation;
                            keeper.since = numbers;
                        }
                        count += 1;
                    }
                    // Its other zone has older superblocks: it gets a base there, once. (AS-SB-2)
                    Err(error) if !is_lost(&error) && moved.insert(drive) => {
                        let name = source.drives().name(drive);
                        tracing::warn!(drive = name, %error, "a superblock zone failed; going on in the drive's other one");
                        self.keepers.borrow_mut().remove(&drive);
                    }
                    Err(error) => self.fail(source, drive, error, &mut failed),
                }
            }
            self.forget(source);
            if count >= wanted.min(source.drives().all_usable().len()) {
                return Ok(Written { count, wanted, refused: failed.refused });
            }
            let untried = |drive: &DriveId| !self.keepers.borrow().contains_key(drive) && !failed.tried.contains(drive);
            if source.drives().all_usable().iter().any(|(drive, _)| untried(drive)) {
                continue;
            }
            if count == 0 || second {
                return Ok(Written { count, wanted, refused: failed.refused });
            }
            // Now it is elsewhere: the other zone of those that refused it may be reset (AS-SB-2).
            second = true;
            let before = self.keepers.borrow().len();
            failed.tried.clear();
            let (lost, refused): (Vec<_>, Vec<_>) =
                std::mem::take(&mut failed.refused).into_iter().partition(|(_, error)| is_lost(error));
            failed.refused = lost;
            self.find_keepers(source, wanted, &mut failed, true).await;
            if self.keepers.borrow().len() == before {
                failed.refused = if failed.refused.is_empty() { refused } else { failed.refused };
                return Ok(Written { count, wanted, refused: failed.refused });
            }
        }
    }

    /// A drive is no keeper any more. Records behind its last superblock in its zone are not continued.
    fn fail(&self, source: &impl Source, drive: DriveId, error: DeviceError, failed: &mut Failed) {
        self.keepers.borrow_mut().remove(&drive);
        let name = source.drives().name(drive);
        if is_lost(&error) {
            source.drives().fail(drive);
        } else {
            tracing::warn!(drive = name, %error, "a drive takes no superblock");
        }
        failed.tried.insert(drive);
        failed.refused.push((drive, error));
    }

    /// Gives bases to as many drives as are wanted, besides those that have one and could be gone on with.
    async fn find_keepers(&self, source: &impl Source, wanted: usize, failed: &mut Failed, elsewhere: bool) {
        let drives = source.drives();
        {
            let mut keepers = self.keepers.borrow_mut();
            keepers.retain(|drive, _| drives.usable(*drive).is_some());
            let (avoided, there) = (source.avoided(), drives.all_usable());
            if there.iter().filter(|(drive, _)| !avoided.has(*drive)).count() >= wanted {
                keepers.retain(|drive, _| !avoided.has(*drive));
            }
            while keepers.len() > wanted {
                keepers.pop_last();
            }
        }
        let lack = wanted.saturating_sub(self.keepers.borrow().len());
        let mut left = self.in_turn(source, lack);
        left.retain(|(drive, _)| !self.keepers.borrow().contains_key(drive) && !failed.tried.contains(drive));
        loop {
            let lack = wanted.saturating_sub(self.keepers.borrow().len());
            let some: Vec<_> = left.drain(..lack.min(left.len())).collect();
            if some.is_empty() {
                return;
            }
            // Side by side: a base is many writes, each of which waits for its drive.
            let bases = some.iter().map(|(drive, dev)| self.write_base_somewhere(source, *drive, dev, elsewhere));
            for ((drive, _), written) in some.iter().zip(join_all(bases).await) {
                if let Err(error) = written {
                    self.fail(source, *drive, error, failed);
                }
            }
        }
    }

    /// Begins a base on a drive. One that fails in the zone that it was in has another.
    async fn write_base_somewhere(
        &self,
        source: &impl Source,
        drive: DriveId,
        dev: &Rc<dyn ZonedDevice>,
        elsewhere: bool,
    ) -> std::result::Result<(), DeviceError> {
        let written = self.write_base(source, drive, dev, elsewhere).await;
        match written {
            Err(error) if !is_lost(&error) && !self.is_fresh(drive) => {
                self.write_base(source, drive, dev, elsewhere).await
            }
            written => written,
        }
    }

    fn is_fresh(&self, drive: DriveId) -> bool {
        self.next.borrow().get(&drive).is_none_or(Next::is_fresh)
    }

    /// Records for each keeper. `None` if one of them needs a base first.
    fn plan(&self, source: &impl Source, fields: &Superblock, closed: bool) -> Option<Vec<Planned>> {
        let width = source.width();
        let mut planned = Vec::new();
        let mut lacks = Vec::new();
        for (drive, keeper) in self.keepers.borrow().iter() {
            let changes = source.sets().changes(keeper.since, closed.then_some(keeper.began));
            let payload = fields.encode(Some(keeper.base), &changes);
            let next = self.next.borrow().get(drive).copied();
            let end = next.map_or(u32::MAX, |next| next.block.saturating_add(blocks_of(&payload)));
            let longest = (keeper.behind - keeper.base.block).max(CHAIN_MIN);
            let too_much = changes.len() * set_bytes(width) > CHANGES_MOST || end - keeper.behind.min(end) > longest;
            if end > source.drives().zone_capacity(*drive) || too_much && keeper.has_superblock() {
                lacks.push(*drive);
            }
            planned.push(Planned { drive: *drive, payload });
        }
        // Joining drives come first: one that is named elsewhere before it has a superblock would be missed.
        planned.sort_by_key(|planned| self.is_known(planned.drive));
        self.keepers.borrow_mut().retain(|drive, _| !lacks.contains(drive));
        lacks.is_empty().then_some(planned)
    }

    /// Changes that no keeper lacks are forgotten.
    fn forget(&self, source: &impl Source) {
        let keepers = self.keepers.borrow();
        let since = keepers.values().map(|keeper| keeper.since).min().unwrap_or(0);
        let began = keepers.values().map(|keeper| keeper.began).min().unwrap_or(0);
        source.sets().forget_changes(since, began);
    }

    /// Begins a base on a drive: all sets, piece by piece, each as it is when its turn comes. (AS-SB-4)
    async fn write_base(
        &self,
        source: &impl Source,
        drive: DriveId,
        dev: &Rc<dyn ZonedDevice>,
        elsewhere: bool,
    ) -> std::result::Result<(), DeviceError> {
        let (began, id) = (source.sets().changes_so_far(), source.next_generation());
        let (sets, width) = (source.sets().numbers(), source.width());
        let in_piece = (PIECE_MOST / set_bytes(width)).max(1);
        let pieces = sets.div_ceil(in_piece);
        let most = base_blocks(sets, width) as u32;
        let block = self.make_room(source, drive, dev, most + ROOM_MIN, elsewhere).await?;
        for number in 0..pieces {
            let first = number * in_piece;
            let some = source.sets().entries_of(first..sets.min(first + in_piece));
            let payload = encode_piece(SetId(first as u32), &some, width);
            self.write_piece(source.array(), drive, dev, source, (id, number as u32), &payload).await?;
            source.breathe().await;
        }
        let behind = self.next.borrow().get(&drive).map_or(block, |next| next.block);
        let base = Base { id, block, pieces: pieces as u32, follows: 0 };
        self.keepers.borrow_mut().insert(drive, Keeper { base, behind, since: began, began });
        Ok(())
    }

    /// Sees to it that the drive's zone has so many blocks left: the block at which they begin.
    async fn make_room(
        &self,
        source: &impl Source,
        drive: DriveId,
        dev: &Rc<dyn ZonedDevice>,
        blocks: u32,
        elsewhere: bool,
    ) -> std::result::Result<u32, DeviceError> {
        let mut next = self.next.borrow().get(&drive).copied().unwrap_or(Next::FIRST);
        if next.block.saturating_add(blocks) > source.drives().zone_capacity(drive) {
            let may_be_bare = elsewhere && self.may_be_bare(source.drives(), source.unread_most(), drive);
            let zone = if may_be_bare { 1 - next.zone } else { next.other() };
            next = self.begin_anew(source.drives(), drive, dev, zone).await?;
        }
        self.next.borrow_mut().entry(drive).or_insert(next);
        Ok(next.block)
    }

    async fn write_piece(
        &self,
        array: StoreId,
        drive: DriveId,
        dev: &Rc<dyn ZonedDevice>,
        source: &impl Source,
        (id, number): (u64, u32),
        payload: &[u8],
    ) -> std::result::Result<(), DeviceError> {
        let mut info = [0; shingle_record::INFO_SIZE];
        info[..4].copy_from_slice(&number.to_le_bytes());
        let record = |place: &RecordPlace| vec![frame(SUPERBLOCK_PIECE, place, id, info, &[payload])];
        self.put(source, array, drive, dev, record).await
    }

    async fn append(
        &self,
        source: &impl Source,
        drive: DriveId,
        fields: &Superblock,
        payload: &[u8],
    ) -> std::result::Result<(), DeviceError> {
        let gone = DeviceError { kind: shingle_zoned::DeviceErrorKind::Gone, at: shingle_base::Lba(0), zone: None };
        let Some(dev) = source.drives().usable(drive) else { return Err(gone) };
        self.put(source, fields.array, drive, &dev, |place| frames(place, fields, drive, payload)).await?;
        // Superblocks are written one at a time: nobody would share the flush.
        shingle_zone_kit::flush(&*dev).await?;
        if let Some(next) = self.next.borrow_mut().get_mut(&drive) {
            next.newest = Some(next.zone);
        }
        Ok(())
    }

    /// Writes at the end of a drive's zone. If that fails nothing is written behind it any more.
    async fn put(
        &self,
        source: &impl Source,
        array: StoreId,
        drive: DriveId,
        dev: &Rc<dyn ZonedDevice>,
        record: impl FnOnce(&RecordPlace) -> Vec<Bytes>,
    ) -> std::result::Result<(), DeviceError> {
        let next = self.next.borrow().get(&drive).copied().unwrap_or(Next::FIRST);
        let zone = source.drives().superblock_zones(drive).unwrap_or_default()[next.zone];
        let frames = record(&RecordPlace { store: array, epoch: 0, zone, block: next.block });
        let blocks = frames.iter().map(|frame| frame.len() / BLOCK_SIZE).sum::<usize>() as u32;
        let written = dev.write(at(dev, zone, next.block), frames).await;
        let block = if written.is_ok() { next.block + blocks } else { u32::MAX };
        self.next.borrow_mut().insert(drive, Next { block, ..next });
        written
    }
}

/// Blocks of the pieces of so many sets.
pub(super) fn base_blocks(sets: usize, width: usize) -> u64 {
    let in_piece = (PIECE_MOST / set_bytes(width)).max(1);
    let blocks = |sets: usize| shingle_record::record_blocks((12 + sets * set_bytes(width)) as u64).0;
    sets.div_ceil(in_piece) as u64 * blocks(in_piece.min(sets))
}

/// Blocks that a zone needs for superblocks of so many sets, where all the rest has so many bytes.
pub(crate) fn blocks_needed(sets: usize, width: usize, others: usize) -> u64 {
    let whole = shingle_record::record_blocks((others + sets * set_bytes(width)) as u64).0 + 1;
    match sets * set_bytes(width) > WHOLE_MOST {
        true => base_blocks(sets, width) + u64::from(ROOM_MIN).max(2 * shingle_record::record_blocks(others as u64).0),
        false => whole,
    }
}
