//! SMORE: an erasure-coded store of cold objects over an array of zoned drives.
//!
//! Objects are cut into segments, segments into data and parity fragments, and each fragment goes to a zone of another
//! drive, behind a layout marker that says what it is. The zones of such a set are filled, closed, cleaned and reset
//! together. An index on flash says where each part of an object is; it is never needed: markers, digests and tombstones
//! on the drives are its journal.
//!
//! **Owns** the drives it was given, and its index file. **Knows nothing of** buckets, S3, or who asks.
//!
//! A reader of the code begins with `store` (the calls). Folders are subjects: `object` (put, get, delete), `allocator` (where things
//! go), `append` (how they reach the drives), `zone_set` (the table of sets), `clean` (how space is won), `snapshot` and `index`,
//! `lifecycle` and `recovery` (how an array is opened, found again and closed), `superblocks`, `repair` (how drives come and
//! go), `drives` and `pace` (how they are asked, and which are done without), `inspect`.
//!
//! Imports point one way: parts that own a piece of state and know no engine (such as `drives`, `zone_set`, `allocator`, `clean::cleaners`,
//! `object::deleting`, `snapshot::newest`), then `engine`, which is nothing but these parts together, then the operations on
//! it, then `store`.

mod allocator;
mod append;
mod buffer;
mod clean;
mod config;
mod drives;
mod engine;
mod error;
mod eviction;
mod format;
mod given;
mod index;
mod inspect;
mod lifecycle;
mod modelled;
mod object;
mod pace;
pub mod parse;
mod recovery;
mod repair;
mod segment;
mod snapshot;
mod stats;
mod store;
mod superblocks;
#[cfg(test)]
mod tests;
mod trial;
mod types;
mod watch;
mod zone_set;

pub use allocator::PutHints;
pub use buffer::{BufferFile, BufferFiles, two_files};
pub use config::{CleaningPolicy, FormatOptions, Options};
pub use error::{Error, ErrorKind, Result};
pub use given::{ArrayDrive, IndexPlace};
pub use inspect::check::{CheckOptions, CheckReport, check};
pub use inspect::condition::{Condition, DriveCondition};
pub use inspect::unopened::{Absent, DriveInspection, Inspection, SetInspection, array_of, inspect};
pub use lifecycle::create::format;
pub use modelled::{Laid, Load};
pub use object::get::{Object, Reader};
pub use object::naming::{Naming, quoted};
pub use object::put::{Put, Stored};
pub use recovery::recover::RecoveryReport;
pub use repair::readmit::Readmitted;
pub use repair::scrub::{ScrubOptions, ScrubReport};
pub use repair::told::{RebuildOptions, RebuildProgress};
pub use store::{ArrayStore, Stats};
pub use types::{ATTRIBUTES_MAX, Completion, DriveId, NAME_MAX, Part, PartPlace, SetId, SetState, Version};
pub use watch::patient;
