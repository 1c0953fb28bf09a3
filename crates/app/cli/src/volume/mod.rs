//! `shingle volume`: drives as disks that can be written anywhere, for any file system.

mod attach;
mod check;
mod create;
mod disk;
mod export;
mod look;
mod ls;
mod opened;
mod remove;
mod resize;
mod snapshot;

use clap::Subcommand;

use crate::failure::Outcome;

pub(crate) const ABOUT: &str = "\
Make a disk of a zoned drive, which takes writes anywhere, and serve it.

A volume is all of a drive. It is served over NBD, which the kernel (a disk in /dev that takes any file system), QEMU, fio \
and many other programs speak. docs/volumes.md tells more.";

/// Commands on volumes.
#[derive(Subcommand)]
pub(crate) enum Volume {
    /// Make an empty volume on a drive: `shingle volume create disk.shingle`
    Create(create::Create),
    /// List the volumes on the drives of this machine, with the sizes they were made with: `shingle volume ls`
    Ls(ls::Ls),
    /// Show a volume: sizes, use of its zones, what its next opening has to do.
    Stat(look::Stat),
    /// Read and verify everything. Exit status: 0 clean, 4 damage, 8 could not run.
    Check(check::Check),
    /// Print a volume's state, as JSON.
    Dump(look::Dump),
    /// Change a volume's size: `shingle volume resize disk.shingle 20GiB`
    Resize(resize::Resize),
    /// Keep a volume as it is now: `shingle volume snapshot take disk.shingle before-upgrade`
    #[command(subcommand, long_about = snapshot::ABOUT)]
    Snapshot(snapshot::Snapshot),
    /// Remove a volume; its data is lost. Asks first.
    Rm(remove::Remove),
    /// Serve volumes over NBD, until a signal: `shingle volume export disk.shingle`
    Export(export::Export),
    /// Make a disk of this machine of a volume, until a signal: `shingle volume attach disk.shingle`
    Attach(attach::Attach),
    /// Take such a disk away: `shingle volume detach /dev/nbd0`
    Detach(attach::Detach),
}

impl Volume {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::Create(create) => create.run(),
            Self::Ls(ls) => shingle_runtime::real::run(|rt| ls.run(rt))?,
            Self::Stat(stat) => stat.run(),
            Self::Check(check) => check.run(),
            Self::Dump(dump) => dump.run(),
            Self::Resize(resize) => resize.run(),
            Self::Snapshot(snapshot) => snapshot.run(),
            Self::Rm(remove) => remove.run(),
            Self::Export(export) => export.run(),
            Self::Attach(attach) => attach.run(),
            Self::Detach(detach) => detach.run(),
        }
    }
}
