//! Contents of a drive, by its superblock or by the marks of others.

use std::fmt;
use std::rc::Rc;

use shingle_array_store::ArrayDrive;
use shingle_base::{ByteSize, StoreId, ZoneId};
use shingle_record::SuperblockError;
use shingle_runtime::{Runtime, UnixTime};
use shingle_translation::{Identified, Volume};
use shingle_zoned::{FileDevice, Geometry, ZonedDevice};
use shingle_zoned_linux::{Drive, KernelDevice, Peek, ZonedModel};

/// Contents of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A chunk store.
    ChunkStore {
        /// Its identity.
        store: StoreId,
        /// When it was made.
        formatted: UnixTime,
    },
    /// A volume of a translation layer.
    Volume {
        /// Its identity.
        store: StoreId,
        /// When it was made.
        formatted: UnixTime,
        /// Its size.
        size_bytes: u64,
        /// Bytes of a sector.
        sector_bytes: u64,
    },
    /// A table of partitions: each is a drive of its own.
    Partitions(StoreId),
    /// Files of databases.
    Files {
        /// Their identity.
        store: StoreId,
        /// When they were made.
        formatted: UnixTime,
    },
    /// Buckets and objects of a blue store.
    Blue {
        /// Its identity.
        store: StoreId,
        /// When it was made.
        formatted: UnixTime,
    },
    /// One of the drives of an array; the array's identity.
    Array(StoreId),
    /// A store of an engine that this version does not know; its number.
    OtherEngine(u32),
    /// A store of a newer version; the version's number.
    Newer(u32),
    /// A store whose superblock is damaged in both copies.
    Damaged,
    /// A file system, partition table or the like.
    Foreign(String),
    /// Nothing that is known.
    Nothing,
    /// The drive could not be looked at, for this reason.
    Unknown(String),
}

impl Content {
    /// The identity of the store.
    pub fn store(&self) -> Option<StoreId> {
        match self {
            Self::ChunkStore { store, .. }
            | Self::Volume { store, .. }
            | Self::Files { store, .. }
            | Self::Blue { store, .. } => Some(*store),
            _ => None,
        }
    }

    /// One word, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ChunkStore { .. } => "chunk-store",
            Self::Volume { .. } => "volume",
            Self::Partitions(_) => "partitions",
            Self::Files { .. } => "files",
            Self::Blue { .. } => "blue",
            Self::Array(_) => "array",
            Self::OtherEngine(_) => "other-engine",
            Self::Newer(_) => "newer-store",
            Self::Damaged => "damaged-store",
            Self::Foreign(_) => "foreign",
            Self::Nothing => "nothing",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChunkStore { store, .. } => write!(f, "chunk store {store}"),
            Self::Volume { store, size_bytes, .. } => write!(f, "volume {store} of {}", ByteSize(*size_bytes)),
            Self::Partitions(_) => f.write_str("partitions"),
            Self::Files { store, .. } => write!(f, "files {store}"),
            Self::Blue { store, .. } => write!(f, "blue store {store}"),
            Self::Array(array) => write!(f, "drive of array {array}"),
            Self::OtherEngine(engine) => write!(f, "store of an unknown engine ({engine:08x})"),
            Self::Newer(version) => write!(f, "store of a newer version ({version})"),
            Self::Damaged => f.write_str("store with a damaged superblock"),
            Self::Foreign(what) => f.write_str(what),
            Self::Nothing => f.write_str("nothing"),
            Self::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}

/// Contents of zones: stores begin in the first sequential one.
pub(crate) async fn of_zones(device: &Rc<dyn ZonedDevice>) -> Content {
    let geometry = device.geometry();
    if geometry.conventional_zones >= geometry.zone_count {
        return Content::Nothing;
    }
    match shingle_record::read_superblock(device, ZoneId(geometry.conventional_zones)).await {
        Ok(found) if found.engine == shingle_chunk_store::ENGINE => {
            Content::ChunkStore { store: found.store, formatted: found.formatted }
        }
        Ok(found) if found.engine == shingle_partitions::ENGINE => Content::Partitions(found.store),
        Ok(found) if found.engine == shingle_translation::ENGINE => match Volume::identify(device).await {
            Ok(Identified { store, size_bytes, sector_bytes }) => {
                Content::Volume { store, formatted: found.formatted, size_bytes, sector_bytes }
            }
            Err(error) => Content::Unknown(error.message),
        },
        Ok(found) if found.engine == shingle_zone_files::ENGINE => {
            Content::Files { store: found.store, formatted: found.formatted }
        }
        Ok(found) if found.engine == shingle_blue_store::ENGINE => {
            Content::Blue { store: found.store, formatted: found.formatted }
        }
        Ok(found) => Content::OtherEngine(found.engine),
        Err(error @ (SuperblockError::NotFormatted | SuperblockError::Device(_))) => {
            // The caller names the drive in messages.
            let drive = ArrayDrive { name: "the drive".to_owned(), dev: device.clone() };
            match (shingle_array_store::array_of(&drive).await, error) {
                // One of an array's two superblock zones is enough, too.
                (Ok(Some(array)), _) => Content::Array(array),
                (Ok(None), SuperblockError::NotFormatted) => Content::Nothing,
                (Ok(None), error) => Content::Unknown(error.to_string()),
                (Err(error), _) => Content::Unknown(error.to_string()),
            }
        }
        Err(SuperblockError::NewerVersion(version)) => Content::Newer(version),
        Err(SuperblockError::Corrupt) => Content::Damaged,
        Err(error) => Content::Unknown(error.to_string()),
    }
}

/// The shape of a block device, true if that is emulated, and its contents.
pub(crate) async fn of_block_device(runtime: &Runtime, drive: &Drive) -> (Option<Geometry>, bool, Content) {
    if drive.zoned == ZonedModel::None {
        return of_ordinary(runtime, drive).await;
    }
    match KernelDevice::peek(&drive.node, runtime) {
        Ok(Peek { device, foreign, .. }) => {
            let device: Rc<dyn ZonedDevice> = Rc::new(device);
            let content = match (of_zones(&device).await, foreign) {
                (Content::Nothing, Some(what)) => Content::Foreign(what.to_owned()),
                (content, _) => content,
            };
            (Some(device.geometry().clone()), false, content)
        }
        Err(error) => (None, false, Content::Unknown(error.to_string())),
    }
}

async fn of_ordinary(runtime: &Runtime, drive: &Drive) -> (Option<Geometry>, bool, Content) {
    if let Ok(device) = FileDevice::peek(&drive.node, runtime) {
        let device: Rc<dyn ZonedDevice> = Rc::new(device);
        return (Some(device.geometry().clone()), true, of_zones(&device).await);
    }
    let content = match (drive.mounts.first(), drive.partitions.is_empty()) {
        (Some(_), _) => Content::Foreign("a file system or swap space".to_owned()),
        (None, false) => Content::Foreign(format!("partitions {}", drive.partitions.join(", "))),
        (None, true) => match shingle_zoned_linux::foreign_on_ordinary(drive) {
            Ok(Some(what)) => Content::Foreign(what.to_owned()),
            Ok(None) => Content::Nothing,
            Err(error) => Content::Unknown(error.to_string()),
        },
    };
    (None, false, content)
}
