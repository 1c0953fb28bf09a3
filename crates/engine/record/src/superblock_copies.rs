//! All copies of the superblock of a store that has it in one zone or in two, and lost ones made anew.
//!
//! # Invariants
//! - RC-SB-4: one zone is enough, whatever became of the other. An opening that writes makes anew what is lost, one zone after the other, and
//!   never in a zone whose copies no other zone stands for.

use std::ops::Range;
use std::rc::Rc;

use shingle_base::ZoneId;
use shingle_zoned::{DeviceError, ZoneOp, ZonedDevice, report_patiently};

use crate::identity::Owned;
use crate::superblock::{Superblock, read_superblock_copies, write_superblock_zone};

/// Copies in a zone.
struct Copies {
    zone: ZoneId,
    /// Blocks of those that are not good.
    bad: Vec<u32>,
}

impl Copies {
    /// Copies that each zone has.
    const IN_ZONE: usize = 2;

    fn has_good(&self) -> bool {
        self.bad.len() < Self::IN_ZONE
    }
}

/// All copies of a store's superblock.
pub struct SuperblockCopies {
    superblock: Superblock,
    zones: Vec<Copies>,
}

impl SuperblockCopies {
    /// Looks at the copies in the zones that the store has for them.
    pub async fn look(dev: &Rc<dyn ZonedDevice>, owned: Owned, superzones: Range<u32>) -> Self {
        let Owned { superblock, zone: found, bad_copies } = owned;
        let mut zones = Vec::new();
        for zone in superzones.map(ZoneId) {
            let bad = if zone == found { bad_copies.clone() } else { bad_copies_of(dev, zone, &superblock).await };
            zones.push(Copies { zone, bad });
        }
        Self { superblock, zones }
    }

    /// Zones and blocks of copies that are not good.
    pub fn bad(&self) -> impl Iterator<Item = (ZoneId, u32)> {
        self.zones.iter().flat_map(|copies| copies.bad.iter().map(|block| (copies.zone, *block)))
    }

    /// Gives back zones of superblocks that a format or a mend which was cut short has left active: they count against the drive's limits.
    ///
    /// # Errors
    /// The report's.
    pub async fn settle(&self, dev: &Rc<dyn ZonedDevice>) -> Result<(), DeviceError> {
        if dev.geometry().active_zones_max.is_none() {
            return Ok(());
        }
        for zone in self.zones.iter().map(|copies| copies.zone) {
            let infos = report_patiently(dev, zone, 1).await?;
            if infos.iter().any(|info| info.zone == zone && info.state.is_active())
                && let Err(error) = dev.manage(zone, ZoneOp::Finish).await
            {
                tracing::warn!(%zone, %error, "a superblock's zone cannot be finished");
            }
        }
        Ok(())
    }

    /// Makes lost copies anew, where there is a second zone, and the zone can be reset: for an opening that has found all else of the store.
    /// (RC-SB-4)
    pub async fn mend(mut self, dev: &Rc<dyn ZonedDevice>) {
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
                if dev.geometry().active_zones_max.is_some() {
                    dev.manage(zone, ZoneOp::Finish).await?;
                }
                Ok::<_, DeviceError>(())
            };
            match written.await {
                Ok(()) => tracing::info!(%zone, "copies of the superblock were lost, and are made anew"),
                Err(error) => {
                    tracing::warn!(%zone, %error, "copies of the superblock are lost, and cannot be made anew");
                }
            }
            // Another zone may be reset next: this one stands for it only if it can be read.
            copies.bad = bad_copies_of(dev, zone, &self.superblock).await;
        }
    }
}

/// Blocks of a zone of superblocks that are no good copy.
async fn bad_copies_of(dev: &Rc<dyn ZonedDevice>, zone: ZoneId, superblock: &Superblock) -> Vec<u32> {
    match read_superblock_copies(dev, zone).await {
        Ok((copy, bad)) if copy == *superblock => bad,
        _ => (0..Copies::IN_ZONE as u32).collect(),
    }
}
