//! `shingle files`: files of databases on a drive.

mod check;
mod copy;
mod look;
mod make;
mod map;
mod opened;
mod single;

use clap::Subcommand;

use crate::failure::Outcome;

pub(crate) const ABOUT: &str = "\
Keep the files of a database on a zoned drive: write-ahead logs, sorted tables, and the small files beside them.

The files take all of a drive. A sync of a log is one write to it, and tables that live equally long share zones. docs/files.md \
tells more.";

/// Commands on files.
#[derive(Subcommand)]
pub(crate) enum Files {
    /// Make an empty store of files on a drive: `shingle files format disk.shingle`
    Format(make::Format),
    /// List files: `shingle files ls disk.shingle db`
    Ls(look::Ls),
    /// Show how much room there is, and what the next opening has to do.
    Df(look::Df),
    /// Read and verify everything. Exit status: 0 clean, 4 damage, 8 could not run.
    Check(check::Check),
    /// Print zones and the files in them, as JSON.
    Dump(look::Dump),
    /// Draw the data zones by the files that they are for.
    Map(map::Map),
    /// Print a file: `shingle files cat disk.shingle db/CURRENT`
    Cat(single::Cat),
    /// Remove a file, or a directory with all that it holds. Asks first.
    Rm(single::Rm),
    /// Copy all files to a directory of this machine: `shingle files backup disk.shingle copy`
    Backup(copy::Backup),
    /// Copy a directory of this machine to the drive: `shingle files restore disk.shingle copy`
    Restore(copy::Restore),
}

impl Files {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::Format(format) => format.run(),
            Self::Ls(ls) => ls.run(),
            Self::Df(df) => df.run(),
            Self::Check(check) => check.run(),
            Self::Dump(dump) => dump.run(),
            Self::Map(map) => map.run(),
            Self::Cat(cat) => cat.run(),
            Self::Rm(rm) => rm.run(),
            Self::Backup(backup) => backup.run(),
            Self::Restore(restore) => restore.run(),
        }
    }
}
