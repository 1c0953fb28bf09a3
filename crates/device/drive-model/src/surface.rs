//! Position of a block: recording zones from outer to inner diameter, runs of tracks, heads, skew.
//!
//! Blocks fill a run of adjacent tracks of one surface, then the run of the same cylinders on the next surface, and after
//! the last surface go one run inwards: so neighbouring zones lie at nearly the same radius. Each track starts a little
//! later in the turn than the one before it (skew), so that a sequential transfer meets it right after the switch.

use crate::command::Nanos;

/// A recording zone: the tracks with the same number of blocks. (Not a zone of a zoned drive.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Band {
    first_block: u64,
    first_cylinder: u64,
    first_track: u64,
    track_blocks: u64,
    run_tracks: u64,
}

/// Position of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The distance from the outermost track, in tracks.
    pub cylinder: u64,
    /// The surface.
    pub head: u32,
    /// Nanoseconds of a turn until the block's start passes the head, from the turn's own start.
    pub angle: Nanos,
    /// Blocks of its track from here on, itself included.
    pub left: u64,
    /// Blocks of its track.
    pub track_blocks: u64,
}

/// The surfaces of a disk.
#[derive(Clone, Debug)]
pub struct Surface {
    bands: Vec<Band>,
    /// Blocks of a stretch (as a power of two), and for each stretch the band in which it begins.
    stretches: (u32, Vec<u32>),
    heads: u64,
    revolution: Nanos,
    skew: Nanos,
    cylinders: u64,
    blocks: u64,
    /// Runs on odd heads go outwards again (they cannot on shingled tracks).
    serpentine: bool,
}

/// Parameters of a [`Surface`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SurfaceSpec {
    pub(crate) blocks: u64,
    pub(crate) heads: u32,
    pub(crate) revolution: Nanos,
    pub(crate) skew: Nanos,
    /// Blocks of the outermost and innermost track.
    pub(crate) outer_track: f64,
    pub(crate) inner_track: f64,
    pub(crate) bands: u32,
    pub(crate) run_blocks: u64,
    pub(crate) serpentine: bool,
}

impl Surface {
    pub(crate) fn new(spec: &SurfaceSpec) -> Self {
        let heads = u64::from(spec.heads);
        let count = u64::from(spec.bands.max(1));
        let mean = (spec.outer_track + spec.inner_track) / 2.0;
        let cylinders_wanted = spec.blocks as f64 / (mean * heads as f64);
        let mut bands = Vec::new();
        let (mut block, mut cylinder, mut track) = (0, 0, 0);
        for number in 0..count {
            // Equal widths; the track length falls linearly with the radius.
            let x = (number as f64 + 0.5) / count as f64;
            let track_blocks = (spec.outer_track + (spec.inner_track - spec.outer_track) * x) as u64;
            let run_tracks = spec.run_blocks.div_ceil(track_blocks);
            let groups = ((cylinders_wanted / count as f64 / run_tracks as f64) as u64).max(1);
            bands.push(Band {
                first_block: block,
                first_cylinder: cylinder,
                first_track: track,
                track_blocks,
                run_tracks,
            });
            // The last one takes the blocks that rounding left over.
            block += groups * run_tracks * track_blocks * heads;
            cylinder += groups * run_tracks;
            track += groups * run_tracks * heads;
        }
        if let Some(last) = bands.last() {
            let group = last.run_tracks * last.track_blocks * heads;
            cylinder =
                last.first_cylinder + spec.blocks.saturating_sub(last.first_block).div_ceil(group) * last.run_tracks;
        }
        let shift = (u64::BITS - spec.blocks.leading_zeros()).saturating_sub(10);
        let begins =
            |stretch: u64| bands.partition_point(|band| band.first_block <= stretch << shift).saturating_sub(1) as u32;
        let stretches = (shift, (0..=spec.blocks >> shift).map(begins).collect());
        Self {
            bands,
            stretches,
            heads,
            revolution: spec.revolution,
            skew: spec.skew,
            cylinders: cylinder,
            blocks: spec.blocks,
            serpentine: spec.serpentine,
        }
    }

    /// Cylinders from the outermost to the innermost.
    pub fn cylinders(&self) -> u64 {
        self.cylinders
    }

    /// Blocks in all.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Position of a block.
    pub fn position(&self, block: u64) -> Position {
        let band = self.band(block);
        let offset = block - band.first_block;
        let track = offset / band.track_blocks;
        let sector = offset % band.track_blocks;
        let (run, in_run) = (track / band.run_tracks, track % band.run_tracks);
        let (group, head) = (run / self.heads, run % self.heads);
        let inwards = !self.serpentine || head % 2 == 0;
        let in_run = if inwards { in_run } else { band.run_tracks - 1 - in_run };
        let turned = (band.first_track + track) * self.skew + sector * self.revolution / band.track_blocks;
        Position {
            cylinder: band.first_cylinder + group * band.run_tracks + in_run,
            head: head as u32,
            angle: turned % self.revolution,
            left: band.track_blocks - sector,
            track_blocks: band.track_blocks,
        }
    }

    /// Blocks of a block's track.
    pub(crate) fn track_blocks(&self, block: u64) -> u64 {
        self.band(block).track_blocks
    }

    /// End of the recording zone of a block.
    pub(crate) fn zone_end(&self, block: u64) -> u64 {
        let next = self.bands.partition_point(|band| band.first_block <= block);
        self.bands.get(next).map_or(self.blocks, |band| band.first_block)
    }

    /// Nanoseconds from the start of a transfer of `blocks` at `position` to its end, track switches included; and how
    /// many tracks it touches.
    pub(crate) fn transfer(&self, position: &Position, blocks: u64) -> (Nanos, u64) {
        let switches =
            if blocks <= position.left { 0 } else { (blocks - position.left).div_ceil(position.track_blocks) };
        (blocks * self.revolution / position.track_blocks + switches * self.skew, switches + 1)
    }

    fn band(&self, block: u64) -> &Band {
        let (shift, begins) = &self.stretches;
        // A block behind the last stretch lies in the last band.
        let mut at = begins.get((block >> shift) as usize).map_or(self.bands.len() - 1, |&band| band as usize);
        while self.bands.get(at + 1).is_some_and(|next| next.first_block <= block) {
            at += 1;
        }
        &self.bands[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surface(serpentine: bool) -> Surface {
        Surface::new(&SurfaceSpec {
            blocks: 1 << 30,
            heads: 4,
            revolution: 8_333_333,
            skew: 800_000,
            outer_track: 500.0,
            inner_track: 250.0,
            bands: 10,
            run_blocks: 65_536,
            serpentine,
        })
    }

    #[test]
    fn tracks_grow_shorter_inwards_and_the_disk_holds_all_blocks() {
        let surface = surface(true);
        let places: Vec<_> = (0..1000).map(|at| surface.position(at * (1 << 30) / 1000)).collect();
        assert!(places.is_sorted_by_key(|place| std::cmp::Reverse(place.track_blocks)));
        assert!((470..=500).contains(&places[0].track_blocks) && (250..=280).contains(&places[999].track_blocks));
        assert!(places.iter().all(|place| place.cylinder < surface.cylinders()));
        assert!(places[999].cylinder * 10 > surface.cylinders() * 9, "the last blocks lie at the inner diameter");
    }

    #[test]
    fn blocks_that_follow_each_other_pass_the_head_one_after_the_other() {
        for serpentine in [false, true] {
            let surface = surface(serpentine);
            let block_time = |place: &Position| 8_333_333 / place.track_blocks;
            for block in 0..200_000 {
                let (here, next) = (surface.position(block), surface.position(block + 1));
                let gap = (next.angle + 8_333_333 - here.angle) % 8_333_333;
                let switch = if here.left == 1 { 800_000 } else { 0 };
                let expected = block_time(&here) + switch;
                assert!(gap.abs_diff(expected) <= 2, "block {block}: {gap} instead of {expected}");
                let step = here.cylinder.abs_diff(next.cylinder);
                let same_run = here.head == next.head;
                assert!(!same_run || step <= 1, "block {block}: {step} cylinders");
                assert!(!serpentine || same_run || step == 0 || next.head == 0, "block {block} after a head switch");
            }
        }
    }

    #[test]
    fn a_transfer_takes_its_blocks_and_its_track_switches() {
        let surface = surface(true);
        let place = surface.position(0);
        let track = place.track_blocks;
        assert_eq!(surface.transfer(&place, track), (8_333_333, 1));
        assert_eq!(surface.transfer(&place, track + 1).1, 2);
        let (nanos, tracks) = surface.transfer(&place, track * 10);
        assert_eq!((nanos, tracks), (83_333_330 + 9 * 800_000, 10));
        let middle = surface.position(track - 1);
        assert_eq!(surface.transfer(&middle, 2).1, 2);
    }
}
