//! The run that streams, and the band that it overwrites.

use std::ops::Range;

use crate::translation::bands::Bands;

/// The run that streams, and what is under way of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub(super) stage: Stage,
    /// Band that is being overwritten in its place, from its first block that was, and up to where it has new data.
    pub(super) open: Option<Range<u64>>,
}

#[derive(Clone, Debug, Default)]
pub(super) enum Stage {
    #[default]
    Idle,
    /// Blocks of a run go to their band.
    Writes {
        run: u64,
        blocks: Range<u64>,
    },
    /// The run ended amid a band, whose rest is read, and written again.
    ReadsRest {
        rest: Range<u64>,
    },
    WritesRest,
}

impl Stream {
    pub(super) fn runs(&self) -> bool {
        !matches!(self.stage, Stage::Idle)
    }

    /// Blocks that are lost if power fails now: those that are being written, and a track behind them, which the head overlaps.
    /// (Figure 2.23.)
    pub(super) fn torn(&self, bands: &Bands, band_tracks: u64) -> Vec<Range<u64>> {
        let Some(open) = &self.open else { return Vec::new() };
        let band = bands.of(open.start);
        let written = match &self.stage {
            Stage::Writes { blocks, .. } => blocks.end,
            Stage::WritesRest => band.end,
            Stage::Idle | Stage::ReadsRest { .. } => open.end,
        };
        let end = (written + (band.end - band.start).div_ceil(band_tracks)).min(band.end);
        std::iter::once(open.end..end).filter(|range| !range.is_empty()).collect()
    }
}
