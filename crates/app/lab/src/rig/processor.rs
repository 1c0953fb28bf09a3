//! The processor of a server in virtual time: its cores, and the cost of each kind of work.

use std::rc::Rc;

use shingle_runtime::Work;
use shingle_sim::{Costs, Processor};

/// Cores of SMRstore's server (Table 2). One store is one thread's, so that they count where several work at once.
pub const CORES: u32 = 48;

/// Costs of work.
///
/// Measured on 2026-11-25 on one core of an AMD EPYC in a virtual machine, by a release build
/// (`cargo run --release -p shingle-lab --example work-costs`); the example says what each is measured of.
pub const COSTS: Costs = Costs::FREE
    .with(Work::Byte, 45)
    .with(Work::Record, 500_000)
    .with(Work::Entry, 1_350_000)
    .with(Work::Extent, 700_000)
    .with(Work::Load, 650_000)
    .with(Work::Change, 4_600_000)
    .with(Work::Scan, 95_000);

/// A server's processor.
pub fn server() -> Rc<Processor> {
    Processor::new(CORES, COSTS)
}

/// One of so many cores, for drives with every `every`th zone: a checkpoint's work is that of whole drives.
pub fn of_whole_drives(cores: u32, every: u32) -> Rc<Processor> {
    Processor::new(cores, COSTS.times(Work::Entry, every).times(Work::Extent, every))
}
