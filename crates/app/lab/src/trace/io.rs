//! I/Os of block traces, and sources of them.

pub use shingle_block_trace::io::{AFTER_MAX, Io, IoKind, LENGTH_MAX, SECTOR, SIZE_MAX, WINDOW};

use crate::error::LabError;

/// I/Os of a trace, in the order of their arrival.
pub type Ios = Box<dyn Iterator<Item = Result<Io, LabError>>>;

/// A source of I/Os that can be read again and again, always the same ones for a seed.
pub trait Source: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Bytes of its address space.
    fn size_bytes(&self) -> u64;

    /// The I/Os from the beginning. A recording has the same ones for every seed.
    ///
    /// # Errors
    /// It cannot be read.
    fn open(&self, seed: u64) -> Result<Ios, LabError>;
}
