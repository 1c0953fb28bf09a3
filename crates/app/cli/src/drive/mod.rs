//! `shingle drive`: making drives and looking after them. Verbs and abbreviations follow blkzone.

mod attach;
mod create;
mod doctor;
mod identify;
mod ls;
mod manage;
pub(crate) mod map;
mod partition;
mod report;
mod selection;
mod words;

use clap::Subcommand;
use shingle_zoned::ZoneOp;

use crate::failure::Outcome;

/// Commands on a drive.
#[derive(Subcommand)]
pub(crate) enum Drive {
    /// List the zoned drives of this machine, their limits and contents: `shingle drive ls`
    Ls(ls::Ls),
    /// Find a drive by a name that stays, or name one: `shingle drive identify serial:ZL2XXXXX`
    Identify(identify::Identify),
    /// Make an emulated drive in a sparse file: `shingle drive create disk.shingle --size 20TB`
    Create(create::Create),
    /// Make a zoned disk of this machine of an emulated drive, until a signal: `shingle drive attach disk.shingle`
    Attach(attach::Attach),
    /// Take such a disk away: `shingle drive detach /dev/ublkb0`
    Detach(attach::Detach),
    /// Find settings of the machine and its drives to change, and say why: `shingle drive doctor`
    Doctor(doctor::Doctor),
    /// Divide a drive into partitions: `shingle drive partition add disk.shingle store=40GiB vm1=max`
    #[command(subcommand, long_about = partition::ABOUT)]
    Partition(partition::Partition),
    /// List a drive's zones: `shingle drive report disk.shingle`
    Report(report::Report),
    /// Show all of a drive as coloured cells: `shingle drive map disk.shingle`
    Map(map::Map),
    /// Open zones explicitly: `shingle drive open disk.shingle 7`
    ///
    /// They stay open until they are closed, full, or reset, and an engine closes them when it opens the drive. Nothing
    /// is lost; asks if the drive holds a store (--yes: does not).
    Open(manage::Manage),
    /// Close open zones: `shingle drive close disk.shingle 7-12`
    ///
    /// Nothing is lost; asks if the drive holds a store (--yes: does not). A zone without written blocks becomes empty.
    Close(manage::Manage),
    /// Make zones full: `shingle drive finish disk.shingle 7 9`
    ///
    /// They take no more writes until a reset. Asks on a terminal; elsewhere it needs --yes.
    Finish(manage::Manage),
    /// Empty zones, whose data is lost: `shingle drive reset disk.shingle 5 7-12`
    ///
    /// Lists the data that will be lost and asks on a terminal; elsewhere it needs --yes.
    Reset(manage::Manage),
}

impl Drive {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::Ls(ls) => shingle_runtime::real::run(|rt| ls.run(rt))?,
            Self::Identify(identify) => shingle_runtime::real::run(|rt| identify.run(rt))?,
            Self::Create(create) => create.run(),
            Self::Attach(attach) => attach.run(),
            Self::Detach(detach) => detach.run(),
            Self::Doctor(doctor) => shingle_runtime::real::run(|rt| doctor.run(rt))?,
            Self::Partition(partition) => partition.run(),
            Self::Report(report) => shingle_runtime::real::run(|rt| report.run(rt))?,
            Self::Map(map) => shingle_runtime::real::run(|rt| map.run(rt))?,
            Self::Open(zones) => zones.run(ZoneOp::Open),
            Self::Close(zones) => zones.run(ZoneOp::Close),
            Self::Finish(zones) => zones.run(ZoneOp::Finish),
            Self::Reset(zones) => zones.run(ZoneOp::Reset),
        }
    }
}
