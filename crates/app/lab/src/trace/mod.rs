//! Traces: recorded I/Os, and the ways to read them. [`blocks`] are this project's block traces, [`foreign`] formats of others, and
//! [`recording`] commands of real file systems to zoned drives, which [`replay`] plays.

pub mod blocks;
pub mod depend;
pub mod foreign;
pub mod input;
pub mod io;
pub mod lines;
pub mod looped;
pub mod order;
pub mod parse;
pub mod recording;
pub mod replay;
pub mod stat;
