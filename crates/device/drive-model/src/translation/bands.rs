//! Bands: sets of adjacent tracks that are rewritten as one. (Skylight, section 2.2.)

use std::ops::Range;

use crate::surface::Surface;

/// Blocks of a MiB.
const MIB: u64 = 256;

/// The host's blocks in bands, which follow each other from the first block on.
#[derive(Clone, Debug)]
pub(crate) struct Bands {
    stretches: Vec<Stretch>,
    blocks: u64,
}

/// Bands of the same size.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first_block: u64,
    first_band: u64,
    band_blocks: u64,
}

impl Bands {
    /// Bands of one size.
    pub(crate) fn equal(blocks: u64, band_blocks: u64) -> Self {
        Self { stretches: vec![Stretch { first_block: 0, first_band: 0, band_blocks }], blocks }
    }

    /// Bands of so many tracks each, in whole MiB: large at the outer diameter, small at the inner one, of one size within a
    /// recording zone. `place` gives the place of a block of the host.
    pub(crate) fn of_tracks(blocks: u64, tracks: u64, surface: &Surface, place: impl Fn(u64) -> u64) -> Self {
        let mut stretches = Vec::new();
        let (mut block, mut band) = (0, 0);
        while block < blocks {
            let here = place(block);
            let band_blocks = (surface.track_blocks(here) * tracks / MIB * MIB).max(MIB);
            let left = surface.zone_end(here).min(place(blocks - 1) + 1).saturating_sub(here);
            let count = (left / band_blocks).max(1);
            stretches.push(Stretch { first_block: block, first_band: band, band_blocks });
            block += count * band_blocks;
            band += count;
        }
        Self { stretches, blocks }
    }

    /// The band of a block.
    pub(crate) fn of(&self, block: u64) -> Range<u64> {
        let stretch = self.stretch(block);
        let number = (block - stretch.first_block) / stretch.band_blocks;
        let start = stretch.first_block + number * stretch.band_blocks;
        start..(start + stretch.band_blocks).min(self.blocks)
    }

    /// Number of the band of a block.
    pub(crate) fn number(&self, block: u64) -> u64 {
        let stretch = self.stretch(block);
        stretch.first_band + (block - stretch.first_block) / stretch.band_blocks
    }

    /// The parts of a range in each of its bands.
    pub(crate) fn parts(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut parts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let end = self.of(at).end.min(range.end).max(at + 1);
            parts.push(at..end);
            at = end;
        }
        parts
    }

    fn stretch(&self, block: u64) -> Stretch {
        let after = self.stretches.partition_point(|stretch| stretch.first_block <= block);
        self.stretches[after.saturating_sub(1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_follow_each_other_and_have_numbers() {
        let bands = Bands {
            stretches: vec![
                Stretch { first_block: 0, first_band: 0, band_blocks: 30 },
                Stretch { first_block: 90, first_band: 3, band_blocks: 20 },
            ],
            blocks: 145,
        };
        assert_eq!([0, 29, 30, 89, 90, 109, 140].map(|block| bands.number(block)), [0, 0, 1, 2, 3, 3, 5]);
        assert_eq!([bands.of(31), bands.of(95), bands.of(144)], [30..60, 90..110, 130..145]);
        assert_eq!(bands.parts(&(85..115)), [85..90, 90..110, 110..115]);
    }
}
