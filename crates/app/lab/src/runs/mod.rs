//! Runs of experiments: which ones a verdict is of, and one outcome out of them.
//!
//! **Owns** seeds and hypotheses of runs, and the sweep of assumed constants.
//! **Knows nothing of** threads: a caller makes runs in any order, on as many as it likes, and gets the same outcome.

pub mod join;
pub mod plan;
pub mod sweep;
