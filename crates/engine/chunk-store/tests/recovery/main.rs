//! Openings of drives that were damaged, or that cannot be read for a while.

#[path = "../common/mod.rs"]
mod common;
mod damage;
mod lives;
mod memory;
mod openings;
mod unreadable;
