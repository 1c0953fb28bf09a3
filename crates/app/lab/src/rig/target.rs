//! Target of a workload: a chunk store, the project's own or a baseline.
//!
//! Data has a length but no content here: a modelled drive takes the same time for any bytes.

use std::fmt;

use shingle_base::ChunkId;
use shingle_chunk_store::Stream;
use shingle_runtime::LocalBoxFuture;

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// No space is left and none can be reclaimed.
    NoSpace,
    /// Anything else; it ends the experiment.
    Failed(String),
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace => f.write_str("no space is left"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for TargetError {}

/// The result of a call, some time later, on the same thread.
pub type TargetFuture<'a, T> = LocalBoxFuture<'a, Result<T, TargetError>>;

/// A store of chunks on one drive in virtual time. (Pangu's chunk interface; SMRstore, section 4.)
///
/// A call takes its place among the chunk's calls when it is made, and is durable when its future completes.
pub trait ChunkTarget {
    /// Creates a chunk.
    fn create(&self, id: ChunkId, stream: Stream) -> TargetFuture<'_, ()>;

    /// Appends `length` bytes at `offset`, the chunk's present end.
    fn append(&self, id: ChunkId, offset: u64, length: u32) -> TargetFuture<'_, ()>;

    /// Reads `length` bytes at `offset`.
    fn read(&self, id: ChunkId, offset: u64, length: u32) -> TargetFuture<'_, ()>;

    /// Ends a chunk: it takes no more appends.
    fn seal(&self, id: ChunkId) -> TargetFuture<'_, ()>;

    /// Deletes a chunk.
    fn delete(&self, id: ChunkId) -> TargetFuture<'_, ()>;

    /// The store's counters, and the use of its space, at this moment.
    fn state(&self) -> TargetState;
}

/// A store's figures at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetState {
    /// Bytes that callers appended.
    pub appended_bytes: u64,
    /// Bytes written to the drive for them: records, metadata, journal and what GC moved.
    pub written_bytes: u64,
    /// Bytes that GC moved.
    pub moved_bytes: u64,
    /// Zones (or sections, in a file system) that GC has cleaned.
    pub gc_runs: u64,
    /// Bytes of live data.
    pub live_bytes: u64,
    /// Bytes that can hold data.
    pub capacity_bytes: u64,
    /// Zones that hold both live data and garbage.
    pub dirty_zones: u32,
    /// Zones that hold nothing live and can be written.
    pub free_zones: u32,
    /// Of every closed zone, those that hold only garbage included, the live share, 0 to 1.
    pub utilisation: Vec<f32>,
}
