//! Long sequential runs, which go from the volatile cache to their bands. (Dissertation, sections 2.4.11 and 3.4.3.)

use crate::command::{Nanos, Op};
use crate::translation::managed::{Inside, Medium};
use crate::translation::steps::PIECE;

use super::layer::{MediaCacheLayer, work};
use super::stream::Stage;

impl MediaCacheLayer {
    /// Time at which the run that streams counts as ended, if it does not go on.
    pub(super) fn stream_ends(&self) -> Option<Nanos> {
        let hold = self.spec.volatile?.hold;
        let (_, run) = self.runs.stream().filter(|_| !self.stream.runs())?;
        Some(run.last + hold)
    }

    /// Sends the next piece of a streaming run to its band, or ends the run.
    pub(super) fn go_streaming(&mut self, inside: &mut Inside) {
        let Some(volatile) = self.spec.volatile.filter(|_| !self.stream.runs()) else { return };
        let Some((number, run)) = self.runs.stream() else { return };
        let over = run.last + volatile.hold <= inside.now();
        let (blocks, pressed) = (run.blocks.clone(), over || self.presses());
        let band = self.bands.of(blocks.start);
        let piece = blocks.start..blocks.end.min(band.end).min(blocks.start + PIECE);
        let whole = piece.end - piece.start == PIECE || piece.end == band.end;
        if !piece.is_empty() && (whole || pressed) {
            if self.stream.open.as_ref().is_none_or(|open| open.end != piece.start || open.start < band.start) {
                self.stream.open = Some(piece.start..piece.start);
            }
            inside.run(Medium::Disk, Op::Write, self.layout.native(piece.start), piece.end - piece.start, work::STREAM);
            self.stream.stage = Stage::Writes { run: number, blocks: piece };
        } else if piece.is_empty() && over {
            self.runs.end_stream(number);
            self.end_band(inside);
        }
    }

    /// The rest of a band behind a run's end is written again: the run has overwritten a part of its tracks.
    fn end_band(&mut self, inside: &mut Inside) {
        let Some(open) = self.stream.open.clone() else { return };
        let rest = open.end..self.bands.of(open.start).end;
        if rest.is_empty() {
            self.stream.open = None;
            return;
        }
        inside.run(Medium::Disk, Op::Read, self.layout.native(rest.start), rest.end - rest.start, work::STREAM);
        self.stream.stage = Stage::ReadsRest { rest };
    }

    /// The stream's internal command ended.
    pub(super) fn streamed(&mut self, inside: &mut Inside) {
        match std::mem::take(&mut self.stream.stage) {
            Stage::Writes { run, blocks } => {
                let replaced = self.map.remove(&blocks);
                self.let_go(&replaced);
                self.runs.gone(run, blocks.end);
                let band_end = self.bands.of(blocks.start).end;
                self.stream.open = match self.stream.open.take() {
                    Some(open) if blocks.end < band_end => Some(open.start..blocks.end),
                    _ => None,
                };
            }
            Stage::ReadsRest { rest } => {
                let at = self.layout.native(rest.start);
                inside.run(Medium::Disk, Op::Write, at, rest.end - rest.start, work::STREAM);
                self.stream.stage = Stage::WritesRest;
            }
            Stage::WritesRest => self.stream.open = None,
            Stage::Idle => {}
        }
    }
}
