//! Owner of a drive: the superblock, held against the drive.

use std::rc::Rc;

use shingle_base::StoreId;
use shingle_record::{EngineName, NotOwned, Owned, read_owner};
use shingle_zoned::ZonedDevice;

use crate::error::{FilesError, FilesErrorKind, FilesResult};
use crate::format::{ENGINE, Superblock, VERSION};
use crate::layout::Layout;

const NAME: EngineName = EngineName {
    engine: ENGINE,
    versions: VERSION..=VERSION,
    store: "files",
    none: "the drive holds no files: format it first (`shingle files format`)",
    other: "the drive holds a store of another engine, not files",
};

/// Owner of a drive.
pub(crate) struct Identity {
    pub(crate) store: StoreId,
    pub(crate) layout: Layout,
    /// Blocks of the superzone whose copy of the superblock is not good.
    pub(crate) bad_copies: Vec<u32>,
}

/// Reads the superblock, and holds it against the drive.
pub(crate) async fn identity(dev: &Rc<dyn ZonedDevice>) -> FilesResult<Identity> {
    let Owned { superblock: found, bad_copies, .. } = read_owner(dev, &NAME).await.map_err(|error| {
        let kind = match &error {
            NotOwned::Corrupt(_) => FilesErrorKind::Corrupt,
            NotOwned::Device(_) => FilesErrorKind::Device,
            _ => FilesErrorKind::Invalid,
        };
        FilesError::new(kind, error.to_string())
    })?;
    let block = Superblock::decode(&found.payload);
    let block = block.ok_or_else(|| FilesError::new(FilesErrorKind::Corrupt, "the superblock makes no sense"))?;
    Ok(Identity { store: found.store, layout: Layout::of(dev.geometry(), &block)?, bad_copies })
}
