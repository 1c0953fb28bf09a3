//! The drive of a store, and its division.

mod gate;
mod host_room;
mod layout;
pub(crate) mod payload;
mod room;

use std::rc::Rc;

use shingle_base::{Blocks, Lba, ZoneId};
use shingle_zone_kit::Flusher;
use shingle_zoned::{Geometry, ZonedDevice};

pub(crate) use gate::Gate;
pub(crate) use host_room::{HOST_FULL, HOST_PAUSE, host_full};
pub use layout::{DATA_ZONES_MIN, Layout, METAZONES_MIN};
pub(crate) use room::HostRoom;

/// The largest append, where zones are large enough for it.
const APPEND_MAX: u64 = 16 << 20;

/// A drive, and what its geometry says of the store.
pub(crate) struct Drive {
    pub(crate) dev: Rc<dyn ZonedDevice>,
    /// The same, to be shut.
    pub(crate) gate: Rc<Gate>,
    pub(crate) geometry: Geometry,
    pub(crate) flush: Flusher,
    /// Blocks of records that a zone holds beside its head.
    pub(crate) zone_room: u32,
    /// The longest append in bytes.
    pub(crate) append_max: u64,
}

impl Drive {
    pub(crate) fn new(gate: Rc<Gate>) -> Self {
        let dev: Rc<dyn ZonedDevice> = gate.clone();
        let geometry = dev.geometry().clone();
        let zone_room = (geometry.zone_capacity.0 - 1).min(u64::from(u32::MAX)) as u32;
        let append_max = shingle_record::sliced_capacity(Blocks(u64::from(zone_room))).min(APPEND_MAX);
        Self { flush: Flusher::new(dev.clone()), dev, gate, geometry, zone_room, append_max }
    }

    /// Address of a zone's block.
    pub(crate) fn block(&self, zone: ZoneId, block: u32) -> Lba {
        self.geometry.start_of(zone) + Blocks(u64::from(block))
    }
}
