//! The contract of a drive under test: accesses and their times, and nothing else.
//!
//! **Owns** the words of the contract. **Knows nothing of** the insides of any drive.
//!
//! # Invariants
//! - SKY-TARGET-1: tests know a drive by this contract alone; none is told the profile of a modelled one.

mod modelled;

pub use modelled::{Host, Modelled};

use std::fmt;

/// Nanoseconds of the target's clock.
pub type Nanos = u64;

/// Bytes of a block, the unit of all addresses.
pub const BLOCK: u64 = 4096;

/// Blocks of a MiB.
pub const MIB: u64 = 256;

/// Kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads blocks, not from the host's memory.
    Read,
    /// Writes blocks.
    Write,
    /// Makes all writes before it durable.
    Flush,
}

/// An access to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its kind.
    pub op: Op,
    /// Its first block.
    pub at: u64,
    /// Its blocks.
    pub blocks: u64,
}

impl Access {
    /// A read.
    pub fn read(at: u64, blocks: u64) -> Self {
        Self { op: Op::Read, at, blocks }
    }

    /// A write.
    pub fn write(at: u64, blocks: u64) -> Self {
        Self { op: Op::Write, at, blocks }
    }

    /// A flush.
    pub fn flush() -> Self {
        Self { op: Op::Flush, at: 0, blocks: 0 }
    }
}

/// Times of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its submission.
    pub begun: Nanos,
    /// Its completion.
    pub ended: Nanos,
    /// The drive could not read the blocks.
    pub unreadable: bool,
}

impl Taken {
    /// Milliseconds from submission to completion.
    pub fn ms(&self) -> f64 {
        (self.ended - self.begun) as f64 / 1e6
    }
}

/// Reason why a target cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetError(pub String);

impl fmt::Display for TargetError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for TargetError {}

/// A drive under test.
pub trait Target {
    /// Blocks that can be addressed.
    fn blocks(&self) -> u64;

    /// The time now.
    fn now(&self) -> Nanos;

    /// True if the drive may be written to.
    fn is_writable(&self) -> bool;

    /// The thing between the host and the drive, with its article, if it has times of its own: "a file system". `None`: nothing.
    fn through(&self) -> Option<&'static str> {
        None
    }

    /// Keeps `depth` accesses outstanding until all are done; their times, in order.
    ///
    /// # Errors
    /// The drive is gone, or refuses the accesses.
    fn run(&mut self, depth: usize, accesses: &[Access]) -> Result<Vec<Taken>, TargetError>;

    /// Leaves the drive alone for that long.
    ///
    /// # Errors
    /// As [`Target::run`].
    fn idle(&mut self, nanos: Nanos) -> Result<(), TargetError>;

    /// Turns the volatile cache on or off; what it held is durable before. `false`: it stays as it is.
    ///
    /// # Errors
    /// As [`Target::run`].
    fn set_volatile_cache(&mut self, on: bool) -> Result<bool, TargetError>;

    /// Makes the drive as new, as a secure erase does. `false`: this cannot be done, and nothing has changed.
    ///
    /// # Errors
    /// As [`Target::run`].
    fn erase(&mut self) -> Result<bool, TargetError>;

    /// Takes the drive's power away, and gives it back. `false`: this cannot be done.
    ///
    /// # Errors
    /// As [`Target::run`].
    fn cut_power(&mut self) -> Result<bool, TargetError>;
}
