//! Simulation: virtual time, devices with faults, and power cuts, all from a seed.
//!
//! **Owns** the executor that runs engines in virtual time, and the device that fails on demand.
//! **Knows nothing of** engines: they see only the contracts of `runtime` and `zoned`; of object stores it knows the contract.
//!
//! # Invariants
//! - SIM-1: the same seed gives the same run, to the last command.
//! - SIM-2: a crash image holds everything that was durable (but for SIM-7), and of the rest, zone by zone, a prefix (ZD-DEV-3).
//! - SIM-3: a flush makes durable what had completed when it began, and nothing that completed later.
//!   (`a_flush_covers_what_had_completed_when_it_began`)
//! - SIM-4: a crash image with [`Survival::AnySubset`] holds everything that was durable, of each zone a state that it had
//!   since, and of the blocks written since any subset, as a file drive does whose host loses power (ZD-FD-2). Blocks behind the write
//!   pointer are gone, since the drive clears them before the zone is written on again (ZD-FD-5).
//! - SIM-5: a fault of the medium (a block that cannot be read, rot, a dead zone) is in every image and in every later life,
//!   until it is healed or the block is written again.
//! - SIM-6: a kill loses nothing, and makes nothing durable.
//! - SIM-7: blocks that a modelled drive that translates inside was overwriting in their places when the power failed, and those
//!   that its head overlaps, cannot be read in the image, durable or not, until they are written again.
//! - SIM-8: a thread does one thing at a time, and a processor at most as many as it has cores.
//! - SIM-9: a command that fails may have taken its whole effect, and one that hangs may take it when nobody waits for it any more. A
//!   lost flush takes the drive with it, and a zone that fails what its cache holds.

mod calls;
pub mod clients;
mod command;
mod crowd;
mod cut;
mod device;
mod effect;
mod executor;
mod failure;
mod faults;
mod file;
mod lane;
pub mod lives;
mod medium;
mod processor;
mod seeds;
mod spoil;
mod thread;
mod timers;
mod timing;

pub use command::{Command, CommandKind, Counts};
pub use crowd::Crowd;
pub use cut::{Cuts, Survival};
pub use device::SimDevice;
pub use executor::Sim;
pub use faults::{Fault, FaultRule, Faults, Trigger};
pub use file::{Mirrors, SimFile};
pub use medium::Medium;
pub use processor::{Costs, Processor};
pub use seeds::{Random, Seeds, contents, seeds};
pub use thread::Runtimes;
pub use timing::TimedDrive;
