//! Owner of a drive: the superblock, held against the drive.

use std::rc::Rc;

use shingle_base::{StoreId, ZoneId};
use shingle_record::{MetaLogConfig, MetaLogError, SuperblockError, read_superblock_copies};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use shingle_zoned::ZonedDevice;

use crate::format::{ENGINE, META_ZONE_KIND, OLDEST_VERSION, Superblock, VERSION};
use crate::layout::Layout;

/// Owner of a drive.
pub(crate) struct Identity {
    pub(crate) store: StoreId,
    pub(crate) layout: Layout,
    /// Blocks of the superzone whose copy of the superblock is not good.
    pub(crate) bad_copies: Vec<u32>,
}

/// Reads the superblock, and holds it against the drive.
pub(crate) async fn identity(dev: &Rc<dyn ZonedDevice>) -> StoreResult<Identity> {
    let geometry = dev.geometry();
    let superzone = ZoneId(geometry.conventional_zones);
    if superzone.0 >= geometry.zone_count {
        return Err(StoreError::new(StoreErrorKind::Invalid, "the drive has no sequential zones"));
    }
    let (found, bad_copies) = read_superblock_copies(dev, superzone).await.map_err(|error| {
        let (kind, text) = match &error {
            SuperblockError::NotFormatted => {
                let text = "the drive holds no volume: make one first (`shingle volume create`)";
                (StoreErrorKind::Invalid, text.to_owned())
            }
            SuperblockError::Corrupt => (StoreErrorKind::Corrupt, error.to_string()),
            SuperblockError::Device(_) => (StoreErrorKind::Device, error.to_string()),
            _ => (StoreErrorKind::Invalid, error.to_string()),
        };
        StoreError::caused(kind, text, error)
    })?;
    let invalid = |text: String| Err(StoreError::new(StoreErrorKind::Invalid, text));
    if found.engine != ENGINE {
        return invalid("the drive holds a store of another engine, not a volume".to_owned());
    }
    if !(OLDEST_VERSION..=VERSION).contains(&found.version) {
        return invalid(format!(
            "the volume has version {}, this version of Shingle reads {OLDEST_VERSION} to {VERSION}: use the version that made it",
            found.version
        ));
    }
    let block = Superblock::decode(&found.payload);
    let block = block.ok_or_else(|| StoreError::new(StoreErrorKind::Corrupt, "the superblock makes no sense"))?;
    Ok(Identity { store: found.store, layout: Layout::of(geometry, &block)?, bad_copies })
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
