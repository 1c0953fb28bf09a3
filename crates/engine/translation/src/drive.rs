//! The drive of a volume, and the volume's shape on it.

use std::rc::Rc;

use shingle_base::{Blocks, Lba, StoreId, ZoneId};
use shingle_record::RecordPlace;
use shingle_runtime::Runtime;
use shingle_store_api::{StoreError, StoreErrorKind};
use shingle_zone_kit::{Flusher, ZoneCommands};
use shingle_zoned::{DeviceError, DeviceErrorKind, Geometry, ZonedDevice};

use crate::layout::Layout;
use crate::payload::{self, Payload};

/// A drive with a volume.
pub(crate) struct Drive {
    pub(crate) dev: Rc<dyn ZonedDevice>,
    pub(crate) geometry: Geometry,
    pub(crate) flush: Flusher,
    /// Commands on zones.
    pub(crate) zones: ZoneCommands,
    pub(crate) store: StoreId,
    pub(crate) layout: Layout,
    pub(crate) payload: Box<dyn Payload>,
}

impl Drive {
    pub(crate) fn new(rt: &Runtime, dev: Rc<dyn ZonedDevice>, store: StoreId, layout: Layout) -> Self {
        let (geometry, flush) = (dev.geometry().clone(), Flusher::new(dev.clone()));
        let (zones, payload) = (ZoneCommands::new(rt, dev.clone()), payload::of(&geometry));
        Self { dev, geometry, flush, zones, store, layout, payload }
    }

    /// Commands of copies hold up callers' writes: with a volatile cache, these wait for no arm.
    pub(crate) fn writes_take_its_arm(&self) -> bool {
        !self.geometry.volatile_cache
    }

    /// Address of a zone's block.
    pub(crate) fn block(&self, zone: ZoneId, block: u32) -> Lba {
        self.geometry.start_of(zone) + Blocks(u64::from(block))
    }

    /// The place of a record.
    pub(crate) fn place(&self, zone: ZoneId, epoch: u64, block: u32) -> RecordPlace {
        RecordPlace { store: self.store, epoch, zone, block }
    }
}

/// A device's error, as callers of a volume see it.
pub(crate) fn device_error(error: DeviceError) -> StoreError {
    let kind = match error.kind {
        DeviceErrorKind::Gone => StoreErrorKind::Unavailable,
        _ => StoreErrorKind::Device,
    };
    StoreError::caused(kind, error.to_string(), error)
}
