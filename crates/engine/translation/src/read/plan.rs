//! Commands of a read: runs of blocks, each with the parts of pairs in it.

use shingle_base::ZoneId;
use shingle_record::PairPlan;

use crate::layout::Shape;
use crate::map::Extent;

/// Limits of the commands of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// Blocks that a command reads at most, if it reads more than one part.
    blocks_max: u32,
    /// Blocks between two parts that are read with them.
    gap_max: u32,
}

impl Reach {
    /// For callers, who wait for what they asked for.
    pub(crate) const CALLER: Self = Self { blocks_max: 1024, gap_max: 4 };

    /// For copies: 256 KiB go by under a disk's head sooner than the head finds another place. Commands of 1 MiB, so that a caller's
    /// read waits for few of them.
    pub(crate) const COPY: Self = Self { blocks_max: 256, gap_max: 64 };
}

/// Some of a pair's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The pair's first block, in its zone.
    pub(crate) pair: u32,
    pub(crate) plan: PairPlan,
    /// The first block to be read, in its zone.
    pub(crate) first: u32,
    /// Its first byte, in what is being read.
    pub(crate) at: usize,
}

/// Blocks that one command reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) zone: ZoneId,
    /// The first block, and the one behind the last.
    pub(crate) blocks: std::ops::Range<u32>,
    pub(crate) parts: Vec<Part>,
}

impl Run {
    /// Adds the parts of an extent to runs, whose first byte is byte `at` of what is being read.
    pub(crate) fn add(runs: &mut Vec<Self>, extent: &Extent, at: usize, shape: Shape, reach: Reach) {
        let mut done = 0;
        while done < extent.sectors {
            let place = extent.place.advance(done, shape.stride());
            let (zone, pair) = shape.home(place.record());
            let sectors =
                (shape.pair_sectors() - place.sector().min(shape.pair_sectors() - 1)).min(extent.sectors - done);
            let bytes = |sectors: u32| shape.bytes(u64::from(sectors)) as u32;
            let plan = PairPlan::new(bytes(place.sector()), bytes(sectors));
            let first = pair + plan.first_block().0 as u32;
            let part = Part { pair, plan, first, at: at + bytes(done) as usize };
            Self::add_part(runs, zone, part, first + plan.blocks().0 as u32, reach);
            done += sectors;
        }
    }

    fn add_part(runs: &mut Vec<Self>, zone: ZoneId, part: Part, end: u32, reach: Reach) {
        if let Some(run) = runs.last_mut()
            && run.zone == zone
            && part.first >= run.blocks.start
            && part.first <= run.blocks.end + reach.gap_max
            && end - run.blocks.start <= reach.blocks_max
        {
            run.blocks.end = run.blocks.end.max(end);
            run.parts.push(part);
            return;
        }
        runs.push(Self { zone, blocks: part.first..end, parts: vec![part] });
    }
}
