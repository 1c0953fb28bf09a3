//! The superblock: identifies the store on a drive; written to the superzone when it is formatted. (SMRstore, section
//! 5.2.)
//!
//! Written as two copies, so that one bad block does not cost the store; whichever is good counts.
//!
//! # Invariants
//! - RC-SB-1: the second copy is written once the first is durable. A bad first copy without a second is therefore left by a
//!   format that was cut short, and never by a store. `a_cut_of_the_first_format_leaves_a_drive_without_a_store`.

use std::fmt;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, StoreId, ZoneId};
use shingle_runtime::UnixTime;
use shingle_zoned::{DeviceError, Violation, ZoneOp, ZonedDevice, read_patiently};

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

/// Resets `zone` and writes both copies. Durable when it returns.
///
/// # Errors
/// The device's.
///
/// # Panics
/// If the payload is longer than [`SUPERBLOCK_PAYLOAD_MAX`]: a bug of the engine.
pub async fn write_superblock(
    dev: &Rc<dyn ZonedDevice>,
    zone: ZoneId,
    superblock: &Superblock,
) -> Result<(), DeviceError> {
    assert!(superblock.payload.len() <= SUPERBLOCK_PAYLOAD_MAX, "a superblock is one block");
    dev.manage(zone, ZoneOp::Reset).await?;
    for block in 0..2 {
        let at = dev.geometry().start_of(zone) + Blocks(u64::from(block));
        dev.write(at, vec![superblock.frame(zone, block)]).await?;
        if dev.geometry().volatile_cache {
            dev.flush().await?;
        }
    }
    Ok(())
}

/// Reads the superblock of the store on the drive: the first good copy.
///
/// # Errors
/// The reason why there is none. A drive that fails to read may hold one.
pub async fn read_superblock(dev: &Rc<dyn ZonedDevice>, zone: ZoneId) -> Result<Superblock, SuperblockError> {
    read_superblock_copies(dev, zone).await.map(|(superblock, _)| superblock)
}

/// Reads both copies of the superblock: the first good one, and the blocks of those that are not.
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
