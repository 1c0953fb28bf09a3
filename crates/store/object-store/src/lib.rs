//! Objects packed in chunks: the part of an object storage service that lies between its front end and its drives
//! (the KV server of SMRstore, section 2.1).
//!
//! Objects are written to append-only files made of chunks, whole or in segments, together with their keys and
//! metadata; an index on the local file system says where each is. Files that hold much garbage are rewritten.
//!
//! **Owns** the meaning of the bytes in its chunks, and the index. **Knows nothing of** zones, or of the protocol its
//! callers speak.
//!
//! # Invariants
//! - OS-OBJ-1: an acknowledged change survives a power cut at any instant, and the loss of the index: it is in the log.
//!   `crash.rs`.
//! - OS-OBJ-2: an object is there whole or not at all: its one entry, or the commit that names its segments, is.
//! - OS-OBJ-3: the newest version of a key wins, in whatever order entries are found. [`indexer`](self) OS-INX-1.
//! - OS-OBJ-4: space of what was deleted or replaced comes back without stopping anyone. `gc.rs`.
//!
//! Map: `format` has the bytes on drives; `index` rows by key, `indexer` the meaning of entries; `files` and `drives` the state that
//! choices are made from; `engine` the calls; `client` the callers' threads; `recovery` opening; `gc` and `backup` the background work.

mod backup;
mod check;
mod client;
mod drives;
mod engine;
mod errors;
mod files;
pub mod format;
mod gc;
pub mod index;
mod indexer;
mod keys;
mod options;
pub mod parse;
mod records;
mod recovery;
mod scan;
mod stats;
#[cfg(test)]
mod tests;

use shingle_base::wire;

pub use check::{CheckProgress, CheckReport, DAMAGE_MAX, Depth, ObjectName};
pub use client::ObjectStoreClient;
pub use drives::Standing;
pub use engine::run::{Found, ObjectEngine};
pub use gc::Emptied;
pub use index::{FjallIndex, Index, IndexError, IndexErrorKind, MemoryIndex};
pub use options::{BackupOptions, Drive, GcOptions, Options, Place};
pub use records::{FileRecord, Location, Position};
pub use recovery::{Damage, IndexOrigin, OpenReport, Progress, ProgressFn};
pub use stats::ObjectStats;
pub use wire::Malformed;
