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
//! go), `writer` and `ending` (how they reach the drives), `examine` and `recovery` (how they are found again), `collect` and `choice` (how
//! space is won), `membership` and `rebuild` (how drives come and go).
//!
//! Imports point one way: parts that own a piece of state and know no engine (`drives`, `sets`, `superblocks`, `allocator`, `cleaners`,
//! `deleting`, `sharing`, `snapshots`, `buffer::log`), then `engine`, which is nothing but these parts together, then the
//! operations on it, then `store`.

mod allocator;
mod asking;
mod buffer;
mod check;
mod choice;
mod cleaners;
mod close;
mod collect;
mod condition;
mod config;
mod create;
mod delete;
mod deleting;
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
mod given;
mod index;
mod inspect;
mod item;
mod layout;
mod lifecycle;
mod loss;
mod membership;
mod modelled;
mod moving;
mod naming;
mod open_set;
mod opening;
mod oversight;
mod own_names;
mod pace;
pub mod parse;
mod probe;
mod progress;
mod put;
mod readmit;
mod rebuild;
mod recovery;
mod repair;
mod repairs;
mod replace;
mod saying;
mod scrub;
mod segment;
mod sets;
mod share;
mod sharing;
mod snapshot;
mod snapshots;
mod stamps;
mod stats;
mod store;
mod stuck;
mod superblocks;
mod supply;
#[cfg(test)]
mod tests;
mod told;
mod trial;
mod types;
mod uncovered;
mod verdict;
mod versions;
mod watch;
mod writer;

pub use allocator::PutHints;
pub use buffer::{BufferFile, BufferFiles, two_files};
pub use check::{CheckOptions, CheckReport, check};
pub use condition::{Condition, DriveCondition};
pub use config::{CleaningPolicy, FormatOptions, Options};
pub use create::format;
pub use error::{Error, ErrorKind, Result};
pub use get::{Object, Reader};
pub use given::{ArrayDrive, IndexPlace};
pub use inspect::{Absent, DriveInspection, Inspection, SetInspection, array_of, inspect};
pub use modelled::{Laid, Load};
pub use naming::{Naming, quoted};
pub use put::{Put, Stored};
pub use readmit::Readmitted;
pub use recovery::RecoveryReport;
pub use scrub::{ScrubOptions, ScrubReport};
pub use store::{ArrayStore, Stats};
pub use told::{RebuildOptions, RebuildProgress};
pub use types::{ATTRIBUTES_MAX, Completion, DriveId, NAME_MAX, Part, PartPlace, SetId, SetState, Version};
pub use watch::patient;
