//! The store in numbers.

/// Counts since the opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Transactions that are durable.
    pub transactions: u64,
    /// Transactions that have passed one that waited for room.
    pub passed: u64,
    /// Bytes that transactions wrote.
    pub bytes_written: u64,
    /// Bytes that were deferred first.
    pub bytes_deferred: u64,
    /// Bytes that calls read.
    pub bytes_read: u64,
    /// Commands that wrote data.
    pub writes: u64,
    /// Blocks that they wrote.
    pub blocks_written: u64,
    /// Blocks of those that were copies.
    pub blocks_copied: u64,
    /// Bytes of batches of metadata.
    pub metadata_bytes: u64,
    /// Zones that were emptied by copying.
    pub cleaned: u64,
    /// Zones that became free.
    pub freed: u64,
    /// Compressed blobs of which little was shown, and that was written anew.
    pub thin_rewritten: u64,
    /// Zones that were looked at to choose one that is emptied.
    pub zones_looked_at: u64,
}

/// A store in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlueStats {
    /// Counts since the opening.
    pub counters: Counters,
    /// Collections.
    pub collections: u64,
    /// Bytes that data zones hold.
    pub capacity_bytes: u64,
    /// Bytes of those that new data leave to copies.
    pub reserved_bytes: u64,
    /// Bytes of data that are needed, in whole blocks.
    pub live_bytes: u64,
    /// Bytes that were written to zones and are needed no more.
    pub stale_bytes: u64,
    /// Bytes of deferred writes that are not in zones yet.
    pub deferred_bytes: u64,
    /// Bytes that can be written without cleaning.
    pub room_bytes: u64,
    /// Bytes that batches of metadata can still bring.
    pub metadata_room_bytes: u64,
    /// Data zones, those of them that are free, and those that can be written no more.
    pub zones: u32,
    /// Free ones.
    pub zones_free: u32,
    /// Those that can be written no more.
    pub zones_broken: u32,
    /// Uses of the cache of data that found their bytes, and those that did not.
    pub data_hits: u64,
    /// Those that did not.
    pub data_misses: u64,
    /// The same of the cache of objects.
    pub object_hits: u64,
    /// Those that did not.
    pub object_misses: u64,
    /// Bytes of memory in both caches.
    pub cache_bytes: u64,
}

impl BlueStats {
    /// Blocks written to data zones for each block that is not a copy.
    pub fn write_amplification(&self) -> f64 {
        let Counters { blocks_written, blocks_copied, .. } = self.counters;
        blocks_written as f64 / (blocks_written - blocks_copied).max(1) as f64
    }
}
