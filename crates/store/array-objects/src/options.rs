//! Options and counters.

use std::sync::Arc;
use std::time::Duration;

use shingle_array_store::Stats;
use shingle_runtime::memory::Memory;

/// Options of a store on an array.
#[derive(Clone, Debug)]
pub struct Options {
    /// Calls that wait for the owner, of each of reading and writing.
    pub queue_depth: usize,
    /// Objects up to this size are one object of the array; they are held in memory until they are committed.
    pub whole_bytes_max: usize,
    /// Memory for objects whose bytes are still coming. Without enough of it, an object is written as a large one.
    pub memory: Arc<Memory>,
    /// Large objects and parts that are written at a time; each holds up to two segments in memory. Others wait.
    pub writers_max: usize,
    /// If others wait, a writer slower than this, in bytes a second, is ended ...
    pub writer_rate_min: u64,
    /// ... once it has taken this time in all, the drives' not counted.
    pub writer_grace: Duration,
    /// The least size of a part other than an upload's last.
    pub part_bytes_min: u64,
    /// Pause after a failure until deletions are tried again.
    pub purge_pause: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queue_depth: 256,
            whole_bytes_max: 1 << 20,
            memory: Memory::unbounded(),
            writers_max: 16,
            writer_rate_min: 32 << 10,
            writer_grace: Duration::from_secs(60),
            part_bytes_min: 5 << 20,
            purge_pause: Duration::from_secs(10),
        }
    }
}

/// Fill level of the array, and its counters since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrayFigures {
    /// The array's own figures.
    pub array: Stats,
    /// Objects in buckets, as far as they have been counted: all of them soon after opening.
    pub objects: u64,
    /// Their bytes.
    pub object_bytes: u64,
    /// Blobs that nobody needs and that are being deleted.
    pub purging: u64,
}
