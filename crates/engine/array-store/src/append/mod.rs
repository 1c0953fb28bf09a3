//! Appending to open sets: what is written, how it reaches the drives, and how sets end. (SMORE, sections III-B to III-D.)

pub(crate) mod ending;
pub(crate) mod item;
pub(crate) mod open_set;
pub(crate) mod stamps;
pub(crate) mod uncovered;
pub(crate) mod writer;
