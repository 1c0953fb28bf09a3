//! A volume as controllers see it.

use std::time::Duration;

use shingle_base::ZoneId;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

use super::Control;
use crate::clean::Sources;
use crate::map::Extent;
use crate::stats::VolumeStats;
use crate::write::{is_copy, is_run};
use crate::zones::{Status, Zone};

/// A generation of a zone. Commands that name one that is over do nothing. (TL-CTL-2)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneName {
    /// The zone's number on the drive.
    pub zone: ZoneId,
    /// Its generation; 0 for a free zone.
    pub generation: u64,
}

/// Use of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneUse {
    /// It holds nothing.
    Free,
    /// Callers' writes go there.
    Writes,
    /// Copies go there.
    Copies,
    /// Nothing is written to it any more; callers' writes are in it.
    Written,
    /// Nothing is written to it any more; copies are in it.
    Copied,
    /// It can be written no more, and holds nothing.
    Dead,
}

/// A data zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneView {
    /// Its name.
    pub name: ZoneName,
    /// Its use.
    pub used: ZoneUse,
    /// Sectors that live in it.
    pub live: u64,
    /// Those of them that only snapshots have.
    pub kept: u64,
    /// Blocks that are written in it.
    pub blocks: u32,
    /// Zones that were opened after it, in this life of the volume.
    pub age: u64,
    /// A sequential run wrote it, or does.
    pub run: bool,
    /// Some of its sectors cannot be read, so it cannot be emptied.
    pub stuck: bool,
}

/// Sizes. All but the first never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Size of the volume.
    pub sectors: u64,
    /// Bytes of a sector.
    pub sector_bytes: u64,
    /// Data zones.
    pub zones: u32,
    /// Sectors that fill a zone if they follow each other.
    pub zone_sectors: u64,
    /// Sectors that fill it if none follows another.
    pub zone_sectors_scattered: u64,
    /// Blocks of a zone.
    pub zone_blocks: u32,
}

impl Control {
    /// Sizes. All but the first never change.
    pub fn shape(&self) -> Shape {
        let layout = &self.engine.drive.layout;
        let shape = layout.shape;
        Shape {
            sectors: self.engine.state.borrow().sectors,
            sector_bytes: shape.bytes(1),
            zones: layout.data_zones.len() as u32,
            zone_sectors: u64::from(shape.full_sectors()),
            zone_sectors_scattered: u64::from(shape.scattered_sectors()),
            zone_blocks: shape.zone_blocks,
        }
    }

    /// Its counters, and its contents in numbers.
    pub fn stats(&self) -> VolumeStats {
        self.engine.stats()
    }

    /// All data zones, in order.
    pub fn zones(&self) -> Vec<ZoneView> {
        let state = self.engine.state.borrow();
        let view = |(id, zone): (ZoneId, &Zone)| ZoneView {
            name: ZoneName { zone: id, generation: zone.epoch },
            used: match (zone.status, is_copy(zone.stream)) {
                (Status::Free, _) => ZoneUse::Free,
                (Status::Dead, _) => ZoneUse::Dead,
                (Status::Open, false) => ZoneUse::Writes,
                (Status::Open, true) => ZoneUse::Copies,
                (Status::Closed, false) => ZoneUse::Written,
                (Status::Closed, true) => ZoneUse::Copied,
            },
            live: zone.live,
            kept: zone.own.kept,
            blocks: zone.next,
            age: state.zones.opened() - zone.order,
            run: is_run(zone.stream),
            stuck: zone.stuck,
        };
        state.zones.iter().map(view).collect()
    }

    /// Up to `most` extents of the map, without those of snapshots, from sector `from` on, and where the next ones begin; `None` at the end.
    pub fn extents(&self, from: u64, most: usize) -> (Vec<Extent>, Option<u64>) {
        let mut extents = Vec::new();
        let next = self.engine.state.borrow().maps.live.some(from, most.min(1 << 16), |extent| extents.push(extent));
        (extents, next)
    }

    /// The zone of a place, as [`ZoneView::name`] has it; `None` for one that no zone has.
    pub fn zone_of(&self, place: crate::Place) -> Option<ZoneName> {
        let zone = self.engine.drive.layout.shape.zone_of(place);
        let generation = self.engine.state.borrow().zones.get(zone)?.epoch;
        Some(ZoneName { zone, generation })
    }

    /// The extents in a zone: by windows, in each of which they are in the order of the volume. To be copied one window after the other,
    /// each of which takes a disk about a tenth of a second to read.
    ///
    /// # Errors
    /// `Invalid` if the generation is over.
    pub async fn living_in(&self, name: ZoneName) -> StoreResult<Vec<Vec<Extent>>> {
        self.check(name)?;
        let Sources { windows, .. } = self.engine.living_in(name.zone).await;
        Ok(windows)
    }

    /// Blocks that writers have left.
    pub fn room(&self) -> u64 {
        self.engine.state.borrow().room_of_writers()
    }

    /// Time since a caller last asked for something.
    pub fn idle_for(&self) -> Duration {
        self.engine.idle_for()
    }

    /// Bytes that [`save`](Self::save) kept.
    pub fn saved(&self) -> bytes::Bytes {
        self.engine.state.borrow().saved.clone()
    }

    pub(super) fn check(&self, name: ZoneName) -> StoreResult<()> {
        let state = self.engine.state.borrow();
        let current = state.zones.get(name.zone).is_some_and(|zone| zone.epoch == name.generation);
        if current { Ok(()) } else { Err(refused("the zone's generation is over, or it is no data zone")) }
    }
}

/// A command whose precondition does not hold.
pub(super) fn refused(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, why)
}
