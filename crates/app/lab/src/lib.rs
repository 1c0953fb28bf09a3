//! The lab: experiments that ask one question of the papers each, and answer with numbers and a figure.
//!
//! **Owns** workloads, baselines, experiments and their reports.
//! **Knows nothing of** wall-clock time: everything runs on modelled drives, in virtual time, from a seed.

pub mod baseline;
pub mod calls;
pub mod change;
pub mod constants;
pub mod context;
pub mod error;
pub mod experiment;
pub mod experiments;
pub mod inputs;
mod known;
pub mod load;
pub mod report;
pub mod rig;
pub mod runs;
pub mod skylight;
pub mod targets;
pub mod trace;
