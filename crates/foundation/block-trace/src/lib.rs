//! Block traces: reads, writes, flushes, trims and zeros of a disk, with arrival times, durability and dependencies.
//! (docs/formats/block-trace.md)
//!
//! **Owns** the format, its rules, and the order in which requests that are under way become I/Os of a trace. **Knows nothing of** clocks, files and
//! compression: times are handed in, and bytes go to whoever asked.

pub mod blocks;
mod error;
pub mod io;
pub mod lines;
pub mod recorder;

pub use error::TraceError;
