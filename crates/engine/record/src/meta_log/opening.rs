//! Parameters of a log, and the result of opening one.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{StoreId, ZoneId};

/// The fewest metazones.
pub const META_ZONES_MIN: u32 = 4;

/// Zones and parameters of a log.
#[derive(Clone, Debug)]
pub struct MetaLogConfig {
    /// The store it belongs to.
    pub store: StoreId,
    /// Its zones.
    pub zones: Range<u32>,
    /// The kind its zone heads carry.
    pub zone_kind: u16,
    /// Reads in flight while it is opened.
    pub read_depth: u32,
}

/// A journal entry, as recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its sequence number.
    pub sequence: u64,
    /// The journaled bytes.
    pub bytes: Bytes,
}

/// Result of opening a log.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The parts of the newest complete checkpoint, in order.
    pub parts: Vec<Bytes>,
    /// The journal from its start on, in order.
    pub journal: Vec<Entry>,
    /// The highest sequence number seen anywhere in the log.
    pub sequence: u64,
    /// Lost blocks that were made anew from others (RC-LOG-7): zone, block in it.
    pub mended: Vec<(ZoneId, u32)>,
    /// Metazones that hold anything.
    pub zones: u64,
    /// Blocks read of the heads of metazones.
    pub find_blocks: u64,
    /// Blocks read to load it and the journal.
    pub load_blocks: u64,
    /// Time to read the heads of the metazones.
    pub find_time: Duration,
    /// Time to read the zones that the heads led to: checkpoint and journal.
    pub load_time: Duration,
}
