//! The data zones of a drive with a store: a view of the drive, whose zones have numbers of their own from 0.

use std::rc::Rc;

use shingle_base::{Blocks, Lba, StoreId, ZoneId};
use shingle_runtime::Runtime;
use shingle_zone_kit::{Flusher, ZoneCommands};
use shingle_zoned::{Geometry, ZonedDevice};

use crate::layout::Layout;

/// A drive with a store.
pub(crate) struct Drive {
    /// The data zones.
    pub(crate) dev: Rc<dyn ZonedDevice>,
    pub(crate) geometry: Geometry,
    pub(crate) flush: Flusher,
    pub(crate) commands: ZoneCommands,
    pub(crate) store: StoreId,
    pub(crate) layout: Layout,
}

impl Drive {
    pub(crate) fn new(rt: &Runtime, dev: Rc<dyn ZonedDevice>, store: StoreId, layout: Layout) -> Self {
        let (geometry, flush) = (dev.geometry().clone(), Flusher::new(dev.clone()));
        let commands = ZoneCommands::new(rt, dev.clone());
        Self { dev, geometry, flush, commands, store, layout }
    }

    /// Address of a zone's block.
    pub(crate) fn block(&self, zone: u32, block: u32) -> Lba {
        self.geometry.start_of(ZoneId(zone)) + Blocks(u64::from(block))
    }
}
