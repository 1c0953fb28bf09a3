//! SMORE: an erasure-coded store of cold objects over an array of zoned drives.
//!
//! Objects are cut into segments, segments into data and parity fragments, and each fragment goes to a zone of another
//! drive, behind a layout marker that says what it is. The zones of such a set are filled, closed, cleaned and reset
//! together. An index on flash says where each part of an object is; it is never needed: markers, digests and tombstones
//! on the drives are its journal.
//!
//! **Owns** the drives it was given, and its index file. **Knows nothing of** buckets, S3, or who asks.
//!
//! A reader of the code begins with `store` (the calls), `put`, `get` and `delete` (what they do), `allocator` (where things
//! go), `writer` and `ending` (how they reach the drives), `examine` and `recovery` (how they are found again), `collect` (how space is won),
//! `membership` and `rebuild` (how drives come and go).

mod allocator;
mod buffer;
mod check;
mod cleaners;
mod close;
mod collect;
mod condition;
mod config;
mod delete;
mod drives;
mod ending;
mod engine;
mod error;
mod eviction;
mod examine;
mod format;
mod gather;
mod gentle_check;
mod get;
mod index;
mod inspect;
mod layout;
mod loss;
mod membership;
mod modelled;
mod naming;
mod oversight;
mod pace;
pub mod parse;
mod probe;
mod put;
mod readmit;
mod rebuild;
mod recovery;
mod repair;
mod replace;
mod scrub;
mod segment;
mod sets;
mod share;
mod snapshot;
mod stamps;
mod stats;
mod store;
mod stuck;
mod superblocks;
#[cfg(test)]
mod tests;
mod trial;
mod types;
mod uncovered;
mod versions;
mod watch;
mod writer;

pub use allocator::PutHints;
pub use buffer::{BufferFile, BufferFiles, two_files};
pub use check::{CheckOptions, CheckReport, check};
pub use condition::{Condition, DriveCondition};
pub use config::{CleaningPolicy, FormatOptions, Options};
pub use error::{Error, ErrorKind, Result};
pub use get::{Object, Reader};
pub use inspect::{Absent, DriveInspection, Inspection, SetInspection, array_of, inspect};
pub use modelled::{Laid, Load};
pub use naming::{Naming, quoted};
pub use put::{Put, Stored};
pub use readmit::Readmitted;
pub use rebuild::{RebuildOptions, RebuildProgress};
pub use recovery::RecoveryReport;
pub use scrub::{ScrubOptions, ScrubReport};
pub use store::{ArrayDrive, ArrayStore, IndexPlace, Stats, format};
pub use types::{ATTRIBUTES_MAX, Completion, DriveId, NAME_MAX, Part, PartPlace, SetId, SetState, Version};
pub use watch::patient;
