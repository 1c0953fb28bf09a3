//! Totals of all data zones: sums of blocks, and closed zones in the order in which GC may want them.
//!
//! **Owns** what was counted of each zone. **Knows nothing of** how a zone came to be so: the zone table says which
//! changed, and they are counted anew when somebody asks. So an answer costs what has changed since the last, not a
//! look at every zone.
//!
//! # Invariants
//! - CS-CENSUS-1: whoever asks is told what a count of all zones would say.

use std::collections::{BTreeMap, BTreeSet};

use crate::types::ZoneStatus;
use crate::zones::Zone;

/// Zones by number, in a bit each.
#[derive(Clone, Debug)]
pub(crate) struct ZoneSet {
    words: Vec<u64>,
}

impl ZoneSet {
    /// No zone, of `count`.
    pub(crate) fn new(count: u32) -> Self {
        Self { words: vec![0; count.div_ceil(64) as usize] }
    }

    /// Adds a zone. Returns whether it is new.
    pub(crate) fn insert(&mut self, at: u32) -> bool {
        let word = &mut self.words[at as usize / 64];
        let bit = 1 << (at % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    pub(crate) fn remove(&mut self, at: u32) {
        self.words[at as usize / 64] &= !(1 << (at % 64));
    }

    /// The first at `from` or after it.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        let first = from as usize / 64;
        let masked = self.words.get(first)? & (u64::MAX << (from % 64));
        let rest = self.words.iter().enumerate().skip(first + 1).map(|(at, &word)| (at, word));
        let (at, word) = std::iter::once((first, masked)).chain(rest).find(|&(_, word)| word != 0)?;
        Some(at as u32 * 64 + word.trailing_zeros())
    }

    /// All, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let found = self.next(from)?;
            from = found + 1;
            Some(found)
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

/// A zone's use to GC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    None,
    /// It is closed, and emptying it wins so many blocks at least; its longest record has so many.
    Victim(u8, u32, u32),
    /// It can be read only: what lives in it is to be moved.
    Retreat,
}

/// A zone's share of the totals.
#[derive(Clone, Copy, Debug)]
struct Counted {
    status: ZoneStatus,
    of: Use,
    written: u32,
    live: u32,
    garbage: u32,
    last_write: u64,
}

impl Counted {
    fn new(zone: &Zone, room: u32) -> Self {
        // A zone that recovery could not wholly read is not reset (CS-ZONE-4), so emptying it wins nothing. A read-only
        // zone is not reset anyway: its readable records are moved (CS-GC-6).
        let movable = !zone.damaged && zone.resting.is_none() && zone.landed == 0;
        let gain = gain(zone, room);
        let of = match zone.status {
            ZoneStatus::Closed if movable && !zone.suspect && gain > 0 => {
                Use::Victim(zone.stream.slot() as u8, gain, zone.longest)
            }
            ZoneStatus::ReadOnly if movable && !zone.groups.is_empty() => Use::Retreat,
            _ => Use::None,
        };
        let Zone { status, written, live, last_write, .. } = *zone;
        Self { status, of, written, live, garbage: zone.garbage(), last_write }
    }
}

/// Blocks that emptying a zone wins at least: its garbage, without what may stay free at the end of the zone that its
/// records fill, which is less than the longest of them.
pub(crate) fn gain(zone: &Zone, room: u32) -> u32 {
    room.saturating_sub(zone.live).saturating_sub(zone.longest)
}

/// Sums over zones, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Of live records in all zones.
    pub(crate) live: u64,
    /// Written in zones that take more, without their heads.
    pub(crate) open_written: u64,
    /// Of dead records in zones that take more.
    pub(crate) open_garbage: u64,
    /// Of live records in closed zones.
    pub(crate) closed_live: u64,
}

/// The count of all zones.
#[derive(Clone, Debug)]
pub(crate) struct Census {
    counted: Vec<Option<Counted>>,
    sums: Sums,
    /// Zones that may be emptied, by stream and what lives in them: live blocks, number.
    victims: [BTreeSet<(u32, u32)>; 3],
    /// Blocks that emptying all of them wins at least, by stream.
    gains: [u64; 3],
    /// Number of these zones by the blocks of their longest record, by stream.
    lengths: [BTreeMap<u32, u32>; 3],
    /// Blocks of records that a zone holds.
    room: u32,
    /// The same by when they were last written.
    ages: [BTreeSet<(u64, u32)>; 3],
    retreats: BTreeSet<u32>,
}

impl Census {
    pub(crate) fn new(count: u32, room: u32) -> Self {
        let counted = vec![None; count as usize];
        Self {
            counted,
            sums: Sums::default(),
            victims: Default::default(),
            gains: [0; 3],
            lengths: Default::default(),
            room,
            ages: Default::default(),
            retreats: BTreeSet::new(),
        }
    }

    /// Counts a zone anew.
    pub(crate) fn count(&mut self, at: u32, zone: &Zone) {
        let new = Counted::new(zone, self.room);
        if let Some(old) = self.counted[at as usize].replace(new) {
            self.add(old, false);
            match old.of {
                Use::None => {}
                Use::Victim(stream, gain, longest) => {
                    self.gains[usize::from(stream)] -= u64::from(gain);
                    let lengths = &mut self.lengths[usize::from(stream)];
                    if let Some(zones) = lengths.get_mut(&longest) {
                        *zones -= 1;
                        if *zones == 0 {
                            lengths.remove(&longest);
                        }
                    }
                    self.victims[usize::from(stream)].remove(&(old.live, at));
                    self.ages[usize::from(stream)].remove(&(old.last_write, at));
                }
                Use::Retreat => drop(self.retreats.remove(&at)),
            }
        }
        self.add(new, true);
        match new.of {
            Use::None => {}
            Use::Victim(stream, gain, longest) => {
                self.gains[usize::from(stream)] += u64::from(gain);
                *self.lengths[usize::from(stream)].entry(longest).or_default() += 1;
                self.victims[usize::from(stream)].insert((new.live, at));
                self.ages[usize::from(stream)].insert((new.last_write, at));
            }
            Use::Retreat => drop(self.retreats.insert(at)),
        }
    }

    fn add(&mut self, counted: Counted, there: bool) {
        let put = |sum: &mut u64, blocks: u32| {
            let blocks = u64::from(blocks);
            *sum = if there { *sum + blocks } else { *sum - blocks };
        };
        put(&mut self.sums.live, counted.live);
        match counted.status {
            ZoneStatus::Opened | ZoneStatus::Activated => {
                put(&mut self.sums.open_written, counted.written.saturating_sub(1));
                put(&mut self.sums.open_garbage, counted.garbage);
            }
            ZoneStatus::Closed => put(&mut self.sums.closed_live, counted.live),
            _ => {}
        }
    }

    pub(crate) fn sums(&self) -> Sums {
        self.sums
    }

    /// Blocks that emptying all victims of a stream wins at least.
    pub(crate) fn gains(&self, stream: usize) -> u64 {
        self.gains[stream]
    }

    /// Blocks of the longest record of the victim of a stream of which that is shortest.
    pub(crate) fn shortest(&self, stream: usize) -> u32 {
        self.lengths[stream].first_key_value().map_or(0, |(&longest, _)| longest)
    }

    /// Closed zones of a stream that may be emptied and win something, those with fewest live blocks first: live
    /// blocks, number.
    pub(crate) fn victims(&self, stream: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.victims[stream].iter().copied()
    }

    /// When the one of them was written whose last write is longest ago.
    pub(crate) fn oldest(&self, stream: usize) -> Option<u64> {
        self.ages[stream].first().map(|&(last_write, _)| last_write)
    }

    /// Zones that can be read only and hold what lives.
    pub(crate) fn retreats(&self) -> impl Iterator<Item = u32> + '_ {
        self.retreats.iter().copied()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.counted.capacity() * size_of::<Option<Counted>>()
            + self.victims.iter().map(|set| set.len() * 2 * size_of::<u32>()).sum::<usize>()
            + self.ages.iter().map(|set| set.len() * (size_of::<u64>() + size_of::<u32>())).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_sim::Random;

    #[test]
    fn sets_of_zones_are_searched_in_order() {
        let mut random = Random::new(1);
        for count in [1, 63, 64, 65, 1000] {
            let (mut set, mut expected) = (ZoneSet::new(count), BTreeSet::new());
            for _ in 0..500 {
                let at = random.below(u64::from(count)) as u32;
                if random.chance(0.5) {
                    assert_eq!(set.insert(at), expected.insert(at));
                } else {
                    set.remove(at);
                    expected.remove(&at);
                }
                let from = random.below(u64::from(count) + 70) as u32;
                assert_eq!(set.next(from), expected.range(from..).next().copied());
            }
            assert!(set.iter().eq(expected));
        }
    }
}
