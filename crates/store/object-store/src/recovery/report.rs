//! Findings and progress of an opening.

use std::fmt;

use shingle_base::StoreId;

use crate::options::Place;

/// Origin of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexOrigin {
    /// The store is empty.
    New,
    /// It was there, and only what was written last had to be added.
    Kept,
    /// It was lost; a backup was loaded, and what was written since was added.
    Backup,
    /// It was lost; everything was read from the drives.
    Scan,
}

/// A place that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The drive's store.
    pub store: StoreId,
    /// The drive, for people.
    pub drive: String,
    /// Its place.
    pub place: Place,
    /// Description of the problem.
    pub why: String,
    /// The drive did not give it, and may another time: every opening looks there again. Else it is told once.
    pub again: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { drive, place: Place { file, ordinal, from, to }, why, again, .. } = self;
        let later = if *again { "; it may be readable another time" } else { "" };
        write!(f, "file {file} of {drive}: chunk {ordinal}: bytes {from} to {to}: {why}{later}")
    }
}

/// Report of opening a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenReport {
    /// The store set, as chunk ids name it.
    pub set: u32,
    /// Origin of the index.
    pub index: IndexOrigin,
    /// Reason why an existing index was not kept.
    pub index_refused: Option<String>,
    /// Files on the drives.
    pub files: u64,
    /// Chunks on the drives, and how many of them are not this store's.
    pub chunks: u64,
    /// Chunks that no object store made.
    pub foreign_chunks: u64,
    /// Entries read and added to the index.
    pub entries: u64,
    /// Bytes read for them.
    pub bytes: u64,
    /// Drives the index knows that are not there.
    pub missing_drives: Vec<StoreId>,
    /// Places that could not be read, but for those given up.
    pub damage: Vec<Damage>,
    /// Places that this opening gave up ([`accept_loss`](crate::Options::accept_loss)).
    pub given_up: Vec<Damage>,
    /// Something that is on the drives may not have been seen: graves and what seems left over stay (OS-REC-4).
    pub incomplete: bool,
    /// Large objects that were being written when the store stopped, and whose segments are now garbage.
    pub abandoned_writes: u64,
    /// Buckets whose own entries are lost and that were made again because they hold objects.
    pub implied_buckets: Vec<String>,
}

/// Progress of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files to scan.
    pub files: u64,
    /// Files scanned.
    pub files_done: u64,
    /// Bytes those files have beyond what the index knew.
    pub bytes: u64,
    /// Bytes of them passed.
    pub bytes_done: u64,
    /// Entries found.
    pub entries: u64,
}

/// Hears of progress.
pub type ProgressFn = Box<dyn FnMut(Progress)>;
