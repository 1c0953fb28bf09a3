//! The superblock: identifies the store on a drive; written to the superzone when it is formatted. (SMRstore, section
//! 5.2.)
//!
//! Written as two copies, so that one bad block does not cost the store; whichever is good counts. An engine may have both of them a second
//! time in the next zone, so that a zone does not cost the store either. (Dissertation, section 5.4.2: two zones of superblocks.)
//!
//! # Invariants
//! - RC-SB-1: the second copy is written once the first is durable. A bad first copy without a second is therefore left by a
//!   format that was cut short, and never by a store. `a_cut_of_the_first_format_leaves_a_drive_without_a_store`.
//! - RC-SB-2: a format empties the second zone of superblocks before it writes the first, whatever its engine, and writes the second once the
//!   first is durable. A superblock in the second zone is therefore that of the store, whatever the first one holds.
//!   `a_second_zone_is_of_the_store_or_empty`.
//! - RC-SB-3: a drive holds no store only if both zones can be read, and none has a superblock. `what_cannot_be_read_is_not_taken_for_none`.

use std::fmt;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, StoreId, ZoneId};
use shingle_runtime::UnixTime;
use shingle_zoned::{DeviceError, Violation, ZoneOp, ZoneState, ZonedDevice, read_patiently, report_patiently};

use crate::frame::frame;
use crate::header::{Expect, Form, FrameError, HEADER_SIZE, Header, INFO_SIZE, RecordPlace, RecordType};

/// The type of superblocks.
pub const SUPERBLOCK: RecordType = RecordType(2);

/// The most an engine may keep in a superblock: it is one block.
pub const SUPERBLOCK_PAYLOAD_MAX: usize = 4096 - HEADER_SIZE;

/// A superblock. Its record's `info` is engine (4 bytes), version (4), time (8); its payload is the engine's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The store's identity.
    pub store: StoreId,
    /// Engine of the store.
    pub engine: u32,
    /// The version of the engine's formats.
    pub version: u32,
    /// When the drive was formatted.
    pub formatted: UnixTime,
    /// The engine's own bytes.
    pub payload: Bytes,
}

/// A superblock as it was found.
#[derive(Clone, Debug)]
pub struct FoundSuperblock {
    /// The first good copy.
    pub superblock: Superblock,
    /// The zone that has it: the first, or the second if the first has none.
    pub zone: ZoneId,
    /// Blocks of that zone whose copy is not good.
    pub bad_copies: Vec<u32>,
}

/// Reason why a drive has no superblock that can be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum SuperblockError {
    /// The drive holds no store.
    NotFormatted,
    /// The store was made by a later version; the number is its version.
    NewerVersion(u32),
    /// There is a copy at least, and none passes its check.
    Corrupt,
    /// The drive failed the command.
    Device(DeviceError),
}

impl fmt::Display for SuperblockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFormatted => f.write_str("the drive holds no store"),
            Self::NewerVersion(version) => {
                write!(
                    f,
                    "the store has format version {version}, which this version of Shingle does not read: use a newer one"
                )
            }
            Self::Corrupt => f.write_str("no copy of the superblock is good"),
            Self::Device(error) => write!(f, "the superblock cannot be read: {error}"),
        }
    }
}

impl std::error::Error for SuperblockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            _ => None,
        }
    }
}

impl Superblock {
    /// The superblock's record, for its copy at `block`.
    fn frame(&self, zone: ZoneId, block: u32) -> Bytes {
        let mut info = [0; INFO_SIZE];
        info[..4].copy_from_slice(&self.engine.to_le_bytes());
        info[4..8].copy_from_slice(&self.version.to_le_bytes());
        info[8..16].copy_from_slice(&self.formatted.nanos.to_le_bytes());
        let place = RecordPlace { store: self.store, epoch: 0, zone, block };
        frame(SUPERBLOCK, &place, 0, info, &[&self.payload])
    }

    /// Reads a superblock off one copy.
    ///
    /// # Errors
    /// As [`Header::decode`]; `NotARecord` for a record of another type.
    pub fn parse(bytes: &[u8], zone: ZoneId, block: u32) -> Result<Self, FrameError> {
        let header = Header::decode(bytes, &Expect { at: Some((zone, block)), ..Expect::default() })?;
        header.verify_payload(bytes)?;
        if header.kind != SUPERBLOCK || header.form != Form::Plain {
            return Err(FrameError::NotARecord);
        }
        let payload = bytes.get(HEADER_SIZE..HEADER_SIZE + header.length as usize).ok_or(FrameError::NotARecord)?;
        let [e0, e1, e2, e3, v0, v1, v2, v3, t0, t1, t2, t3, t4, t5, t6, t7, ..] = header.info;
        Ok(Self {
            store: header.place.store,
            engine: u32::from_le_bytes([e0, e1, e2, e3]),
            version: u32::from_le_bytes([v0, v1, v2, v3]),
            formatted: UnixTime { nanos: u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]) },
            payload: Bytes::copy_from_slice(payload),
        })
    }
}

/// The second zone of superblocks.
fn second(dev: &Rc<dyn ZonedDevice>, zone: ZoneId) -> Option<ZoneId> {
    zone.0.checked_add(1).filter(|&next| next < dev.geometry().zone_count).map(ZoneId)
}

/// The place of the superblock on a drive that is being formatted: no earlier store's is in the next zone any more. (RC-SB-2)
#[must_use]
pub struct SuperblockPlace {
    dev: Rc<dyn ZonedDevice>,
    zone: ZoneId,
}

impl SuperblockPlace {
    /// If an earlier store has left a superblock in the zone behind `zone`, or that cannot be read, it is reset. To be called before a format writes
    /// anything there.
    ///
    /// # Errors
    /// The device's; also if the next zone can neither be read nor reset, and is not offline.
    pub async fn prepare(dev: &Rc<dyn ZonedDevice>, zone: ZoneId) -> Result<Self, DeviceError> {
        if let Some(second) = second(dev, zone)
            && may_hold_superblock(dev, second).await
        {
            emptied(dev, second).await?;
        }
        Ok(Self { dev: dev.clone(), zone })
    }

    /// Makes the drive that of `superblock`'s store: resets the zone and writes both copies. Durable when it returns.
    ///
    /// # Errors
    /// The device's.
    ///
    /// # Panics
    /// If the payload is longer than [`SUPERBLOCK_PAYLOAD_MAX`]: a bug of the engine.
    pub async fn write(self, superblock: &Superblock) -> Result<(), DeviceError> {
        write_superblock_zone(&self.dev, self.zone, superblock).await
    }
}

/// Prepares the place of a superblock, and writes it there: for a format that writes nothing before it.
///
/// # Errors
/// As [`SuperblockPlace::prepare`].
///
/// # Panics
/// As [`SuperblockPlace::write`].
pub async fn write_superblock(
    dev: &Rc<dyn ZonedDevice>,
    zone: ZoneId,
    superblock: &Superblock,
) -> Result<(), DeviceError> {
    SuperblockPlace::prepare(dev, zone).await?.write(superblock).await
}

/// As [`write_superblock`], with two more copies in the next zone. If that can be written no more, and holds no superblock, the first zone
/// has to do. Returns the zones that were written.
///
/// # Errors
/// The device's.
///
/// # Panics
/// As [`write_superblock`].
pub async fn write_superblock_pair(
    dev: &Rc<dyn ZonedDevice>,
    zone: ZoneId,
    superblock: &Superblock,
) -> Result<Vec<ZoneId>, DeviceError> {
    let mut written = vec![zone];
    // RC-SB-2.
    let emptied = match second(dev, zone) {
        Some(second) => emptied(dev, second).await?.then_some(second),
        None => None,
    };
    write_superblock_zone(dev, zone, superblock).await?;
    if let Some(second) = emptied {
        match write_superblock_zone(dev, second, superblock).await {
            Ok(()) => written.push(second),
            Err(error) => match state_of(dev, second).await {
                Some(ZoneState::ReadOnly | ZoneState::Offline) => {}
                _ => return Err(error),
            },
        }
    }
    Ok(written)
}

/// Resets a zone of superblocks. False if it can be written no more, and holds none.
async fn emptied(dev: &Rc<dyn ZonedDevice>, zone: ZoneId) -> Result<bool, DeviceError> {
    let Err(error) = dev.manage(zone, ZoneOp::Reset).await else {
        flush(dev).await?;
        return Ok(true);
    };
    let holds_none = match state_of(dev, zone).await {
        Some(ZoneState::Offline) => true,
        Some(ZoneState::ReadOnly) => {
            let copies = read_superblock_copies(dev, zone).await;
            matches!(copies, Err(SuperblockError::NotFormatted | SuperblockError::Corrupt))
        }
        _ => false,
    };
    if holds_none { Ok(false) } else { Err(error) }
}

async fn state_of(dev: &Rc<dyn ZonedDevice>, zone: ZoneId) -> Option<ZoneState> {
    let report = report_patiently(dev, zone, 1).await.ok()?;
    report.first().map(|info| info.state)
}

/// True if a zone has a copy of a superblock that somebody might take for his, now or when it can be read again.
async fn may_hold_superblock(dev: &Rc<dyn ZonedDevice>, zone: ZoneId) -> bool {
    let copies = read_superblock_copies(dev, zone).await;
    matches!(copies, Ok(_) | Err(SuperblockError::NewerVersion(_) | SuperblockError::Device(_)))
}

/// Resets `zone` and writes both copies there, whatever the other zone has: the engine knows that it may be done. Durable when it returns.
///
/// # Errors
/// The device's.
///
/// # Panics
/// As [`write_superblock`].
pub async fn write_superblock_zone(
    dev: &Rc<dyn ZonedDevice>,
    zone: ZoneId,
    superblock: &Superblock,
) -> Result<(), DeviceError> {
    assert!(superblock.payload.len() <= SUPERBLOCK_PAYLOAD_MAX, "a superblock is one block");
    dev.manage(zone, ZoneOp::Reset).await?;
    for block in 0..2 {
        let at = dev.geometry().start_of(zone) + Blocks(u64::from(block));
        dev.write(at, vec![superblock.frame(zone, block)]).await?;
        flush(dev).await?;
    }
    Ok(())
}

async fn flush(dev: &Rc<dyn ZonedDevice>) -> Result<(), DeviceError> {
    if dev.geometry().volatile_cache { dev.flush().await } else { Ok(()) }
}

/// Reads the superblock of the store on the drive: the first good copy, in `zone` or in the next.
///
/// # Errors
/// The reason why there is none. A drive that fails to read may hold one.
pub async fn read_superblock(dev: &Rc<dyn ZonedDevice>, zone: ZoneId) -> Result<Superblock, SuperblockError> {
    find_superblock(dev, zone).await.map(|found| found.superblock)
}

/// As [`read_superblock`], and tells where it was.
///
/// # Errors
/// As [`read_superblock`].
pub async fn find_superblock(dev: &Rc<dyn ZonedDevice>, zone: ZoneId) -> Result<FoundSuperblock, SuperblockError> {
    let found = |(superblock, bad_copies), zone| FoundSuperblock { superblock, zone, bad_copies };
    let first = match read_superblock_copies(dev, zone).await {
        Ok(copies) => return Ok(found(copies, zone)),
        Err(error) => error,
    };
    let Some(second) = second(dev, zone) else { return Err(first) };
    match read_superblock_copies(dev, second).await {
        Ok(copies) => Ok(found(copies, second)),
        // RC-SB-3. Bytes that are no superblock may be anything of a store that has one zone of superblocks.
        Err(error @ (SuperblockError::Device(_) | SuperblockError::NewerVersion(_)))
            if rank(&first) <= rank(&SuperblockError::Corrupt) =>
        {
            Err(error)
        }
        Err(_) => Err(first),
    }
}

/// Reads both copies of the superblock in a zone: the first good one, and the blocks of those that are not.
///
/// # Errors
/// As [`read_superblock`].
pub async fn read_superblock_copies(
    dev: &Rc<dyn ZonedDevice>,
    zone: ZoneId,
) -> Result<(Superblock, Vec<u32>), SuperblockError> {
    let (mut found, mut bad) = (None, Vec::new());
    let mut worst = SuperblockError::NotFormatted;
    for block in 0..2 {
        match read_copy(dev, zone, block).await {
            Ok(Some(superblock)) => found = found.or(Some(superblock)),
            Ok(None) => {
                bad.push(block);
                // RC-SB-1.
                if matches!(worst, SuperblockError::Corrupt) {
                    worst = SuperblockError::NotFormatted;
                }
            }
            Err(error) => {
                bad.push(block);
                // A copy that cannot be read may be good, and a bad one may be that of any version.
                if rank(&error) > rank(&worst) {
                    worst = error;
                }
            }
        }
    }
    found.map(|superblock| (superblock, bad)).ok_or(worst)
}

/// Rank of a copy's error: the one that tells more about the drive counts.
fn rank(error: &SuperblockError) -> u8 {
    match error {
        SuperblockError::NotFormatted => 0,
        SuperblockError::Corrupt => 1,
        SuperblockError::NewerVersion(_) => 2,
        SuperblockError::Device(_) => 3,
    }
}

/// One copy; `None` if it was not written.
async fn read_copy(dev: &Rc<dyn ZonedDevice>, zone: ZoneId, block: u32) -> Result<Option<Superblock>, SuperblockError> {
    let at = dev.geometry().start_of(zone) + Blocks(u64::from(block));
    let bytes = match read_patiently(dev, at, Blocks(1)).await {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.violation(), Some(Violation::PastWritePointer { .. })) => {
            return Ok(None);
        }
        Err(error) => return Err(SuperblockError::Device(error)),
    };
    Superblock::parse(&bytes, zone, block).map(Some).map_err(|error| match error {
        FrameError::NewerVersion([tens, ones]) => {
            let digit = |byte: u8| u32::from(byte.wrapping_sub(b'0'));
            SuperblockError::NewerVersion(digit(tens) * 10 + digit(ones))
        }
        FrameError::NotARecord => SuperblockError::NotFormatted,
        _ => SuperblockError::Corrupt,
    })
}
