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
//! Each module states its own: `index` (IDX, TAB), `zones` (ZONE, CENSUS, LEASE), `append` (APP, TURN), `landing` (LAND, TAIL), `read` (READ,
//! FETCH), `journal` (CKPT, MARK, RESUME, ROOM), `recovery` (REC), `gc` (GC, VICTIM), `drive` (HOST). Together they give:
//! - CS-CHUNK-1: an acknowledged create, append, seal or delete survives a power cut at any command.
//! - CS-CHUNK-2: an append that was not acknowledged is afterwards wholly there or wholly absent. One that was torn, and could not be
//!   read by the opening that found it, is neither: reads of it fail.
//! - CS-CHUNK-3: no byte is returned that was not verified.
//! - CS-CHUNK-4: no append fails for want of space while a zone is free or can be reclaimed.

mod append;
mod client;
mod config;
mod drive;
mod engine;
mod error;
mod format;
mod gc;
mod index;
mod inspect;
mod journal;
mod landing;
pub mod parse;
mod read;
mod recovery;
mod state;
mod stats;
mod store;
mod types;
mod wakes;
mod zones;

pub use client::{ChunkClient, Reply, Request};
pub use config::{Allocation, FormatOptions, Landing, Options, Placement, PoolSizes};
pub use drive::{DATA_ZONES_MIN, Layout, METAZONES_MIN};
pub use error::{Error, ErrorKind, Result};
pub use format::{ENGINE, JournalEntry, Mark};
pub use gc::{Candidate, CostBenefit, ExpectedDeath, GcReport, GcStatus, Greedy, VictimPolicy};
pub use index::{IndexMemory, StreamMemory};
pub use inspect::{
    CheckReport, ChunkDump, Dump, RecordDump, ZoneDump, ZonesDump, check, dump, identify, store_id, zones,
};
pub use read::Fetched;
pub use recovery::{Damage, RecoveryReport, StepReport};
pub use shingle_base::ChunkId;
pub use stats::{Counters, Forecast};
pub use store::ChunkStore;
pub use types::{ChunkStat, StoreStat, Stream, Unread, ZoneStat, ZoneStatus};
