//! Bands that are written in sequence, each to a spare band of its own, at no cost of copies.

use std::ops::Range;

use crate::command::Op;
use crate::translation::extents::Extent;
use crate::translation::managed::{Inside, Work};

use super::layer::{FullyAssociativeLayer, Task};
use super::zone::{Logged, Stream};

/// Blocks from which a write at a band's start counts as the start of a sequential one.
const STREAM_MIN: u64 = 64;

/// Sequential writes that a zone follows at once.
const STREAMS_MAX: usize = 4;

impl FullyAssociativeLayer {
    /// Writes a part of a band that is written from its start on to a spare band of its own.
    pub(super) fn write_in_sequence(&mut self, inside: &mut Inside, host: Work, part: &Range<u64>) -> bool {
        let zone_at = self.zone_of(part.start);
        let (number, band) = (self.bands.number(part.start), self.bands.of(part.start));
        let begins = part.start == band.start && part.end - part.start >= STREAM_MIN;
        let zone = &mut self.zones[zone_at];
        let known = zone.streams.iter().position(|stream| stream.band == number);
        let known = match known {
            Some(known) if zone.streams[known].end == part.start => known,
            None if begins && zone.free.len() > self.reserve && zone.streams.len() < STREAMS_MAX => {
                let Some(to) = zone.free.pop_front() else { return false };
                zone.streams.push(Stream { band: number, to, end: part.start, writing: 0 });
                zone.streams.len() - 1
            }
            _ => return false,
        };
        let stream = &mut zone.streams[known];
        stream.end = part.end;
        stream.writing += 1;
        let at = stream.to * self.band_blocks + (part.start - band.start);
        self.run(inside, Op::Write, at, part.end - part.start, Task::Stream(host, part.clone()));
        true
    }

    /// Ends a sequential write that does not go on: its part of the band becomes a logged one.
    pub(super) fn break_stream(&mut self, zone_at: usize, band: u64) {
        let streams = &mut self.zones[zone_at].streams;
        let Some(at) = streams.iter().position(|stream| stream.band == band) else { return };
        let Stream { to, end, .. } = streams.remove(at);
        let start = band * self.band_blocks;
        let extent = Extent { start, blocks: end - start, at: to * self.band_blocks, owner: to };
        let written = std::iter::once(start..end).collect();
        self.zones[zone_at].logged.push_back(Logged { band: to, written, live: extent.blocks });
        self.enter(zone_at, extent);
    }

    /// A part of a sequential write ended. With the last one of its band the spare band takes the band's place.
    pub(super) fn streamed(&mut self, zone_at: usize, part: &Range<u64>) {
        let (number, band) = (self.bands.number(part.start), self.bands.of(part.start));
        let streams = &mut self.zones[zone_at].streams;
        let Some(at) = streams.iter().position(|stream| stream.band == number) else { return };
        streams[at].writing -= 1;
        if streams[at].writing > 0 || streams[at].end != band.end {
            return;
        }
        let Stream { to, .. } = streams.remove(at);
        let old = std::mem::replace(&mut self.places[number as usize], to);
        self.zones[zone_at].free.push_back(old);
        for replaced in self.map.remove(&band) {
            self.let_go(zone_at, replaced.owner, replaced.blocks);
        }
    }
}
