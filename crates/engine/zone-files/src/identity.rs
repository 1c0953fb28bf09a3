//! Owner of a drive: the superblock, held against the drive.

use std::rc::Rc;

use shingle_base::{StoreId, ZoneId};
use shingle_record::{SuperblockError, read_superblock_copies};
use shingle_zoned::ZonedDevice;

use crate::error::{FilesError, FilesErrorKind, FilesResult};
use crate::format::{ENGINE, Superblock, VERSION};
use crate::layout::Layout;

/// Owner of a drive.
pub(crate) struct Identity {
    pub(crate) store: StoreId,
    pub(crate) layout: Layout,
    /// Blocks of the superzone whose copy of the superblock is not good.
    pub(crate) bad_copies: Vec<u32>,
}

/// Reads the superblock, and holds it against the drive.
pub(crate) async fn identity(dev: &Rc<dyn ZonedDevice>) -> FilesResult<Identity> {
    let geometry = dev.geometry();
    let superzone = ZoneId(geometry.conventional_zones);
    let invalid = |text: String| Err(FilesError::new(FilesErrorKind::Invalid, text));
    if superzone.0 >= geometry.zone_count {
        return invalid("the drive has no sequential zones".to_owned());
    }
    let (found, bad_copies) = read_superblock_copies(dev, superzone).await.map_err(|error| {
        let (kind, text) = match &error {
            SuperblockError::NotFormatted => {
                let text = "the drive holds no files: format it first (`shingle files format`)";
                (FilesErrorKind::Invalid, text.to_owned())
            }
            SuperblockError::Corrupt => (FilesErrorKind::Corrupt, error.to_string()),
            SuperblockError::Device(_) => (FilesErrorKind::Device, error.to_string()),
            _ => (FilesErrorKind::Invalid, error.to_string()),
        };
        FilesError::new(kind, text)
    })?;
    if found.engine != ENGINE {
        return invalid("the drive holds a store of another engine, not files".to_owned());
    }
    if found.version != VERSION {
        let made = found.version;
        return invalid(format!(
            "the files have version {made}, this version of Shingle reads {VERSION}: use the version that made them"
        ));
    }
    let block = Superblock::decode(&found.payload);
    let block = block.ok_or_else(|| FilesError::new(FilesErrorKind::Corrupt, "the superblock makes no sense"))?;
    Ok(Identity { store: found.store, layout: Layout::of(geometry, &block)?, bad_copies })
}
