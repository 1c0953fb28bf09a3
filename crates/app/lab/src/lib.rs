//! The lab: experiments that ask one question of the papers each, and answer with numbers and a figure.
//!
//! **Owns** workloads, baselines, experiments and their reports.
//! **Knows nothing of** wall-clock time: everything runs on modelled drives, in virtual time, from a seed.

pub mod array;
pub mod baseline;
pub mod drives;
pub mod engine;
pub mod experiment;
pub mod experiments;
pub mod figure;
pub mod host;
pub mod load;
pub mod opening;
pub mod output;
pub mod replay;
pub mod report;
pub mod scaling;
pub mod ssd;
pub mod store;
pub mod target;
pub mod trace;
