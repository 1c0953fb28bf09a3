//! Traces: recorded I/Os, and the ways to read them. [`blocks`] are this project's block traces, [`foreign`] formats of others, [`own`] those that are built in, and
//! [`recording`] commands of real file systems to zoned drives, which [`replay`] plays.

pub mod depend;
pub mod foreign;
pub mod input;
pub mod io;
pub mod looped;
pub mod order;
pub mod own;
pub mod parse;
pub mod recording;
pub mod replay;
pub mod stat;

pub use shingle_block_trace::{blocks, lines};
