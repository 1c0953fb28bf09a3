//! Owner of a drive: the superblock, held against the drive; and its copies.
//!
//! # Invariants
//! - ZF-SB-1: the superblock is in two zones, twice in each (version 2). One zone is enough, whatever became of the other, and an opening that
//!   writes makes anew what is lost, one zone after the other, once it has found the metadata of the same store.

use std::rc::Rc;

use shingle_base::StoreId;
use shingle_record::{EngineName, NotOwned, SuperblockCopies, read_owner};
use shingle_zoned::ZonedDevice;

use crate::error::{FilesError, FilesErrorKind, FilesResult};
use crate::format::{ENGINE, Superblock, VERSIONS};
use crate::layout::Layout;

const NAME: EngineName = EngineName {
    engine: ENGINE,
    versions: VERSIONS,
    store: "files",
    none: "the drive holds no files: format it first (`shingle files format`)",
    other: "the drive holds a store of another engine, not files",
};

/// Owner of a drive.
pub(crate) struct Identity {
    pub(crate) store: StoreId,
    pub(crate) layout: Layout,
    pub(crate) superblocks: SuperblockCopies,
}

/// Reads the superblock, and holds it against the drive.
pub(crate) async fn identity(dev: &Rc<dyn ZonedDevice>) -> FilesResult<Identity> {
    let owned = read_owner(dev, &NAME).await.map_err(|error| {
        let kind = match &error {
            NotOwned::Corrupt(_) => FilesErrorKind::Corrupt,
            NotOwned::Device(_) => FilesErrorKind::Device,
            _ => FilesErrorKind::Invalid,
        };
        FilesError::new(kind, error.to_string())
    })?;
    let (store, version) = (owned.superblock.store, owned.superblock.version);
    let block = Superblock::decode(&owned.superblock.payload);
    let block = block.ok_or_else(|| FilesError::new(FilesErrorKind::Corrupt, "the superblock makes no sense"))?;
    let layout = Layout::of(dev.geometry(), &block, version)?;
    let superblocks = SuperblockCopies::look(dev, owned, layout.superzones.clone()).await;
    Ok(Identity { store, layout, superblocks })
}
