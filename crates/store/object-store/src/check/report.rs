//! A check's depth, progress and findings.

use std::collections::BTreeSet;
use std::fmt;

use shingle_base::printable;
use shingle_store_api::Finding;

/// Depth of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The index against the chunk lists.
    Quick,
    /// Also every byte of every file.
    Full,
}

/// Findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Objects looked at.
    pub objects: u64,
    /// Entries read, in a full check.
    pub entries: u64,
    /// Bytes read and verified, in a full check.
    pub bytes: u64,
    /// Problems, each in a sentence that names the place and the objects that are touched: the first [`DAMAGE_MAX`].
    pub damage: Vec<Finding>,
    /// Number of further problems.
    pub damage_more: u64,
    /// The objects of which something is damaged: at most [`DAMAGE_MAX`].
    pub damaged_objects: BTreeSet<ObjectName>,
    /// The uploads under way of which something is: at most as many.
    pub damaged_uploads: BTreeSet<ObjectName>,
    /// There are more of them than are named.
    pub unnamed: bool,
}

/// Sentences, and names, of a report: a lost drive damages millions of objects, and the first show it.
pub const DAMAGE_MAX: usize = 10_000;

/// A bucket and a key. Shown so that a terminal can take it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", printable(self.bucket.as_bytes()), printable(self.key.as_bytes()))
    }
}

/// Progress of a full check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckProgress {
    /// Bytes of files that were read, or passed over.
    pub done: u64,
    /// Bytes of all files.
    pub all: u64,
}

impl CheckReport {
    /// True if there are no problems.
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty()
    }
}
