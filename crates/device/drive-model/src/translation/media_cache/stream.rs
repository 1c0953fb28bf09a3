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

    /// Blocks that are lost if power fails now: the band's tracks from the one being written on overlap.
    pub(super) fn torn(&self, bands: &Bands) -> Vec<Range<u64>> {
        self.open.iter().map(|open| open.end..bands.of(open.start).end).filter(|range| !range.is_empty()).collect()
    }
}
