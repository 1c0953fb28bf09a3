//! Owner of a drive, and its fitness for a store: the superblock, compared with the drive.

use std::rc::Rc;

use shingle_base::{BLOCK_SIZE, Blocks, StoreId};
use shingle_record::{EngineName, MetaLogConfig, NotOwned, Owned, read_owner, room_for_checkpoint};
use shingle_zoned::{Geometry, ZonedDevice};

use crate::drive::Layout;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{ENGINE, Superblock, VERSION, zone_table_bytes};
use crate::index::ZONE_BLOCKS_MAX;

/// The kind that heads of metazones carry.
pub(super) const META_ZONE_KIND: u16 = 0x0001;

const NAME: EngineName = EngineName {
    engine: ENGINE,
    versions: VERSION..=VERSION,
    store: "a chunk store",
    none: "the drive holds no chunk store: format it first (`shingle chunk format`)",
    other: "the drive holds a store of another engine, not a chunk store",
};

/// Owner of the drive.
pub(super) struct Identity {
    pub(super) store: StoreId,
    pub(super) layout: Layout,
    /// Copies of the superblock that are not good.
    pub(super) bad_copies: Vec<u32>,
}

/// Reads the superblock, and holds it against the drive.
pub(crate) async fn read_identity(dev: &Rc<dyn ZonedDevice>) -> Result<(StoreId, Layout)> {
    identity(dev).await.map(|identity| (identity.store, identity.layout))
}

pub(super) async fn identity(dev: &Rc<dyn ZonedDevice>) -> Result<Identity> {
    let geometry = dev.geometry();
    let Owned { superblock: found, bad_copies, .. } = read_owner(dev, &NAME).await.map_err(|error| {
        let kind = match &error {
            NotOwned::Corrupt(_) => ErrorKind::Corrupt,
            NotOwned::Device(_) => ErrorKind::Device,
            _ => ErrorKind::Format,
        };
        Error::new(kind, error.to_string()).caused_by(error)
    })?;
    let format = |text: String| Err(Error::new(ErrorKind::Format, text));
    let Some(block) = Superblock::decode(&found.payload) else {
        return Err(Error::new(ErrorKind::Corrupt, "the superblock makes no sense"));
    };
    if block.zone_size != geometry.zone_size.0 || block.zone_count != geometry.zone_count {
        return format(format!(
            "the store was made on a drive of {} zones of {} bytes, but this one has {} of {}",
            block.zone_count,
            block.zone_size.saturating_mul(BLOCK_SIZE as u64),
            geometry.zone_count,
            geometry.zone_size.bytes(),
        ));
    }
    Ok(Identity { store: found.store, layout: Layout::new(geometry, block.metazones)?, bad_copies })
}

/// The metadata log of a store.
pub(crate) fn log_config(store: StoreId, layout: &Layout, read_depth: u32) -> MetaLogConfig {
    MetaLogConfig { store, zones: layout.metazones.clone(), zone_kind: META_ZONE_KIND, read_depth }
}

pub(super) fn check_limits(geometry: &Geometry) -> Result<()> {
    let limits = [geometry.open_zones_max, geometry.active_zones_max];
    // One metazone, and a zone of each stream for callers and for GC (CS-LEASE-1).
    let least = 7;
    if limits.into_iter().flatten().any(|limit| limit < least) {
        let text = format!("the drive allows too few open or active zones; a chunk store needs {least}");
        return Err(Error::new(ErrorKind::Format, text));
    }
    if geometry.zone_capacity < Blocks(16) || geometry.zone_capacity.0 > ZONE_BLOCKS_MAX {
        return Err(Error::new(ErrorKind::Format, "the drive's zones are smaller than 64 KiB or larger than 4 TiB"));
    }
    Ok(())
}

/// Refuses a layout whose zone table can never be in a checkpoint: such a store would work until the first one.
pub(super) fn check_table_fits(geometry: &Geometry, layout: &Layout) -> Result<()> {
    let (zones, capacity) = (layout.metazones.len() as u64, geometry.zone_capacity.0 as u32);
    if room_for_checkpoint(zones, capacity, zone_table_bytes(layout.data_zones.len())) {
        return Ok(());
    }
    let text = format!(
        "{zones} metazones cannot hold a checkpoint of a drive with {} zones; format it with more metazones",
        geometry.zone_count
    );
    Err(Error::new(ErrorKind::Format, text))
}
