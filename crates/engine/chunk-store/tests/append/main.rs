//! Appends at the limits of a drive: open zones, errors of writes, and waits.

#[path = "../common/mod.rs"]
mod common;
mod limits;
mod resets;
mod stalls;
mod unwritable;
