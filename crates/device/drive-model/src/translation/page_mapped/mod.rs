//! A page-mapped layer, as SSDs have: the host's pages lie where they were written last, in rows of erase blocks, one of each die.
//! The row with the fewest live pages is cleaned first (greedy), in the background while rows are short or the host is quiet, and
//! before the host's writes when none is left. (Dissertation, section 5.6.2.)
//!
//! # Invariants
//! - DM-PAGE-1: a row is erased only when none of its pages lives.
//! - DM-PAGE-2: the host never takes the last free row, so that cleaning has room to copy to.

mod clean;
mod cleaner;
mod layer;
mod map;
mod rows;
#[cfg(test)]
mod tests;

pub(super) use layer::drive;
