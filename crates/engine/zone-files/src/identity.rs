//! Owner of a drive: the superblock, held against the drive; and its copies.
//!
//! # Invariants
//! - ZF-SB-1: the superblock is in two zones, twice in each (version 2). One zone is enough, whatever became of the other, and an opening that
//!   writes makes anew what is lost, one zone after the other, once it has found the metadata of the same store.

use std::rc::Rc;

use shingle_base::{StoreId, ZoneId};
use shingle_record::{EngineName, NotOwned, Owned, read_owner, read_superblock_copies, write_superblock_zone};
use shingle_zoned::{ZoneOp, ZonedDevice};

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

/// The superblock's copies in a zone.
struct Copies {
    zone: ZoneId,
    /// Blocks of those that are not good.
    bad: Vec<u32>,
}

impl Copies {
    /// Copies in a zone.
    const IN_ZONE: usize = 2;

    fn has_good(&self) -> bool {
        self.bad.len() < Self::IN_ZONE
    }
}

/// All copies of the superblock.
pub(crate) struct Superblocks {
    superblock: shingle_record::Superblock,
    zones: Vec<Copies>,
}

/// Owner of a drive.
pub(crate) struct Identity {
    pub(crate) store: StoreId,
    pub(crate) layout: Layout,
    pub(crate) superblocks: Superblocks,
}

/// Reads the superblock, and holds it against the drive.
pub(crate) async fn identity(dev: &Rc<dyn ZonedDevice>) -> FilesResult<Identity> {
    let Owned { superblock, zone, bad_copies } = read_owner(dev, &NAME).await.map_err(|error| {
        let kind = match &error {
            NotOwned::Corrupt(_) => FilesErrorKind::Corrupt,
            NotOwned::Device(_) => FilesErrorKind::Device,
            _ => FilesErrorKind::Invalid,
        };
        FilesError::new(kind, error.to_string())
    })?;
    let block = Superblock::decode(&superblock.payload);
    let block = block.ok_or_else(|| FilesError::new(FilesErrorKind::Corrupt, "the superblock makes no sense"))?;
    let layout = Layout::of(dev.geometry(), &block, superblock.version)?;
    let mut zones = Vec::new();
    for other in layout.superzones.clone().map(ZoneId) {
        let bad = if other == zone { bad_copies.clone() } else { bad_copies_of(dev, other, &superblock).await };
        zones.push(Copies { zone: other, bad });
    }
    Ok(Identity { store: superblock.store, layout, superblocks: Superblocks { superblock, zones } })
}

/// Blocks of a zone of superblocks that are no good copy.
async fn bad_copies_of(dev: &Rc<dyn ZonedDevice>, zone: ZoneId, superblock: &shingle_record::Superblock) -> Vec<u32> {
    match read_superblock_copies(dev, zone).await {
        Ok((copy, bad)) if copy == *superblock => bad,
        _ => (0..Copies::IN_ZONE as u32).collect(),
    }
}

impl Superblocks {
    /// Copies that are not good.
    pub(crate) fn bad(&self) -> impl Iterator<Item = (ZoneId, u32)> {
        self.zones.iter().flat_map(|copies| copies.bad.iter().map(|block| (copies.zone, *block)))
    }

    /// Makes lost copies anew, where there is a second zone, and the zone can be reset. (ZF-SB-1)
    pub(crate) async fn mend(mut self, dev: &Rc<dyn ZonedDevice>) {
        // The zone that has none comes first: the other one keeps the store meanwhile.
        self.zones.sort_by_key(Copies::has_good);
        for at in 0..self.zones.len() {
            let others_keep = self.zones.iter().enumerate().any(|(other, copies)| other != at && copies.has_good());
            let Some(copies) = self.zones.get_mut(at).filter(|copies| !copies.bad.is_empty() && others_keep) else {
                continue;
            };
            let zone = copies.zone;
            let written = async {
                write_superblock_zone(dev, zone, &self.superblock).await?;
                copies.bad.clear();
                if dev.geometry().active_zones_max.is_some() {
                    dev.manage(zone, ZoneOp::Finish).await?;
                }
                Ok::<_, shingle_zoned::DeviceError>(())
            };
            match written.await {
                Ok(()) => tracing::info!(%zone, "copies of the superblock were lost, and are made anew"),
                Err(error) => {
                    // It may have been reset.
                    copies.bad = (0..Copies::IN_ZONE as u32).collect();
                    tracing::warn!(%zone, %error, "copies of the superblock are lost, and cannot be made anew");
                }
            }
        }
    }
}
