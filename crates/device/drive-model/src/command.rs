//! Commands that a drive takes, and the unit of its time.

/// Nanoseconds since the start of the caller's clock.
pub type Nanos = u64;

/// The caller's number of a command.
pub type CommandId = u64;

/// Kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads blocks.
    Read,
    /// Writes blocks.
    Write,
    /// Writes blocks, and completes when they are durable, whatever cache the drive has (force unit access).
    WriteThrough,
    /// Tells that the host needs blocks no more. Their contents are undefined afterwards.
    Trim,
    /// Opens a zone.
    Open,
    /// Closes or finishes a zone.
    Close,
    /// Empties a zone.
    Reset,
    /// Reports zones.
    Report,
    /// Makes every write before it durable.
    Flush,
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its kind.
    pub op: Op,
    /// Its first block (of 4 KiB), from the start of the drive.
    pub at: u64,
    /// Blocks read or written; for a report, blocks of the answer.
    pub blocks: u64,
    /// This write opens its zone.
    pub opens: bool,
}
