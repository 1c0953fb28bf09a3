//! Writing to zones: commands on them, and lanes that write what waits for one.

mod commands;
mod lane;

pub use commands::{AfterFailure, ZoneCommands, give_up_active};
pub use lane::{Command, Lane, Writer, write_lane};
