//! Garbage collection: costs of choices, and progress where space is short.

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod policies;
mod reclaim;
