//! Buckets, objects and uploads in parts on an array: the contract of `store-api`, kept on `array-store`.
//!
//! Small objects are one object of the array, whose attributes are the metadata. Larger ones, and parts, are blobs: objects of
//! the array that nobody sees until a small object names them. So a completion copies nothing, and what is seen changes by
//! one write.
//!
//! **Owns** the names and attributes of everything in its array. **Knows nothing of** drives, zones, or who asks.
//!
//! # Invariants
//! - AO-OBJ-1: an acknowledged change survives a power cut at any instant: it is one object of the array, durable.
//! - AO-OBJ-2: an object is there whole or not at all: its blobs are durable before the object that names them.
//! - AO-OBJ-3: a blob is deleted only when no object and no upload names it, and no reader is reading it.
//! - AO-OBJ-4: what nobody names comes back as space, also after a power cut.
//! - AO-OBJ-5: a put that failed may have landed: a delete that is acknowledged after it is final.
//! - AO-OBJ-6: what puts and uploads that failed left in a bucket never shows in a later bucket of that name: the bucket is deleted after it.
//!   `what_a_failed_put_left_is_not_in_a_later_bucket_of_that_name`.
//!
//! All of them: `tests/store.rs`. Map: `names` and `format` have the array's contents, `engine` the calls, `client`,
//! `writer` and `reader` the way in from other threads.

mod client;
mod engine;
mod errors;
mod format;
mod names;
mod naming;
mod notices;
mod options;
pub mod parse;
mod places;
mod reader;
mod writer;

pub use client::ArrayClient;
pub use engine::run::ArrayEngine;
pub use engine::salvage::{Salvage, Salvaged, salvage};
pub use engine::survey::survey;
pub use naming::NAMING;
pub use options::{ArrayFigures, Options};
