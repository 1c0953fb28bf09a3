//! Options and figures.

use std::sync::Arc;
use std::time::Duration;

use shingle_blue_store::{BlueStats, Compression};
use shingle_runtime::memory::Memory;

/// Options of buckets on a blue store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Calls that wait for the owner, of each of reading and writing.
    pub queue_depth: usize,
    /// An object of at most so many bytes is one transaction. A larger one, or a part, is written in segments of this size, each held in
    /// memory until it is full.
    pub segment_bytes: usize,
    /// Memory for segments. Without enough of it, smaller ones are written.
    pub memory: Arc<Memory>,
    /// The least size of a part other than an upload's last.
    pub part_bytes_min: u64,
    /// Compression of new bytes.
    pub compression: Compression,
    /// Bytes of the store's objects that the bytes of a large object or part are cut into. Fixed when the first opening makes the buckets.
    pub piece_bytes: u64,
    /// Pause after a failure until removals are tried again.
    pub purge_pause: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queue_depth: 256,
            segment_bytes: 4 << 20,
            memory: Memory::unbounded(),
            part_bytes_min: 5 << 20,
            compression: Compression::None,
            piece_bytes: 1 << 30,
            purge_pause: Duration::from_secs(10),
        }
    }
}

/// Fill level of the store, and its counters since it was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlueFigures {
    /// The store's own figures.
    pub store: BlueStats,
    /// Objects in buckets, as far as they have been counted: all of them soon after opening.
    pub objects: u64,
    /// Their bytes.
    pub object_bytes: u64,
    /// Objects' and uploads' bytes that nobody names, and that are being removed.
    pub purging: u64,
}
