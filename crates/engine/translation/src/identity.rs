//! Owner of a drive: the superblock, held against the drive.

use std::rc::Rc;

use shingle_base::StoreId;
use shingle_record::{EngineName, MetaLogConfig, MetaLogError, NotOwned, Owned, read_owner};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use shingle_zoned::ZonedDevice;

use crate::format::{ENGINE, META_ZONE_KIND, OLDEST_VERSION, Superblock, VERSION};
use crate::layout::Layout;

const NAME: EngineName = EngineName {
    engine: ENGINE,
    versions: OLDEST_VERSION..=VERSION,
    store: "a volume",
    none: "the drive holds no volume: make one first (`shingle volume create`)",
    other: "the drive holds a store of another engine, not a volume",
};

/// Owner of a drive.
pub(crate) struct Identity {
    pub(crate) store: StoreId,
    pub(crate) layout: Layout,
    /// Blocks of the superzone whose copy of the superblock is not good.
    pub(crate) bad_copies: Vec<u32>,
}

/// Reads the superblock, and holds it against the drive.
pub(crate) async fn identity(dev: &Rc<dyn ZonedDevice>) -> StoreResult<Identity> {
    let Owned { superblock: found, bad_copies, .. } = read_owner(dev, &NAME).await.map_err(|error| {
        let kind = match &error {
            NotOwned::Corrupt(_) => StoreErrorKind::Corrupt,
            NotOwned::Device(_) => StoreErrorKind::Device,
            _ => StoreErrorKind::Invalid,
        };
        StoreError::caused(kind, error.to_string(), error)
    })?;
    let block = Superblock::decode(&found.payload);
    let block = block.ok_or_else(|| StoreError::new(StoreErrorKind::Corrupt, "the superblock makes no sense"))?;
    Ok(Identity { store: found.store, layout: Layout::of(dev.geometry(), &block)?, bad_copies })
}

/// The metadata log of a volume.
pub(crate) fn log_config(store: StoreId, layout: &Layout, read_depth: u32) -> MetaLogConfig {
    MetaLogConfig { store, zones: layout.metazones.clone(), zone_kind: META_ZONE_KIND, read_depth }
}

/// A log's error, as callers of a volume see it.
pub(crate) fn log_error(error: MetaLogError) -> StoreError {
    let kind = match error {
        MetaLogError::Damaged { .. } | MetaLogError::NoCheckpoint => StoreErrorKind::Corrupt,
        MetaLogError::Stopped => StoreErrorKind::Unavailable,
        _ => StoreErrorKind::Device,
    };
    StoreError::caused(kind, error.to_string(), error)
}
