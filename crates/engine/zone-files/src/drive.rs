//! The drive of the files, and their layout on it.

use std::rc::Rc;

use shingle_base::{Blocks, Lba, StoreId, ZoneId};
use shingle_record::{MetaLogConfig, RecordPlace};
use shingle_runtime::Runtime;
use shingle_zone_kit::{Flusher, ZoneCommands};
use shingle_zoned::{Geometry, ZonedDevice};

use crate::format::META_ZONE_KIND;
use crate::layout::Layout;
use crate::payload::Payload;

/// A drive with files.
pub(crate) struct Drive {
    pub(crate) dev: Rc<dyn ZonedDevice>,
    pub(crate) geometry: Geometry,
    pub(crate) flush: Flusher,
    /// Commands on zones.
    pub(crate) zones: ZoneCommands,
    pub(crate) store: StoreId,
    pub(crate) layout: Layout,
    pub(crate) payload: Payload,
}

impl Drive {
    pub(crate) fn new(rt: &Runtime, dev: Rc<dyn ZonedDevice>, store: StoreId, layout: Layout) -> Self {
        let (geometry, flush) = (dev.geometry().clone(), Flusher::new(dev.clone()));
        let (zones, payload) = (ZoneCommands::new(rt, dev.clone()), Payload::of(&geometry));
        Self { dev, geometry, flush, zones, store, layout, payload }
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

/// The metadata log of files.
pub(crate) fn log_config(store: StoreId, layout: &Layout, read_depth: u32) -> MetaLogConfig {
    MetaLogConfig { store, zones: layout.metazones.clone(), zone_kind: META_ZONE_KIND, read_depth }
}
