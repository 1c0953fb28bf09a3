//! Sessions: a command reads, stores or deletes single objects of a running server, through the socket in its data directory.
//!
//! The command upgrades its connection, and then sends calls, each a line of JSON; a piece of an object follows its line as it
//! is. Each call has one reply, with `alive` lines before it while the server works.
//!
//! # Invariants
//! - SV-ASK-4: a session has at most one piece of [`PIECE_BYTES_MAX`] in memory, which counts for `limits.memory`.
//! - SV-ASK-5: an object is stored only by a commit: of a command that ends before, nothing is left. (`test_running.py`)

mod client;
mod noted;
mod serve;
mod wire;

pub use client::Served;
pub(crate) use serve::{Session, begin};

/// Path of the request that begins a session.
pub(crate) const PATH: &str = "/session";
/// Protocol that the connection is upgraded to.
pub(crate) const PROTOCOL: &str = "shingle-session";
/// Longest piece of an object.
const PIECE_BYTES_MAX: u64 = 4 << 20;
