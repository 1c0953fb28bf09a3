//! `shingle array`: objects on many drives, without a server.

mod drives;
mod format;
mod look;
mod place;
mod salvage;
mod serving;
mod taking;
mod telling;
mod transfer;
mod upkeep;
mod verify;
mod words;

use clap::Subcommand;

pub(crate) use self::verify::{found_json, outcome, tell_lacks};
use crate::failure::Outcome;

/// Head of `shingle array --help`: the array, and the place of its drives' names.
pub(crate) const ABOUT: &str = r#"Keep objects on many drives, so that a lost one costs none of them.

Objects are stored with parity, so that one or more of the drives can be lost. The array's file, which `shingle array format` writes, names the drives, as other commands name them and in any order:

    drives = ["serial:ZL2AAAAA", "serial:ZL2BBBBB", "/srv/disk.shingle"]
    index = "/var/lib/shingle/array.index"   # optional, on an SSD: the array opens at once
    buffer = ["/ssd1/array.buffer", "/ssd2/array.buffer"]   # optional, on two SSDs: small objects are safe in both at once
    buffer_time_s = 30   # optional: how long they may be there alone while a server runs

Commands take the file from --array or from SHINGLE_ARRAY; or they take the drives, with --drive for each.

While a server has the array open, `ls`, `stat` and `check` ask it: name its --config or --data. The others need it stopped; `shingle object` gets, puts and deletes objects meanwhile.

An array that was closed in order has nothing in its buffer: only then may `buffer` be taken out of the file, or be given two other files. One of the two may be replaced at any time; it gets what the other holds."#;

/// Commands on an array.
#[derive(Subcommand)]
pub(crate) enum Array {
    /// Make an empty array: `shingle array format --array shelf.toml --code 2+1 a.shingle b.shingle c.shingle`
    Format(format::Format),
    /// Store a file, or standard input: `shingle array put films/one.mkv one.mkv`
    Put(transfer::Put),
    /// Write an object to a file, or to standard output: `shingle array get films/one.mkv -o one.mkv`
    Get(transfer::Get),
    /// List objects: size in bytes, name. Also while a server has the array open.
    Ls(look::Ls),
    /// Delete objects.
    Rm(upkeep::Rm),
    /// Show an object, or the array: drives, room, and the report of opening it; also while a server has it open.
    /// Status 4 if a drive is missing or something is damaged.
    Stat(look::Stat),
    /// Reclaim the space of deleted and replaced objects now.
    Gc(upkeep::Gc),
    /// Save the index on the drives now, so that opening the array after a crash takes less time.
    Snapshot(upkeep::Snapshot),
    /// Rebuild the data of lost drives on free zones of the others or of added drives. Asks before it gives up a
    /// missing drive.
    Rebuild(drives::Rebuild),
    /// Take back drives that were given up and are present again; data that they missed is rebuilt.
    Readmit(drives::Readmit),
    /// Add drives, and take back those that were given up: `shingle array add /dev/sdx --array shelf.toml`
    Add(drives::Add),
    /// Take a drive out after moving its data to the others: `shingle array remove serial:ZL2AAAAA`
    Remove(drives::Remove),
    /// Read and verify everything, and replace damaged zones.
    Scrub(verify::Scrub),
    /// List objects of a server whose records were lost, or restore them from their bytes: `shingle array salvage --yes`
    Salvage(salvage::Salvage),
    /// Read and verify everything, and change nothing; beside clients, gently, if a server has the array open. Status 0: clean, 4: damaged, 8: could not run.
    Check(verify::Check),
    /// Print the state of drives and zones; changes nothing, even if drives are missing.
    Dump(look::Dump),
}

impl Array {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::Format(format) => format.run(),
            Self::Put(put) => put.run(),
            Self::Get(get) => get.run(),
            Self::Ls(ls) => ls.run(),
            Self::Rm(rm) => rm.run(),
            Self::Stat(stat) => stat.run(),
            Self::Gc(gc) => gc.run(),
            Self::Snapshot(snapshot) => snapshot.run(),
            Self::Rebuild(rebuild) => rebuild.run(),
            Self::Readmit(readmit) => readmit.run(),
            Self::Add(add) => add.run(),
            Self::Remove(remove) => remove.run(),
            Self::Scrub(scrub) => scrub.run(),
            Self::Salvage(salvage) => salvage.run(),
            Self::Check(check) => check.run(),
            Self::Dump(dump) => dump.run(),
        }
    }
}
