//! Reading superblocks: where the newest on a drive is, cheaply; and what it says, with all that it builds on.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{BLOCK_SIZE, Blocks, StoreId, ZoneId};
use shingle_record::{Expect, Form, HEADER_SIZE, Header};
use shingle_zoned::{ZoneInfo, ZonedDevice, read_patiently};

use crate::drives::asking::{at, is_lost};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Assembly, Base, SUPERBLOCK, SUPERBLOCK_PIECE, Superblock, Trailer, Update, VERSION_MIN};

/// Blocks that are read at once, where records lie one behind the other.
const AHEAD: u64 = 512;

/// Unreadable blocks of a zone behind which nothing of it is read: a drive may take seconds for each try, and all drives are
/// waited for. It hides its superblocks then. (AS-GATHER-3)
const UNREADABLE_MAX: usize = 32;

/// A superblock on a drive that verifies by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tip {
    /// One of the drive's zones.
    pub(crate) which: usize,
    pub(crate) generation: u64,
    pub(crate) array: StoreId,
    /// The drive's own id.
    pub(crate) drive_id: u64,
    zone: ZoneId,
    block: u32,
    blocks: u32,
    base: Option<Base>,
}

/// The superblocks of a drive.
#[derive(Debug, Default)]
pub(crate) struct Tips {
    /// The newest last.
    pub(crate) found: Vec<Tip>,
    /// Something behind the newest could not be read: there may be a newer one.
    pub(crate) hidden: bool,
}

/// Result of a read.
enum Read {
    Bytes(Bytes),
    /// It failed several times: nobody knows what is there.
    Unreadable,
}

async fn read(dev: &Rc<dyn ZonedDevice>, zone: ZoneId, block: u32, blocks: u64) -> Result<Read> {
    match read_patiently(dev, at(dev, zone, block), Blocks(blocks)).await {
        Ok(bytes) => Ok(Read::Bytes(bytes)),
        Err(error) if is_lost(&error) => Err(Error::device("reading superblocks", error)),
        Err(_) => Ok(Read::Unreadable),
    }
}

fn expect(zone: ZoneId, block: u32) -> Expect {
    Expect { store: None, epoch: Some(0), at: Some((zone, block)) }
}

/// The superblocks in `zones` of a drive: the newest of each, or `all` of them.
///
/// # Errors
/// `Format` for a version that is not read; or the loss of the drive.
pub(crate) async fn tips_of(dev: &Rc<dyn ZonedDevice>, zones: [&ZoneInfo; 2], all: bool) -> Result<Tips> {
    let (mut tips, mut hiding) = (Tips::default(), Vec::new());
    for (which, zone) in zones.into_iter().enumerate() {
        let end = zone.written.0 as u32;
        let last = if all || end == 0 { None } else { last_in(dev, which, zone.zone, end).await? };
        match last {
            Some(tip) => tips.found.push(tip),
            None => {
                let (found, hidden) = walk(dev, which, zone.zone, end, all).await?;
                tips.found.extend(found);
                hiding.extend(hidden.then_some(which));
            }
        }
    }
    tips.found.sort_by_key(|tip| tip.generation);
    // A zone is gone on with only as long as it has the newest: all of the other one is older.
    let newest = tips.found.last().map(|tip| tip.which);
    tips.hidden = hiding.into_iter().any(|zone| newest == Some(zone) || tips.found.iter().all(|tip| tip.which != zone));
    Ok(tips)
}

/// The superblock that the trailer in a zone's last block names.
async fn last_in(dev: &Rc<dyn ZonedDevice>, which: usize, zone: ZoneId, end: u32) -> Result<Option<Tip>> {
    let Read::Bytes(last) = read(dev, zone, end - 1, 1).await? else { return Ok(None) };
    let Ok(trailer) = Header::decode(&last, &expect(zone, end - 1)) else { return Ok(None) };
    let Some(Trailer { start }) = Trailer::decode(&trailer) else { return Ok(None) };
    let Read::Bytes(bytes) = read(dev, zone, start, u64::from(end - 1 - start)).await? else { return Ok(None) };
    let Ok(header) = Header::decode(&bytes, &expect(zone, start)) else { return Ok(None) };
    if header.sequence != trailer.sequence || header.blocks().0 != u64::from(end - 1 - start) {
        return Ok(None);
    }
    let found = tip(which, &header, &bytes)?.map(|(tip, _)| tip);
    let Some(found) = found else { return Ok(None) };
    let first = if start == 0 { Some(header) } else { header_at(dev, zone, 0).await? };
    // Older than the zone's first, or another array's: a former life of the zone wrote it, and the host writes over zones in
    // place. (AS-SB-6)
    let is_of_it = |first: &Header| first.sequence <= found.generation && first.place.store == found.array;
    Ok(first.filter(is_of_it).map(|_| found))
}

/// The record at a block. Sequence numbers of pieces, superblocks and trailers alike are generations.
async fn header_at(dev: &Rc<dyn ZonedDevice>, zone: ZoneId, block: u32) -> Result<Option<Header>> {
    let Read::Bytes(bytes) = read(dev, zone, block, 1).await? else { return Ok(None) };
    Ok(Header::decode(&bytes, &expect(zone, block)).ok())
}

/// Goes from record to record. Returns true if something behind the last superblock could not be read.
async fn walk(dev: &Rc<dyn ZonedDevice>, which: usize, zone: ZoneId, end: u32, all: bool) -> Result<(Vec<Tip>, bool)> {
    let mut headers = Vec::new();
    let (mut block, mut unreadable, mut failed, mut reached, mut array) = (0, None, 0, 0, None);
    while block < end {
        if failed == UNREADABLE_MAX {
            unreadable = Some(end);
            break;
        }
        let header = match read(dev, zone, block, 1).await? {
            Read::Bytes(bytes) => Header::decode(&bytes, &expect(zone, block)).ok(),
            Read::Unreadable => {
                unreadable = Some(block);
                failed += 1;
                None
            }
        };
        // Generations grow along a zone, of one array: a record of which that is not true is of a former life. (AS-SB-6)
        let is_of_it =
            |header: &Header| header.sequence >= reached && array.is_none_or(|array| array == header.place.store);
        let header = header.filter(is_of_it);
        let blocks = header.as_ref().map_or(1, |header| header.blocks().0.min(u64::from(end)) as u32).max(1);
        block = block.saturating_add(blocks);
        reached = header.as_ref().map_or(reached, |header| header.sequence);
        array = array.or(header.as_ref().map(|header| header.place.store));
        headers.extend(header.filter(|header| header.kind == SUPERBLOCK && block <= end));
    }
    let (mut tips, mut failed) = (Vec::new(), 0);
    // The newest that verifies; what is torn lies behind it.
    while let Some(header) = headers.pop() {
        let place = header.place;
        if failed == UNREADABLE_MAX {
            break;
        }
        match read(dev, zone, place.block, header.blocks().0).await? {
            Read::Bytes(bytes) => tips.extend(tip(which, &header, &bytes)?.map(|(tip, _)| tip)),
            Read::Unreadable => {
                unreadable = unreadable.max(Some(place.block));
                failed += 1;
            }
        }
        if !all && !tips.is_empty() {
            break;
        }
    }
    let newest = tips.first().map(|tip| tip.block);
    Ok((tips, unreadable > newest))
}

/// A record as a superblock, if it is whole.
fn tip(which: usize, header: &Header, bytes: &[u8]) -> Result<Option<(Tip, Update)>> {
    if header.kind != SUPERBLOCK || header.form != Form::Plain || header.verify_payload(bytes).is_err() {
        return Ok(None);
    }
    let payload = bytes.get(HEADER_SIZE..HEADER_SIZE + header.length as usize).unwrap_or_default();
    let update = Update::decode(payload).map_err(|version| {
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
    let Some(update) = update else { return Ok(None) };
    let [d0, d1, d2, d3, d4, d5, d6, d7, number, ..] = header.info;
    let drive_id = u64::from_le_bytes([d0, d1, d2, d3, d4, d5, d6, d7]);
    let Superblock { array, generation, drives, .. } = &update.superblock;
    let fits = *array == header.place.store
        && *generation == header.sequence
        && drives.get(usize::from(number)).is_some_and(|entry| entry.id == drive_id)
        && update.base.is_none_or(|base| base.block <= header.place.block);
    let tip = Tip {
        which,
        generation: *generation,
        array: *array,
        drive_id,
        zone: header.place.zone,
        block: header.place.block,
        blocks: header.blocks().0 as u32,
        base: update.base,
    };
    Ok(fits.then_some((tip, update)))
}

/// A superblock with all that it builds on. `None` if something of that cannot be read, or is not what should be there.
/// (AS-SB-3)
///
/// # Errors
/// The loss of the drive.
pub(crate) async fn load(dev: &Rc<dyn ZonedDevice>, tip: &Tip) -> Result<Option<Superblock>> {
    let end = tip.block + tip.blocks;
    let mut assembly = Assembly::of(tip.base);
    let mut block = tip.base.map_or(tip.block, |base| base.block);
    let (mut ahead, mut from) = (Bytes::new(), block);
    while block < end {
        let left = u64::from(end - block);
        let held =
            |ahead: &Bytes, from: u32| ahead.get((block - from) as usize * BLOCK_SIZE..).unwrap_or_default().len();
        let mut wanted = 1;
        // Once for its header, and again where its end lies behind what was read.
        let header = loop {
            if held(&ahead, from) < wanted as usize * BLOCK_SIZE {
                let Read::Bytes(bytes) = read(dev, tip.zone, block, left.min(AHEAD.max(wanted))).await? else {
                    return Ok(None);
                };
                (ahead, from) = (bytes, block);
            }
            let bytes = ahead.get((block - from) as usize * BLOCK_SIZE..).unwrap_or_default();
            let Ok(header) = Header::decode(bytes, &expect(tip.zone, block)) else { return Ok(None) };
            if header.blocks().0 > left {
                return Ok(None);
            }
            if header.blocks().0 <= wanted || bytes.len() as u64 >= header.blocks().bytes() {
                break header;
            }
            wanted = header.blocks().0;
        };
        let bytes = ahead.get((block - from) as usize * BLOCK_SIZE..).unwrap_or_default();
        if header.place.store != tip.array || header.form != Form::Plain || header.verify_payload(bytes).is_err() {
            return Ok(None);
        }
        let payload = bytes.get(HEADER_SIZE..HEADER_SIZE + header.length as usize).unwrap_or_default();
        let taken = match header.kind {
            SUPERBLOCK_PIECE => {
                let [n0, n1, n2, n3, ..] = header.info;
                assembly.piece(header.sequence, u32::from_le_bytes([n0, n1, n2, n3]), payload)
            }
            // Trailers say nothing here.
            SUPERBLOCK => match Update::decode(payload) {
                Ok(Some(update)) => assembly.update(update),
                _ => None,
            },
            _ => Trailer::decode(&header).map(|_| ()),
        };
        if taken.is_none() {
            return Ok(None);
        }
        block += header.blocks().0 as u32;
    }
    Ok(assembly.end().filter(|superblock| superblock.generation == tip.generation))
}
