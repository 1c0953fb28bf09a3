//! Drives as the Linux kernel has them.
//!
//! **Owns** what is known of block devices ([`System`], [`Drive`]).
//! **Knows nothing of** records or engines.

use std::io;
use std::path::Path;

mod discover;
mod drive;

pub use discover::System;
pub use drive::{Drive, WriteCache, ZonedModel};

/// All drives of this machine: [`System::discover`].
///
/// # Errors
/// There is no `/sys/block`, or it cannot be read.
pub fn discover() -> io::Result<Vec<Drive>> {
    System::host().discover()
}

/// The drive or partition of this machine whose node is at `path`: [`System::describe`].
///
/// # Errors
/// Nothing there, no block device, or one that sysfs does not know.
pub fn describe(path: &Path) -> io::Result<Drive> {
    System::host().describe(path)
}
