//! The maps of a volume: that of the volume as it is, and one for each snapshot, of the sectors that were changed after it was taken.
//!
//! A snapshot is taken in no time, for its map is empty at first. When a sector is written for the first time after that, its old place goes
//! to the map of the newest snapshot, or [`Place::HOLE`] if it had none. A sector that a snapshot's map lacks is as in the next younger
//! snapshot, and in the end as in the volume.
//!
//! # Invariants
//! - TL-SNAP-1: each place that is in use is in one of the maps, and there once. So zones' counts are exact, and a copy moves one entry.
//! - TL-SNAP-2: a sector of a snapshot, looked up through the maps, has the place that it had when the snapshot was taken, or the one to which
//!   that was moved.

use std::ops::Range;

use shingle_runtime::UnixTime;
use shingle_store_api::{StoreError, StoreErrorKind};

use crate::format::Move;
use crate::map::{Extent, ExtentMap};
use crate::place::{Place, Stride};

/// A snapshot, and the sectors that were changed after it was taken.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The number at which it was taken.
    pub(crate) number: u64,
    /// Its name. `None` once it is to be removed, while its sectors still go to the snapshot before it.
    pub(crate) name: Option<String>,
    pub(crate) taken: UnixTime,
    /// Size of the volume then.
    pub(crate) sectors: u64,
    pub(crate) map: ExtentMap,
}

/// A snapshot that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotGone;

impl From<SnapshotGone> for StoreError {
    fn from(_: SnapshotGone) -> Self {
        Self::new(StoreErrorKind::Unavailable, "the snapshot was removed")
    }
}

/// The fate of sectors that a change took out of the volume's map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nobody needs them.
    Freed,
    /// A snapshot has them from now on.
    Kept,
}

/// All maps.
#[derive(Clone, Debug)]
pub(crate) struct Maps {
    stride: Stride,
    /// The volume as it is.
    pub(crate) live: ExtentMap,
    /// The oldest first.
    pub(crate) snapshots: Vec<Snapshot>,
}

impl Maps {
    pub(crate) fn new(stride: Stride) -> Self {
        Self { stride, live: ExtentMap::new(stride), snapshots: Vec::new() }
    }

    /// Gives sectors of the volume a place, or none. Tells of each extent that lay there what becomes of it.
    pub(crate) fn write(&mut self, range: Range<u64>, place: Option<Place>, mut told: impl FnMut(Extent, Fate)) {
        let Some(newest) = self.snapshots.last_mut() else {
            return self.live.replace(range, place, |extent| told(extent, Fate::Freed));
        };
        let lacking = lacking(&newest.map, range.clone());
        let mut displaced = Vec::new();
        self.live.replace(range, place, |extent| displaced.push(extent));
        if lacking.is_empty() {
            return displaced.into_iter().for_each(|extent| told(extent, Fate::Freed));
        }
        for gap in &lacking {
            newest.map.replace(gap.clone(), Some(Place::HOLE), |_| {});
        }
        for extent in displaced {
            each_side(&extent, &lacking, self.stride, |piece, inside| {
                if inside {
                    newest.map.replace(piece.lba..piece.end(), Some(piece.place), |_| {});
                }
                told(piece, if inside { Fate::Kept } else { Fate::Freed });
            });
        }
    }

    /// Sectors that are in use after a write to `range`, less those that are now.
    pub(crate) fn growth(&self, range: &Range<u64>) -> u64 {
        let mut replaced = 0;
        let newest = self.snapshots.last().map(|newest| lacking(&newest.map, range.clone())).unwrap_or_default();
        self.live.within(range.clone(), |extent| {
            each_side(&extent, &newest, self.stride, |piece, kept| {
                replaced += if kept { 0 } else { u64::from(piece.sectors) };
            });
        });
        range.end - range.start - replaced
    }

    /// Extents of all maps after a change of `range`, less those that there are, at most: an extent goes to the newest snapshot with a hole behind it,
    /// and extents at the ends are cut.
    pub(crate) fn extent_growth(&self, range: &Range<u64>) -> u64 {
        let mut extents = 4;
        self.live.within(range.clone(), |_| extents += 2);
        extents + self.snapshots.last().map_or(0, |newest| 2 * lacking(&newest.map, range.clone()).len() as u64)
    }

    /// The parts of a copy that lie where it was read, in any of the maps.
    pub(crate) fn still_there(&self, lba: u64, sectors: u32, from: Place, mut each: impl FnMut(Extent)) {
        for map in self.all() {
            map.within(lba..lba + u64::from(sectors), |extent| {
                if extent.place == from.advance((extent.lba - lba) as u32, self.stride) {
                    each(extent);
                }
            });
        }
    }

    /// Moves sectors where they lie at the place that they are moved from: one map has them (TL-SNAP-1). Returns how many are the
    /// volume's, and how many only a snapshot's.
    pub(crate) fn relocate(&mut self, moved: &Move) -> (u64, u64) {
        let (Move { lba, sectors, from, to }, stride) = (*moved, self.stride);
        let mut relocated = [0, 0];
        for (at, map) in self.all_mut().enumerate() {
            let mut there = Vec::new();
            map.within(lba..lba + u64::from(sectors), |extent| {
                let onwards = (extent.lba - lba) as u32;
                if extent.place == from.advance(onwards, stride) {
                    there.push(Extent { place: to.advance(onwards, stride), ..extent });
                }
            });
            for extent in there {
                relocated[at.min(1)] += u64::from(extent.sectors);
                map.replace(extent.lba..extent.end(), Some(extent.place), |_| {});
            }
        }
        relocated.into()
    }

    /// All maps, that of the volume first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ExtentMap> {
        std::iter::once(&self.live).chain(self.snapshots.iter().map(|snapshot| &snapshot.map))
    }

    /// As [`all`](Self::all), to be changed.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut ExtentMap> {
        std::iter::once(&mut self.live).chain(self.snapshots.iter_mut().map(|snapshot| &mut snapshot.map))
    }

    /// The extents of `range` as the snapshot `at` has them, or the volume, in order. Sectors that have no place are left out.
    ///
    /// # Errors
    /// The snapshot is gone, or about to be: some of its sectors are with others already.
    pub(crate) fn within(
        &self,
        at: Option<u64>,
        range: Range<u64>,
        mut each: impl FnMut(Extent),
    ) -> Result<(), SnapshotGone> {
        let Some(number) = at else {
            self.live.within(range, each);
            return Ok(());
        };
        let first = self.position(number).filter(|&at| self.snapshots[at].name.is_some()).ok_or(SnapshotGone)?;
        let mut found = Vec::new();
        let mut open = vec![range];
        for snapshot in &self.snapshots[first..] {
            let mut lacked = Vec::new();
            for range in open {
                lacked.extend(lacking(&snapshot.map, range.clone()));
                snapshot.map.within(range, |extent| found.push(extent));
            }
            open = lacked;
        }
        open.into_iter().for_each(|range| self.live.within(range, |extent| found.push(extent)));
        found.retain(|extent| extent.place != Place::HOLE);
        found.sort_unstable_by_key(|extent| extent.lba);
        found.into_iter().for_each(&mut each);
        Ok(())
    }

    /// The map of a snapshot, or of the volume; `None` if the snapshot is gone.
    pub(crate) fn map(&self, at: Option<u64>) -> Option<&ExtentMap> {
        at.map_or(Some(&self.live), |number| self.position(number).map(|at| &self.snapshots[at].map))
    }

    pub(crate) fn position(&self, number: u64) -> Option<usize> {
        self.snapshots.binary_search_by_key(&number, |snapshot| snapshot.number).ok()
    }

    /// Moves up to `most` extents of a snapshot that is to be removed to the one before it, or gives them up; and removes it once none is left.
    /// True then. `told` hears of each extent that nobody needs.
    pub(crate) fn dissolve(&mut self, number: u64, most: usize, mut told: impl FnMut(Extent)) -> bool {
        let Some(at) = self.position(number) else { return true };
        let (older, rest) = self.snapshots.split_at_mut(at);
        let Some(snapshot) = rest.first_mut() else { return true };
        let mut extents = Vec::with_capacity(most.min(snapshot.map.len() as usize));
        let mut from = 0;
        while extents.len() < most
            && let Some(extent) = snapshot.map.next(from)
        {
            from = extent.end();
            extents.push(extent);
        }
        for extent in extents {
            snapshot.map.replace(extent.lba..extent.end(), None, |_| {});
            let range = extent.lba..extent.end();
            let lacking = older.last().map(|older| lacking(&older.map, range)).unwrap_or_default();
            each_side(&extent, &lacking, self.stride, |piece, inside| match older.last_mut() {
                Some(older) if inside => older.map.replace(piece.lba..piece.end(), Some(piece.place), |_| {}),
                _ if piece.place == Place::HOLE => {}
                _ => told(piece),
            });
        }
        if !snapshot.map.is_empty() {
            return false;
        }
        self.snapshots.remove(at);
        true
    }

    /// Extents of all maps.
    pub(crate) fn extents(&self) -> u64 {
        self.all().map(ExtentMap::len).sum()
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.all().map(ExtentMap::memory_bytes).sum()
    }
}

/// The parts of a range that a map lacks, in order.
fn lacking(map: &ExtentMap, range: Range<u64>) -> Vec<Range<u64>> {
    let (mut lacking, mut at) = (Vec::new(), range.start);
    map.within(range.clone(), |extent| {
        if extent.sectors > 0 {
            lacking.extend((at < extent.lba).then_some(at..extent.lba));
            at = extent.end();
        }
    });
    lacking.extend((at < range.end).then_some(at..range.end));
    lacking
}

/// Divides an extent at the borders of ranges, which are in order; tells of each piece whether it lies in one of them.
fn each_side(extent: &Extent, ranges: &[Range<u64>], stride: Stride, mut each: impl FnMut(Extent, bool)) {
    let mut at = extent.lba;
    let mut tell = |range: Range<u64>, inside: bool| {
        let piece = extent.part(&range, stride);
        if piece.sectors > 0 {
            each(piece, inside);
        }
    };
    let first = ranges.partition_point(|range| range.end <= at);
    for range in ranges[first..].iter().take_while(|range| range.start < extent.end()) {
        tell(at..range.start.max(at), false);
        tell(range.start.max(at)..range.end, true);
        at = range.end;
    }
    tell(at..extent.end().max(at), false);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use shingle_base::Lba;
    use shingle_sim::{Random, seeds};

    use super::*;

    const SECTORS: u64 = 60;

    /// The place of each sector, by sector.
    type Model = BTreeMap<u64, u64>;

    fn snapshot(number: u64) -> Snapshot {
        let (name, taken) = (Some(number.to_string()), UnixTime { nanos: number });
        Snapshot { number, name, taken, sectors: SECTORS, map: ExtentMap::new(Stride::ONE) }
    }

    fn seen(maps: &Maps, at: Option<u64>) -> Model {
        let mut seen = Model::new();
        maps.within(at, 0..SECTORS, |extent| {
            for onwards in 0..extent.sectors {
                let place = extent.place.advance(onwards, Stride::ONE);
                assert_eq!(seen.insert(extent.lba + u64::from(onwards), place.record().0), None);
            }
        })
        .expect("it is there");
        seen
    }

    /// TL-SNAP-1, TL-SNAP-2: writes, discards, moves, snapshots and removals, against plain copies of the whole map.
    #[test]
    fn a_snapshot_stays_as_the_volume_was() {
        for seed in seeds(12) {
            let mut random = Random::new(seed);
            let mut maps = Maps::new(Stride::ONE);
            let mut models: BTreeMap<Option<u64>, Model> = [(None, Model::new())].into();
            let mut next_place = 1;
            let mut dying = None;
            for step in 1..400 {
                let lba = random.below(SECTORS);
                let range = lba..(lba + random.between(1, 12)).min(SECTORS);
                let sectors = (range.end - range.start) as u32;
                let in_use = |maps: &Maps| maps.all().map(places_of).map(|places| places.len() as u64).sum::<u64>();
                match random.below(12) {
                    0..=5 => {
                        let place = (random.below(4) > 0).then(|| Place::new(Lba(next_place), 0).unwrap());
                        let (before, growth) = (in_use(&maps), maps.growth(&range));
                        let most = maps.extents() + maps.extent_growth(&range);
                        let mut freed = 0;
                        maps.write(range.clone(), place, |extent, fate| {
                            freed += if fate == Fate::Freed { u64::from(extent.sectors) } else { 0 };
                        });
                        let written = if place.is_some() { u64::from(sectors) } else { 0 };
                        assert_eq!(in_use(&maps), before + written - freed, "seed {seed}, step {step}");
                        assert!(maps.extents() <= most, "seed {seed}, step {step}");
                        assert_eq!(before + growth, before + u64::from(sectors) - freed, "seed {seed}, step {step}");
                        let live = models.get_mut(&None).unwrap();
                        for (onwards, lba) in range.enumerate() {
                            live.remove(&lba);
                            live.extend(place.map(|_| (lba, next_place + onwards as u64)));
                        }
                        next_place += 100;
                    }
                    6 | 7 => {
                        // Copies what one of the maps has at random.
                        let all: Vec<_> = maps.all().flat_map(places_of).collect();
                        let Some(&(lba, from)) = all.get(random.below(all.len().max(1) as u64) as usize) else {
                            continue;
                        };
                        let place = |record| Place::new(Lba(record), 0).unwrap();
                        let moved = Move { lba, sectors: 1, from: place(from), to: place(next_place) };
                        let mut found = 0;
                        maps.still_there(lba, 1, place(from), |_| found += 1);
                        let (live, kept) = maps.relocate(&moved);
                        assert_eq!((live + kept, found), (1, 1), "seed {seed}, step {step}");
                        for place in models.values_mut().filter_map(|model| model.get_mut(&lba)) {
                            *place = if *place == from { next_place } else { *place };
                        }
                        next_place += 100;
                    }
                    8 | 9 if models.len() < 6 => {
                        maps.snapshots.push(snapshot(step));
                        models.insert(Some(step), models[&None].clone());
                    }
                    10 if dying.is_none() && models.len() > 1 => {
                        let at = random.below(models.len() as u64 - 1) as usize + 1;
                        dying = models.keys().copied().nth(at).flatten();
                        models.remove(&dying);
                        let position = dying.and_then(|number| maps.position(number)).expect("it is there");
                        maps.snapshots[position].name = None;
                        assert_eq!(maps.within(dying, 0..1, |_| {}), Err(SnapshotGone));
                    }
                    _ => {
                        let most = random.between(1, 5) as usize;
                        dying = dying.filter(|&number| !maps.dissolve(number, most, |_| {}));
                    }
                }
                for (at, model) in &models {
                    assert_eq!(seen(&maps, *at), *model, "seed {seed}, step {step}, {at:?}");
                }
                let mut places: Vec<_> = maps.all().flat_map(places_of).map(|(_, place)| place).collect();
                let count = places.len();
                places.sort_unstable();
                places.dedup();
                assert_eq!(places.len(), count, "TL-SNAP-1, seed {seed}, step {step}");
            }
        }
    }

    fn places_of(map: &ExtentMap) -> Vec<(u64, u64)> {
        let mut places = Vec::new();
        map.within(0..SECTORS, |extent| {
            if extent.place != Place::HOLE {
                let place = |onwards: u32| extent.place.advance(onwards, Stride::ONE).record().0;
                places.extend((0..extent.sectors).map(|onwards| (extent.lba + u64::from(onwards), place(onwards))));
            }
        });
        places
    }
}
