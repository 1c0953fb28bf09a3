//! Simulation: virtual time, devices with faults, and power cuts, all from a seed.
//!
//! **Owns** the executor that runs engines in virtual time, and the device that fails on demand.
//! **Knows nothing of** engines: they see only the contracts of `runtime` and `zoned`; of object stores it knows the contract.
//!
//! # Invariants
//! - SIM-1: the same seed gives the same run, to the last command.
//! - SIM-2: a crash image holds everything that was durable, and of the rest, zone by zone, a prefix (DEV-3).

pub mod clients;
mod device;
mod executor;
mod faults;
mod seeds;
mod spoil;
mod timers;
mod timing;

pub use device::{Command, CommandKind, Counts, SimDevice};
pub use executor::Sim;
pub use faults::{Fault, FaultRule, Faults, Trigger};
pub use seeds::{Random, seeds};
