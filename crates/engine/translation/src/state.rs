//! Everything a volume holds in memory, changed only between two awaits (RT-1).

use crate::failure::Failure;
use crate::layout::Shape;
use crate::map::{Extent, ExtentMap};
use crate::place::Place;
use crate::stats::Counters;
use crate::write::{COPIES, Frontier, STREAMS};
use crate::zones::{Status, ZoneTable};

/// A volume's state.
pub(crate) struct State {
    pub(crate) map: ExtentMap,
    pub(crate) zones: ZoneTable,
    /// By stream.
    pub(crate) frontiers: [Frontier; STREAMS as usize],
    /// Reason why the volume has stopped, if it has.
    pub(crate) stopped: Option<Failure>,
    /// The keeper found nothing that would make room.
    pub(crate) hopeless: bool,
    /// A closed zone has become empty since the keeper looked.
    pub(crate) emptied: bool,
    pub(crate) counters: Counters,
}

impl State {
    pub(crate) fn new(shape: Shape, zones: ZoneTable, map: ExtentMap) -> Self {
        debug_assert!(shape.pair_sectors() > 0);
        Self {
            map,
            zones,
            frontiers: Default::default(),
            stopped: None,
            hopeless: false,
            emptied: false,
            counters: Counters::default(),
        }
    }

    /// Fails once the volume has stopped.
    pub(crate) fn running(&self) -> Result<(), Failure> {
        self.stopped.clone().map_or(Ok(()), Err)
    }

    /// Gives sectors a place, or none. (TL-ZONE-1)
    pub(crate) fn place(&mut self, shape: Shape, lba: u64, sectors: u32, place: Option<Place>) {
        let Self { map, zones, emptied, .. } = self;
        map.replace(lba..lba + u64::from(sectors), place, |Extent { sectors, place, .. }| {
            let zone = shape.zone_of(place);
            zones.take_live(zone, u64::from(sectors));
            *emptied |= zones.get(zone).is_some_and(|zone| zone.live == 0 && zone.status == Status::Closed);
        });
        if let Some(place) = place {
            zones.add_live(shape.zone_of(place), u64::from(sectors));
        }
    }

    /// Number of zones that copies alone may take.
    pub(crate) fn reserve(stream: u8) -> u32 {
        if stream == COPIES { 0 } else { crate::keeper::COPY_RESERVE }
    }
}
