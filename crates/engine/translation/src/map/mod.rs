//! The extent map: the place of each sector of a volume that was written. (FSTL, section III-A.)
//!
//! It is a B+-tree of two levels of directory above leaves of 4 KiB, built for memory: 12 B an extent and no pointer among them.
//! A full leaf shares with its neighbours, and four full ones become five, so a map that only grows stays four fifths full.
//! [`ExtentMap::tidy`] makes one that has shrunk dense again.
//!
//! All calls take time in the logarithm of the number of extents, for each extent that they report, change or displace. Sector
//! numbers may be anything: a caller refuses those that its volume does not have.
//!
//! **Owns** the extents. **Knows nothing of** zones, or of data.
//!
//! # Invariants
//! - TL-MAP-1: extents have at least one sector, do not overlap, and stand in order. Two that follow each other, in the volume
//!   and on the drive, are one, unless it would be longer than [`LENGTH_MAX`].
//! - TL-MAP-2: extents that were put in at random, or tidied, take at most 16 B each, directory and all.
//! - TL-MAP-3: the pieces that [`ExtentMap::replace`] reports are those sectors of its range that had a place, each with that place.
//! - TL-MAP-4: two neighbouring leaves hold more than three quarters of a leaf together, unless they are too far apart to be one.

mod balance;
mod check;
mod directory;
mod extent;
mod leaf;
mod load;
mod replace;
mod scan;
mod tidy;

pub use extent::{Extent, LENGTH_MAX};
pub use load::Malformed;

use self::directory::Directory;
use crate::place::Stride;

/// The extents of a volume. Sectors in none of them were never written, or were discarded.
///
/// `N` extents fit in a leaf, `D` leaves in a node; tests take smaller ones than the default, to meet more of them.
#[derive(Clone, Debug)]
pub struct ExtentMap<const N: usize = 336, const D: usize = 512> {
    stride: Stride,
    directory: Directory<N, D>,
    /// Number of extents.
    len: u64,
    /// For moving extents between leaves; empty meanwhile.
    scratch: Vec<Extent>,
}

impl<const N: usize, const D: usize> ExtentMap<N, D> {
    /// A map of nothing. `stride` is the size of full records on the drive.
    pub fn new(stride: Stride) -> Self {
        Self { stride, directory: Directory::new(), len: 0, scratch: Vec::new() }
    }

    /// Number of extents.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// No sector has a place.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that are allocated for it, by its own count.
    pub fn memory_bytes(&self) -> u64 {
        (self.directory.memory_bytes() + self.scratch.capacity() * size_of::<Extent>()) as u64
    }
}
