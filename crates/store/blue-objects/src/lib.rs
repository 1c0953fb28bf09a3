//! Buckets, objects and uploads in parts on one zoned drive: the contract of `store-api`, kept on `blue-store`.
//!
//! Names are keys of omaps, in their order; bytes lie in objects of their own. All are in one collection, so a put is one transaction:
//! its bytes go to zones, and its name becomes visible with the batch that names their places. Larger bodies are written piece by piece while
//! they come, and a durable list of what is being written, or still to be removed, says at the next opening what nobody names.
//!
//! **Owns** the names and attributes on its drive. **Knows nothing of** zones, of the store of metadata, or who asks.
//!
//! # Invariants
//! - BO-OBJ-1: an acknowledged change survives a power cut at any instant: it is one transaction, durable.
//! - BO-OBJ-2: an object is there whole or not at all: its name comes with the last of its bytes, in one transaction.
//! - BO-OBJ-3: bytes that a reader has open stay until it is dropped.
//! - BO-OBJ-4: bytes that nobody names are on the list of those that go, durably, before a power cut can make them so.
//!
//! All of them: `tests/store`. Map: `ids` and `format` have the drive's contents, `engine` the calls, `client`, `writer` and `reader` the
//! way in from other threads, `check` a look at the whole.

mod check;
mod client;
mod engine;
mod errors;
mod format;
mod ids;
mod layout;
mod notices;
mod options;
pub mod parse;
mod reader;
mod writer;

pub use check::{Checked, Progress, check, repair};
pub use client::BlueClient;
pub use engine::run::BlueEngine;
pub use errors::from_blue;
pub use options::{BlueFigures, Options};
