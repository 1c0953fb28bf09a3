//! Commands as tests see them: kinds, numbers and counts.

use shingle_base::{Blocks, ZoneId};

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandKind {
    /// A zone report.
    Report,
    /// A read.
    Read,
    /// A write or append.
    Write,
    /// Open, close or finish.
    Manage,
    /// A reset.
    Reset,
    /// A flush.
    Flush,
}

impl CommandKind {
    pub(crate) const COUNT: usize = 6;
}

/// A command, as it is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its number, from 0.
    pub number: u64,
    /// Its kind.
    pub kind: CommandKind,
    /// Its zone, if it has one.
    pub zone: Option<ZoneId>,
    /// Its length, if it has one.
    pub blocks: Blocks,
}

/// Commands so far, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All commands.
    pub commands: u64,
    /// Reads, and blocks read.
    pub reads: (u64, u64),
    /// Writes and appends, and blocks written.
    pub writes: (u64, u64),
    /// Resets.
    pub resets: u64,
    /// Flushes.
    pub flushes: u64,
}
