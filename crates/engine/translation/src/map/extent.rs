//! An extent: sectors of a volume that follow each other on the drive too.

use std::ops::Range;

use crate::place::{Place, Stride};

/// Sectors that an extent in a map has at most.
pub const LENGTH_MAX: u32 = u16::MAX as u32;

/// Sectors of a volume that follow each other on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its first sector, as the volume counts.
    pub lba: u64,
    /// Its length.
    pub sectors: u32,
    /// The place of its first sector. [`Place::advance`] tells those of the others.
    pub place: Place,
}

impl Extent {
    /// The sector behind it.
    pub fn end(&self) -> u64 {
        self.lba.saturating_add(u64::from(self.sectors))
    }

    /// The part of it in `range`; of no sectors if there is none.
    #[must_use]
    pub fn part(&self, range: &Range<u64>, stride: Stride) -> Self {
        let lba = range.start.clamp(self.lba, self.end());
        let end = range.end.clamp(lba, self.end());
        // Both are at most its length.
        let (skipped, sectors) = ((lba - self.lba) as u32, (end - lba) as u32);
        Self { lba, sectors, place: self.place.advance(skipped, stride) }
    }

    /// Both are one extent if `next` follows it: in the volume and on the drive, and short enough.
    pub(super) fn takes(&self, next: &Self, stride: Stride) -> bool {
        self.end() == next.lba
            && self.sectors.saturating_add(next.sectors) <= LENGTH_MAX
            && self.place.advance(self.sectors, stride) == next.place
    }
}
