//! The log of superblocks: each on several drives, the newest counts. (SMORE, section III-B.)
//!
//! # Invariants
//! - SB-1: a superblock is on one more drive than may be lost, and on three at least, when [`Superblocks::write`]
//!   returns; or on all drives that are left, if they are fewer.
//! - SB-3: a drive of which something could not be read where a newer superblock may lie than the newest that was found, does not count
//!   as one whose superblocks were read.
//! - SB-2: a superblock zone is reset only when a more recent superblock is elsewhere.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, StoreId, ZoneId};
use shingle_record::{Expect, HEADER_SIZE, Header, INFO_SIZE, Place, frame};
use shingle_zoned::{DeviceError, ZoneInfo, ZoneOp, ZonedDevice};

use crate::drives::{Drives, at, is_lost};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{SUPERBLOCK, Superblock, VERSION_MIN};
use crate::probe::{Look, Unread, read_patiently};
use crate::types::DriveId;

/// Copies of a superblock where codes need no more. (The paper's number.)
const COPIES_MIN: usize = 3;

/// Where the next superblock of a drive goes.
#[derive(Clone, Copy, Debug)]
struct Next {
    /// Which of its two zones.
    zone: usize,
    block: u32,
}

/// The places of the next superblocks.
#[derive(Default)]
pub(crate) struct Superblocks {
    next: RefCell<BTreeMap<DriveId, Next>>,
    /// The drive that has the next turn.
    turn: Cell<usize>,
}

/// Drives that took a superblock, and those that did not.
pub(crate) struct Written {
    count: usize,
    wanted: usize,
    /// Drives that did not take it in either of their zones.
    pub(crate) refused: Vec<(DriveId, DeviceError)>,
}

impl Written {
    /// Whether it is on enough drives. (SB-1)
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

/// A superblock found on a drive.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) superblock: Superblock,
    /// The drive's own id.
    pub(crate) drive_id: u64,
}

fn info(drive: DriveId, drive_id: u64) -> [u8; INFO_SIZE] {
    let mut info = [0; INFO_SIZE];
    info[..8].copy_from_slice(&drive_id.to_le_bytes());
    info[8] = drive.0;
    info
}

impl Superblocks {
    /// Says where the zones of a drive end, as its report has it; the fuller one that is not full is gone on with.
    pub(crate) fn place(&self, drive: DriveId, zones: [&ZoneInfo; 2], newest: usize) {
        self.next.borrow_mut().insert(drive, Next { zone: newest, block: zones[newest].written.0 as u32 });
    }

    /// Neither zone of a drive has a superblock that can be read: they are begun anew.
    pub(crate) fn place_anew(&self, drive: DriveId) {
        self.next.borrow_mut().insert(drive, Next { zone: 1, block: u32::MAX });
    }

    /// A drive has another number.
    pub(crate) fn renumber(&self, old: DriveId, new: DriveId) {
        let mut next = self.next.borrow_mut();
        if let Some(place) = next.remove(&old) {
            next.insert(new, place);
        }
    }

    /// Writes `superblock` to as many drives as SB-1 says; to all, where `everywhere`. Drives that are lost on the way
    /// are marked as failed.
    pub(crate) async fn write(&self, drives: &Drives, superblock: &Superblock, everywhere: bool) -> Written {
        let payload = superblock.encode();
        let wanted = if everywhere { usize::MAX } else { COPIES_MIN.max(superblock.code.parity() + 1) };
        let mut order = drives.all_usable();
        let turn = self.turn.get() % order.len().max(1);
        order.rotate_left(turn);
        if everywhere {
            // A drive that joins first: were it named elsewhere before it has a superblock, it would be missed after a power cut,
            // and is not known as a part of the array.
            order.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
        }
        self.turn.set(self.turn.get() + wanted.min(order.len()));
        let mut written = Written { count: 0, wanted, refused: Vec::new() };
        let mut again = Vec::new();
        for (id, dev) in order {
            if written.count == wanted {
                break;
            }
            match self.write_either(drives, id, &dev, superblock, &payload, written.count > 0).await {
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
            match self.write_either(drives, id, &dev, superblock, &payload, written.count > 0).await {
                Ok(()) => written.count += 1,
                Err(error) => {
                    tracing::warn!(drive = drives.name(id), %error, "a drive takes no superblock");
                    written.refused.push((id, error));
                }
            }
        }
        written
    }

    /// Writes to the zone whose turn it is; to the drive's other one, where that fails and may be reset (SB-2): it has
    /// older superblocks, or this one is `elsewhere` already.
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
        let went_on = before.is_some_and(|before| before.block > 0 && before.block != u32::MAX);
        let zone = self.next.borrow().get(&id).map_or(0, |next| next.zone);
        if is_lost(&failed) || !(elsewhere || went_on && before.is_some_and(|before| before.zone == zone)) {
            return Err(failed);
        }
        tracing::warn!(drive = drives.name(id), error = %failed, "a superblock zone failed; going on in the drive's other one");
        self.next.borrow_mut().insert(id, Next { zone, block: u32::MAX });
        self.write_one(drives, id, dev, superblock, payload).await
    }

    async fn write_one(
        &self,
        drives: &Drives,
        id: DriveId,
        dev: &Rc<dyn ZonedDevice>,
        superblock: &Superblock,
        payload: &[u8],
    ) -> std::result::Result<(), DeviceError> {
        let entry_id = superblock.drives.get(usize::from(id.0)).map_or(0, |entry| entry.id);
        let zones = drives.superblock_zones(id).unwrap_or_default();
        let mut next = self.next.borrow().get(&id).copied().unwrap_or(Next { zone: 0, block: 0 });
        let blocks = shingle_record::record_blocks(payload.len() as u64).0 as u32;
        if next.block.saturating_add(blocks) > drives.zone_capacity(id) {
            next = Next { zone: 1 - next.zone, block: 0 };
            self.next.borrow_mut().insert(id, next);
            dev.manage(zones[next.zone], ZoneOp::Reset).await?;
        }
        let zone = zones[next.zone];
        let place = Place { store: superblock.array, epoch: 0, zone, block: next.block };
        let record = frame(SUPERBLOCK, &place, superblock.generation, info(id, entry_id), &[payload]);
        let written = dev.write(at(dev, zone, next.block), vec![record]).await;
        // After a failed write nobody knows where the write pointer is: ask.
        let block = match &written {
            Ok(()) => next.block + blocks,
            Err(_) => dev.report(zone, 1).await?.first().map_or(u32::MAX, |zone| zone.written.0 as u32),
        };
        self.next.borrow_mut().insert(id, Next { block, ..next });
        written?;
        if dev.geometry().volatile_cache {
            dev.flush().await?;
        }
        Ok(())
    }
}

/// Superblocks of a drive.
pub(crate) struct Newest {
    /// The newest that is whole, and which of the drive's zones it is in; `None` if there is none.
    pub(crate) found: Option<(Found, usize)>,
    /// Nothing that could not be read lies where a newer one would. (SB-3)
    pub(crate) sure: bool,
}

/// The newest superblock in `zones` of a drive.
///
/// # Errors
/// `Format` for a version that is not read; or the loss of the drive.
pub(crate) async fn newest_in(
    dev: &Rc<dyn ZonedDevice>,
    array: Option<StoreId>,
    zones: [&ZoneInfo; 2],
) -> Result<Newest> {
    let mut newest = Newest { found: None, sure: true };
    for (which, zone) in zones.iter().enumerate() {
        let mut headers = headers_in(dev, array, zone).await?;
        // The newest that is whole; what is torn lies behind it.
        while let Some(header) = headers.pop() {
            let Some(header) = header else {
                newest.sure = false;
                continue;
            };
            if newest.found.as_ref().is_some_and(|(found, _)| found.superblock.generation >= header.sequence) {
                break;
            }
            match read_one(dev, &header).await? {
                Ok(Some(found)) => {
                    newest.found = Some((found, which));
                    break;
                }
                Ok(None) => {}
                Err(Unread) => newest.sure = false,
            }
        }
    }
    Ok(newest)
}

/// The headers of superblocks in a zone, in order; `None` where a block could not be read.
async fn headers_in(dev: &Rc<dyn ZonedDevice>, array: Option<StoreId>, zone: &ZoneInfo) -> Result<Vec<Option<Header>>> {
    let mut headers = Vec::new();
    let mut block = 0;
    while u64::from(block) < zone.written.0 {
        let expect = Expect { store: array, epoch: Some(0), at: Some((zone.zone, block)) };
        let header = match read_patiently(dev, at(dev, zone.zone, block), Blocks(1)).await {
            Ok(bytes) => Header::decode(&bytes, &expect).ok().filter(|header| header.kind == SUPERBLOCK),
            Err(error) if is_lost(&error) => return Err(Error::device("reading superblocks", error)),
            Err(_) => {
                headers.push(None);
                None
            }
        };
        block += header.map_or(1, |header| header.blocks().0 as u32);
        headers.extend(header.filter(|_| u64::from(block) <= zone.written.0).map(Some));
    }
    Ok(headers)
}

async fn read_one(dev: &Rc<dyn ZonedDevice>, header: &Header) -> Result<Look<Found>> {
    let place = header.place;
    let bytes: Bytes = match read_patiently(dev, at(dev, place.zone, place.block), header.blocks()).await {
        Ok(bytes) => bytes,
        Err(error) if is_lost(&error) => return Err(Error::device("reading superblocks", error)),
        Err(_) => return Ok(Err(Unread)),
    };
    if header.verify_payload(&bytes).is_err() {
        return Ok(Ok(None));
    }
    let payload = bytes.get(HEADER_SIZE..HEADER_SIZE + header.length as usize).unwrap_or_default();
    let superblock = Superblock::decode(payload).map_err(|version| {
        let message = match version {
            old if old < VERSION_MIN => {
                format!("the array has format version {old}, of before the first release: format its drives anew")
            }
            _ => format!(
                "the array has format version {version}, which this version of Shingle does not read: use a newer one"
            ),
        };
        Error::new(ErrorKind::Format, message)
    })?;
    let [d0, d1, d2, d3, d4, d5, d6, d7, number, ..] = header.info;
    let drive_id = u64::from_le_bytes([d0, d1, d2, d3, d4, d5, d6, d7]);
    let fits = |superblock: &Superblock| {
        superblock.array == place.store
            && superblock.generation == header.sequence
            && superblock.drives.get(usize::from(number)).is_some_and(|entry| entry.id == drive_id)
    };
    Ok(Ok(superblock.filter(fits).map(|superblock| Found { superblock, drive_id })))
}

/// The two superblock zones of a drive: its first sequential ones.
pub(crate) fn superblock_zones(dev: &Rc<dyn ZonedDevice>) -> [ZoneId; 2] {
    let first = dev.geometry().conventional_zones;
    [ZoneId(first), ZoneId(first + 1)]
}
