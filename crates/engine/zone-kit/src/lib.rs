//! Plumbing that engines on zoned drives share.
//!
//! **Owns** the joining of many calls into one, and flushes that are shared.
//! **Knows nothing of** records, chunks, sets or any engine's formats.

mod flush;
mod join;

pub use flush::{Flusher, flush};
pub use join::Joint;
