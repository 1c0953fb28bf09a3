//! The contract between a disk and its data.

use bytes::Bytes;
use shingle_runtime::LocalBoxFuture;
use shingle_zoned_linux::{UblkCommand, UblkShape};

/// A command that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// There is nothing more to say.
    Plain,
    /// With these bytes, one piece behind the other.
    Data(Vec<Bytes>),
    /// An append, which landed at this sector of 512 bytes.
    Appended(u64),
}

/// A command that failed: the system's number of an error, and words for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The number, positive.
    pub errno: i32,
    /// The words.
    pub message: String,
}

/// The data of a disk.
pub trait Backend {
    /// The shape that the kernel is told of.
    ///
    /// # Errors
    /// The reason why it can be no disk of the kernel.
    fn shape(&self) -> Result<UblkShape, String>;

    /// Does a command, with the data that came with it.
    fn execute(&self, command: UblkCommand, data: Bytes) -> LocalBoxFuture<'_, Result<Done, Refused>>;
}
