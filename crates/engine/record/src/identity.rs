//! Owner of a drive: the superblock, held against an engine; and the refusal to format a drive that somebody may need.
//!
//! **Owns** the words of the refusals. **Knows nothing of** an engine's own bytes.
//!
//! # Invariants
//! - RC-ID-1: a drive that cannot be read, or whose superblock is damaged or of any other engine or version, is neither opened nor
//!   formatted without force.

use std::fmt;
use std::ops::RangeInclusive;
use std::rc::Rc;

use shingle_base::{Blocks, ZoneId};
use shingle_zoned::{DeviceError, ZonedDevice, report_patiently};

use crate::superblock::{FoundSuperblock, Superblock, SuperblockError, find_superblock, read_superblock};

/// An engine, as its superblocks and messages name it.
#[derive(Clone, Debug)]
pub struct EngineName {
    /// The number in its superblocks.
    pub engine: u32,
    /// Versions of its formats that it reads.
    pub versions: RangeInclusive<u32>,
    /// Its store: "a volume".
    pub store: &'static str,
    /// The message for a drive that holds no store: "the drive holds no volume: make one first".
    pub none: &'static str,
    /// The message for a drive that holds a store of another engine.
    pub other: &'static str,
}

/// The store of an engine on a drive.
#[derive(Clone, Debug)]
pub struct Owned {
    /// The superblock. Its version is one that the engine reads.
    pub superblock: Superblock,
    /// The zone that holds it: the first sequential one; or the next, of an engine with two zones of superblocks.
    pub zone: ZoneId,
    /// Blocks of that zone whose copy of the superblock is not good.
    pub bad_copies: Vec<u32>,
}

/// Reason why an engine cannot have a drive. Its words say what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotOwned {
    /// The drive could be read, and holds no store of any engine.
    Blank(&'static str),
    /// A store of another engine or version: another drive, or another engine.
    Other(String),
    /// There is a superblock, and no copy of it is good.
    Corrupt(SuperblockError),
    /// The drive cannot be read, and may hold a store.
    Device(SuperblockError),
}

impl fmt::Display for NotOwned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank(text) => f.write_str(text),
            Self::Other(text) => f.write_str(text),
            Self::Corrupt(error) | Self::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NotOwned {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Blank(_) | Self::Other(_) => None,
            Self::Corrupt(error) | Self::Device(error) => Some(error),
        }
    }
}

/// The store of engine `name` on a drive, by its superblock.
///
/// # Errors
/// The reason why there is none that the engine can have. (RC-ID-1)
pub async fn read_owner(dev: &Rc<dyn ZonedDevice>, name: &EngineName) -> Result<Owned, NotOwned> {
    let geometry = dev.geometry();
    let zone = ZoneId(geometry.conventional_zones);
    if zone.0 >= geometry.zone_count {
        return Err(NotOwned::Other("the drive has no sequential zones".to_owned()));
    }
    let found = find_superblock(dev, zone).await;
    let FoundSuperblock { superblock, zone, bad_copies } = found.map_err(|error| match error {
        SuperblockError::NotFormatted => NotOwned::Blank(name.none),
        SuperblockError::NewerVersion(_) => NotOwned::Other(error.to_string()),
        SuperblockError::Corrupt => NotOwned::Corrupt(error),
        SuperblockError::Device(_) => NotOwned::Device(error),
    })?;
    if superblock.engine != name.engine {
        return Err(NotOwned::Other(name.other.to_owned()));
    }
    if !name.versions.contains(&superblock.version) {
        return Err(NotOwned::Other(other_version(name, superblock.version)));
    }
    Ok(Owned { superblock, zone, bad_copies })
}

fn other_version(name: &EngineName, version: u32) -> String {
    let (oldest, newest) = (name.versions.start(), name.versions.end());
    let reads = if oldest == newest { newest.to_string() } else { format!("{oldest} to {newest}") };
    let next = if version > *newest {
        "use a newer one"
    } else {
        "read it with the version that wrote it, or format the drive anew"
    };
    format!("the drive holds {} of version {version}, and this version of Shingle reads {reads}: {next}", name.store)
}

/// Reason why a drive is not formatted without force.
#[derive(Debug)]
pub enum InUse {
    /// Words for that which the drive holds: "a store".
    Holds(String),
    /// The drive cannot be read, and may hold a store.
    Device(DeviceError),
}

/// Refuses a drive that holds a store, or data in zones from `zone` on, the one for superblocks. (RC-ID-1)
///
/// # Errors
/// As [`InUse`] says.
pub async fn check_unused(dev: &Rc<dyn ZonedDevice>, zone: ZoneId) -> Result<(), InUse> {
    match read_superblock(dev, zone).await {
        Ok(_) | Err(SuperblockError::NewerVersion(_) | SuperblockError::Corrupt) => {
            return Err(InUse::Holds("a store".to_owned()));
        }
        Err(SuperblockError::Device(error)) => return Err(InUse::Device(error)),
        Err(SuperblockError::NotFormatted) => {}
    }
    let infos = report_patiently(dev, zone, u32::MAX).await.map_err(InUse::Device)?;
    let used = infos.iter().filter(|info| info.written > Blocks::ZERO).count();
    if used > 0 {
        return Err(InUse::Holds(format!("no store, but {used} of its zones hold data")));
    }
    Ok(())
}
