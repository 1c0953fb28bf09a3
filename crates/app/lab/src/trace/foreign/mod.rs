//! Formats of others' traces, and of this project's older recordings: one module each.
//!
//! A reader gives one I/O after the other, as it finds them, and keeps only a bounded part of the trace in memory. Times may be of
//! any clock, volumes are told apart, and addresses and lengths may be of any number of bytes: [`Input`](super::input::Input) brings
//! these into the form of a block trace.

mod blkparse;
mod format;
mod msr;
mod reader;
mod recorded;
mod spc;
mod srt;
mod tencent;
mod vscsi;

pub use format::Format;
pub use reader::{Raw, Reader, Volumes};
