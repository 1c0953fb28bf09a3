//! Cleaning: sectors that live in a zone are copied elsewhere, so that it becomes empty.
//!
//! The keeper takes the closed zone with the fewest sectors alive (greedy), and copies them in the order of the volume, packed into
//! full pairs at a frontier of their own.

mod copy;
mod victim;
