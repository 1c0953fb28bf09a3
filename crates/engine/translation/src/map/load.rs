//! A map made of extents in order, as a checkpoint has them.

use super::ExtentMap;
use super::extent::{Extent, LENGTH_MAX};
use super::leaf::Leaf;
use crate::place::Stride;

/// Extents that are no map: one has no sectors, ends behind the last number, or begins before the end of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The first sector of that extent.
    pub lba: u64,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the extent at sector {} is empty, too long or not in order", self.lba)
    }
}

impl std::error::Error for Malformed {}

impl<const N: usize, const D: usize> ExtentMap<N, D> {
    /// A map of `sorted`, in dense leaves. Extents may be of any length; those that continue each other are joined. Refuses the
    /// first one that is empty, out of order or ends behind `u64::MAX`.
    ///
    /// # Errors
    /// [`Malformed`] names the extent that is refused.
    pub fn load(stride: Stride, sorted: impl IntoIterator<Item = Extent>) -> Result<Self, Malformed> {
        let mut map = Self::new(stride);
        let mut open: Option<Extent> = None;
        let mut end = 0;
        for extent in sorted {
            let malformed = Malformed { lba: extent.lba };
            if extent.sectors == 0 || extent.lba < end {
                return Err(malformed);
            }
            end = extent.lba.checked_add(u64::from(extent.sectors)).ok_or(malformed)?;
            let mut lba = extent.lba;
            while lba < end {
                let most = lba.saturating_add(u64::from(LENGTH_MAX));
                let piece = extent.part(&(lba..most), stride);
                lba = piece.end();
                open = Some(match open {
                    Some(open) if open.takes(&piece, stride) => {
                        Extent { sectors: open.sectors + piece.sectors, ..open }
                    }
                    closed => {
                        closed.into_iter().for_each(|closed| map.append(closed));
                        piece
                    }
                });
            }
        }
        open.into_iter().for_each(|closed| map.append(closed));
        Ok(map)
    }

    /// Puts an extent behind all others.
    fn append(&mut self, extent: Extent) {
        self.len += 1;
        let last = self.directory.last();
        let leaf = last.and_then(|at| self.directory.leaf_mut(at));
        match leaf.filter(|leaf| leaf.count() < Self::DENSE && leaf.reaches(extent.lba)) {
            Some(leaf) => leaf.insert(leaf.count(), extent),
            None => {
                let mut leaf = Leaf::new();
                leaf.fill(&[extent]);
                self.directory.insert(last, leaf);
            }
        }
    }
}
