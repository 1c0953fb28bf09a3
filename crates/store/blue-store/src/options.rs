//! Parameters: of a format, and of an opening.

use std::fmt;
use std::rc::Rc;

use shingle_base::StoreId;

use crate::kv::{LogKvOptions, OpenKeyValue};

/// The place of the metadata, fixed by the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Metadata {
    /// A log, and all keys in memory: for drives with few objects.
    #[default]
    Log = 0,
    /// RocksDB on the drive's files.
    RocksDb = 1,
}

/// Parameters of a format. All are fixed then.
#[derive(Clone, Copy, Debug, Default)]
pub struct FormatOptions {
    /// Zones of the metadata; `None` = a fiftieth of the drive's, and as many as they need at least.
    pub meta_zones: Option<u32>,
    /// A write of fewer bytes is deferred; `None` = 64 KiB on a disk, and 16 KiB on an SSD. (Section 4.4.2.)
    pub small_bytes: Option<u32>,
    /// The place of the metadata.
    pub metadata: Metadata,
    /// Formats also a drive that holds a store, or data.
    pub force: bool,
    /// Identity of the store; `None` = a random one.
    pub store: Option<StoreId>,
}

/// The choice of a zone for new data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// All of them in one zone at a time, the lowest free one first. (Section 5.7.1, ZonedAllocator.)
    LowestZoneFirst,
    /// Zones for each expected lifetime; the zone that was free longest first.
    #[default]
    ByLifetime,
}

/// The choice of the zone that is cleaned next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victims {
    /// Most stale blocks. (Section 5.7.1, ZonedCleaner.)
    Greedy,
    /// Most stale blocks for the cost of moving the others, times age.
    #[default]
    CostBenefit,
}

/// Parameters of an opening.
#[derive(Clone)]
pub struct Options {
    /// The choice of a zone for new data.
    pub placement: Placement,
    /// The choice of the zone that is cleaned next.
    pub victims: Victims,
    /// Cleaning begins when this share of the zones is in use. (Section 5.7.1: 0.8.)
    pub clean_at: f64,
    /// Bytes of memory for what was used last: a quarter of it for objects, the rest for data. The store of metadata has memory of its own.
    pub cache_bytes: u64,
    /// Bytes of deferred writes before they are gathered and written to zones.
    pub deferred_bytes: u64,
    /// Bytes of transactions under way before the next ones wait.
    pub waiting_bytes: u64,
    /// Bytes that a transaction brings to the metadata at most, those that clones repeat included. (BLU-META-2)
    pub batch_bytes: u64,
    /// The store of metadata that are in a log.
    pub log: Rc<dyn OpenKeyValue>,
    /// The store of metadata that are in RocksDB; `None` = such drives are refused.
    pub rocksdb: Option<Rc<dyn OpenKeyValue>>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (placement, victims) = (&self.placement, &self.victims);
        f.debug_struct("Options").field("placement", placement).field("victims", victims).finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            placement: Placement::default(),
            victims: Victims::default(),
            clean_at: 0.8,
            cache_bytes: 256 << 20,
            deferred_bytes: 8 << 20,
            waiting_bytes: 256 << 20,
            batch_bytes: 256 << 20,
            log: Rc::new(LogKvOptions::default()),
            rocksdb: None,
        }
    }
}
