//! SMRstore: a chunk store engine on one zoned drive (Zhou et al., FAST'23).
//!
//! A chunk is an append-only byte sequence with an id of 24 bytes. The store keeps chunks as records in the zones of a
//! drive, everything as a log, each stream of chunks in zones of its own, so that zones are mostly either full of live
//! data or all garbage and little has to be moved.
//!
//! **Owns** one drive (or a range of its zones): layout, index, placement, journal, recovery, GC.
//! **Knows nothing of** objects, other drives, threads, or which kind of device it runs on.
//!
//! # Invariants
//! Each module states its own: `index` (IDX), `table` (TAB), `zones` (ZONE), `census` (CENSUS), `writer` (APP), `landing` (LAND), `leases` (LEASE), `read`
//! (READ), `checkpoint` (CKPT), `mark` (MARK), `resumed` (RESUME), `room` (ROOM), `recovery` (REC), `gc` (GC, VICTIM), `flush` (FLUSH). Together they give:
//! - CS-CHUNK-1: an acknowledged create, append, seal or delete survives a power cut at any command.
//! - CS-CHUNK-2: an append that was not acknowledged is afterwards wholly there or wholly absent. One that was torn, and could not be
//!   read by the opening that found it, is neither: reads of it fail.
//! - CS-CHUNK-3: no byte is returned that was not verified.
//! - CS-CHUNK-4: no append fails for want of space while a zone is free or can be reclaimed.

mod census;
mod changes;
mod checkpoint;
mod chunk;
mod client;
mod config;
mod error;
mod fetched;
mod flush;
mod format;
mod gc;
mod host_room;
mod id_order;
mod index;
#[cfg(test)]
mod index_tests;
mod inspect;
mod keeper;
mod landing;
mod layout;
mod leases;
mod log_room;
mod mark;
mod memory;
pub mod parse;
mod payload;
mod pools;
mod read;
mod recovery;
mod residents;
mod resumed;
mod room;
mod runs;
mod state;
mod stats;
mod store;
mod table;
mod turns;
mod types;
mod unmarked;
mod writer;
mod zone;
mod zones;

pub use client::{ChunkClient, Reply, Request};
pub use config::{Allocation, FormatOptions, Landing, Options, Placement, PoolSizes};
pub use error::{Error, ErrorKind, Result};
pub use fetched::Fetched;
pub use format::{ENGINE, JournalEntry, Mark};
pub use gc::{Candidate, CostBenefit, ExpectedDeath, GcReport, GcStatus, Greedy, VictimPolicy};
pub use inspect::{
    CheckReport, ChunkDump, Dump, RecordDump, ZoneDump, ZonesDump, check, dump, identify, store_id, zones,
};
pub use layout::{DATA_ZONES_MIN, Layout, METAZONES_MIN};
pub use memory::{IndexMemory, StreamMemory};
pub use recovery::{Damage, RecoveryReport, StepReport};
pub use shingle_base::ChunkId;
pub use stats::{Counters, Forecast};
pub use store::ChunkStore;
pub use types::{ChunkStat, StoreStat, Stream, ZoneStat, ZoneStatus};
