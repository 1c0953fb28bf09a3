//! `shingle blue`: buckets and objects on one zoned drive.

mod check;
mod look;
mod make;
mod opened;
mod single;
mod target;

use clap::Subcommand;

use crate::failure::Outcome;

pub(crate) const ABOUT: &str = "\
Keep buckets and objects on one zoned drive: data raw in zones, names and all other metadata in a store of keys beside them.

A server serves such a drive over S3 (`[[blue]]` in its configuration); these commands work on a drive that no server has open. \
docs/blue.md tells more.";

/// Commands on a drive with objects.
#[derive(Subcommand)]
pub(crate) enum Blue {
    /// Make an empty store of objects on a drive: `shingle blue format disk.shingle`
    Format(make::Format),
    /// List buckets, or the objects of one.
    Ls(look::Ls),
    /// Show an object: `shingle blue stat disk.shingle photos/one.jpg`
    Stat(single::Stat),
    /// Show how much room there is, and what the next opening has to do.
    Df(look::Df),
    /// Hold names, metadata and zones against each other, and with --deep read and verify all data. Exit status: 0 clean, 4 damage, 8
    /// could not run.
    Check(check::Check),
    /// Print the zones of data, and with --metadata all keys of the metadata, as JSON.
    Dump(look::Dump),
    /// Store a file, or standard input, as an object: `shingle blue put disk.shingle photos/one.jpg one.jpg`
    Put(single::Put),
    /// Write an object to a file, or to standard output: `shingle blue get disk.shingle photos/one.jpg -o one.jpg`
    Get(single::Get),
    /// Delete objects, and buckets that hold nothing. Asks first.
    Rm(single::Rm),
}

impl Blue {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::Format(format) => format.run(),
            Self::Ls(ls) => ls.run(),
            Self::Stat(stat) => stat.run(),
            Self::Df(df) => df.run(),
            Self::Check(check) => check.run(),
            Self::Dump(dump) => dump.run(),
            Self::Put(put) => put.run(),
            Self::Get(get) => get.run(),
            Self::Rm(rm) => rm.run(),
        }
    }
}
