//! Pools of open zones, one a stream, and which of them a chunk is given. (SMRstore, section 5.4, strategies 1 and 3.)

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shingle_base::ZoneId;

use crate::config::{Allocation, Placement, PoolSizes};
use crate::index::Handle;
use crate::types::Stream;

/// Open zones that chunks of one stream (or of all, without strategy 1) share.
#[derive(Debug)]
struct Pool {
    /// The stream its zones are marked with.
    stream: Stream,
    target: u32,
    zones: Vec<ZoneId>,
    cursor: usize,
    /// Chunks that are being written.
    open: u32,
    /// The latest of them.
    latest: Option<Handle>,
    /// Next zones of the chunks that left a zone: chunks that shared it stay together.
    successors: BTreeMap<ZoneId, ZoneId>,
    /// Blocks of chunks that were sealed and that none has followed yet, oldest first.
    sealed: VecDeque<u32>,
    /// Zones that are nearly full: each has another opened in its place, so that its chunks find one when they leave.
    ending: BTreeSet<ZoneId>,
}

/// The number of a pool.
pub(crate) type PoolId = usize;

/// All pools.
#[derive(Debug)]
pub(crate) struct Pools {
    pools: Vec<Pool>,
    allocation: Allocation,
    /// Zones that all pools together may hold beyond their sizes.
    extra: u32,
    /// Zones that may be open beside those of pools, for small appends to land in.
    pub(crate) landing: u32,
}

impl Pools {
    /// Number of pools: as many zones GC moves to at once.
    pub(crate) fn count(placement: Placement) -> u32 {
        if placement.allocation == Allocation::OneZone || !placement.separate_streams { 1 } else { 3 }
    }

    /// Pools of the wanted sizes, scaled down so that together with up to `landing` landing zones they take at most
    /// `callers` zones, which is what leases allow, and at most a quarter of all data zones.
    pub(crate) fn new(placement: Placement, sizes: PoolSizes, landing: u32, callers: u32, data_zones: u32) -> Self {
        let streams: &[(Stream, u32)] = match (placement.allocation, placement.separate_streams) {
            (Allocation::OneZone, _) => &[(Stream::Data, 1)],
            (_, false) => &[(Stream::Data, sizes.total())],
            (_, true) => &[(Stream::Gc, sizes.gc), (Stream::Data, sizes.data), (Stream::Meta, sizes.meta)],
        };
        let pools = streams.len() as u32;
        let budget = callers.min(data_zones / 4).max(pools);
        let landing = landing.min(budget / 4).min(budget - pools);
        let budget = budget - landing;
        let pools: Vec<Pool> = scaled(streams, budget)
            .into_iter()
            .map(|(stream, target)| Pool {
                stream,
                target,
                zones: Vec::new(),
                cursor: 0,
                open: 0,
                latest: None,
                successors: BTreeMap::new(),
                sealed: VecDeque::new(),
                ending: BTreeSet::new(),
            })
            .collect();
        let extra = budget.saturating_sub(pools.iter().map(|pool| pool.target).sum());
        Self { pools, allocation: placement.allocation, extra, landing }
    }

    /// The pool that serves a stream.
    pub(crate) fn of(&self, stream: Stream) -> PoolId {
        self.pools.iter().position(|pool| pool.stream == stream).unwrap_or(0)
    }

    /// The stream that zones of a pool are marked with.
    pub(crate) fn stream(&self, pool: PoolId) -> Stream {
        self.pools[pool].stream
    }

    pub(crate) fn ids(&self) -> std::ops::Range<PoolId> {
        0..self.pools.len()
    }

    pub(crate) fn zones(&self, pool: PoolId) -> &[ZoneId] {
        &self.pools[pool].zones
    }

    /// Number of zones that the pool lacks.
    pub(crate) fn missing(&self, pool: PoolId) -> u32 {
        // Beyond all sizes, `extra` zones can be open in place of others that are nearly full.
        let over: u32 = self.pools.iter().map(|pool| (pool.zones.len() as u32).saturating_sub(pool.target)).sum();
        let pool = &self.pools[pool];
        let held = pool.zones.len() as u32;
        let room = self.extra.saturating_sub(over) + held.saturating_sub(pool.target);
        let ending = (pool.ending.len() as u32).min(room).min(held);
        (pool.target + ending).saturating_sub(held)
    }

    /// All pools' sizes.
    pub(crate) fn target(&self) -> u32 {
        self.pools.iter().map(|pool| pool.target).sum()
    }

    pub(crate) fn add(&mut self, pool: PoolId, zone: ZoneId) {
        let pool = &mut self.pools[pool];
        pool.zones.push(zone);
        pool.successors.retain(|from, to| *from != zone && *to != zone && pool.zones.contains(to));
    }

    /// Takes a zone out of whichever pool it is in.
    pub(crate) fn remove(&mut self, zone: ZoneId) {
        for pool in &mut self.pools {
            if let Some(at) = pool.zones.iter().position(|&other| other == zone) {
                pool.zones.remove(at);
                pool.ending.remove(&zone);
                // The cursor keeps its place in the round.
                if at < pool.cursor {
                    pool.cursor -= 1;
                }
            }
        }
    }

    /// One more chunk is being written. Returns the one that came before it.
    pub(crate) fn note_opened(&mut self, pool: PoolId, handle: Handle) -> Option<Handle> {
        self.pools[pool].open += 1;
        self.pools[pool].latest.replace(handle)
    }

    /// A chunk was sealed at `blocks`.
    pub(crate) fn note_sealed(&mut self, pool: PoolId, blocks: u32) {
        let sealed = &mut self.pools[pool].sealed;
        if sealed.len() == SEALED_MAX {
            sealed.pop_front();
        }
        sealed.push_back(blocks);
    }

    /// The blocks that a new chunk will likely take: those of the chunk before it in its file. That is the one sealed
    /// just now, as far as a chunk store can see; `None` where none was.
    pub(crate) fn expected(&mut self, pool: PoolId) -> Option<u32> {
        self.pools[pool].sealed.pop_front()
    }

    /// Next zone of the chunks that left `zone`.
    pub(crate) fn successor(&self, pool: PoolId, zone: ZoneId) -> Option<ZoneId> {
        self.pools[pool].successors.get(&zone).copied()
    }

    /// A chunk goes on in another zone.
    pub(crate) fn note_moved(&mut self, pool: PoolId, from: ZoneId, to: ZoneId) {
        self.pools[pool].successors.insert(from, to);
    }

    /// A zone is nearly full. Returns whether another is to be opened for it now.
    pub(crate) fn note_ending(&mut self, zone: ZoneId) -> bool {
        if self.allocation != Allocation::Company {
            return false;
        }
        let pool = self.pools.iter_mut().find(|pool| pool.zones.contains(&zone));
        pool.is_some_and(|pool| pool.ending.insert(zone))
    }

    /// One chunk fewer is being written.
    pub(crate) fn note_closed(&mut self, pool: PoolId) {
        self.pools[pool].open -= 1;
    }

    /// A zone of the pool for a chunk, by the allocation strategy; `random` decides where that is random. `offer` says
    /// what a zone has for it, or that it has no room.
    pub(crate) fn choose(
        &mut self,
        pool: PoolId,
        random: u64,
        company: Company,
        offer: impl Fn(ZoneId) -> Option<Offer>,
    ) -> Option<ZoneId> {
        let pool = &mut self.pools[pool];
        let count = pool.zones.len();
        let start = match self.allocation {
            Allocation::Random if count > 0 => (random % count as u64) as usize,
            Allocation::OneZone => 0,
            _ => pool.cursor,
        };
        let mut fitting =
            (0..count).map(|step| (start + step) % count).filter_map(|at| Some((at, offer(pool.zones[at])?)));
        let at = match self.allocation {
            Allocation::Company => match company.zone(pool, &offer) {
                Some(at) => at,
                None => fitting.min_by_key(|&(_, offer)| (offer.chunks, company.ill_fit(offer)))?.0,
            },
            _ => fitting.next()?.0,
        };
        pool.cursor = at + 1;
        Some(pool.zones[at])
    }
}

/// Sizes of at least one zone each, in proportion, that come to `budget` at most; `budget` is one for each or more.
fn scaled(streams: &[(Stream, u32)], budget: u32) -> Vec<(Stream, u32)> {
    let mut sizes: Vec<(Stream, u32)> = streams.iter().map(|&(stream, size)| (stream, size.max(1))).collect();
    let wanted: u64 = sizes.iter().map(|&(_, size)| u64::from(size)).sum();
    if wanted > u64::from(budget) {
        for (_, size) in &mut sizes {
            *size = (u64::from(*size) * u64::from(budget) / wanted).max(1) as u32;
        }
    }
    // Small ones were rounded up to one.
    while sizes.iter().map(|&(_, size)| size).sum::<u32>() > budget
        && let Some((_, largest)) = sizes.iter_mut().max_by_key(|(_, size)| *size).filter(|(_, size)| *size > 1)
    {
        *largest -= 1;
    }
    sizes
}

/// Chunks sealed without a successor that are remembered: more are not of files that go on.
const SEALED_MAX: usize = 8;

/// Offer of a zone to a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// Chunks that are written there.
    pub(crate) chunks: u32,
    /// Blocks left.
    pub(crate) room: u32,
}

/// Wishes of a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Company {
    /// Blocks that it will likely take from now on.
    pub(crate) expected: u32,
    /// Next zone of chunks that left the same zone.
    pub(crate) followed: Option<ZoneId>,
    /// The zone of the chunk created before it.
    pub(crate) before: Option<ZoneId>,
}

impl Company {
    /// Measure of a bad fit: a chunk that fills a zone gets an empty one, a small one goes to the zone with the least
    /// sufficient room, so that small chunks end up together and large ones alone.
    fn ill_fit(self, offer: Offer) -> (bool, u32) {
        (offer.room < self.expected, offer.room.abs_diff(self.expected))
    }

    /// The place of a zone in the pool that it would share gladly, if that has room and not too many chunks.
    fn zone(self, pool: &Pool, offer: impl Fn(ZoneId) -> Option<Offer>) -> Option<usize> {
        // Chunks to a zone, if all zones are to have as many.
        let share = pool.open.div_ceil(pool.zones.len().max(1) as u32);
        if share <= 1 {
            return None;
        }
        // Chunks that were together stay so, even if one or another came in between.
        let mut glad = [(self.followed, 2 * share), (self.before, share)].into_iter();
        let taken = |zone: &ZoneId, most: u32| offer(*zone).is_some_and(|offer| offer.chunks < most);
        let found = glad.find_map(|(zone, most)| zone.filter(|zone| taken(zone, most)));
        pool.zones.iter().position(|&zone| Some(zone) == found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zones::leases::Leases;
    use shingle_base::Blocks;
    use shingle_zoned::Geometry;

    fn pools(open_max: u32, zones: u32) -> Pools {
        let callers = Leases::new(&Geometry::hm_smr(Blocks(64), zones, 0, open_max), 3).callers();
        Pools::new(Placement::default(), PoolSizes::default(), 0, callers, zones - 10)
    }

    fn targets(pools: &Pools) -> Vec<u32> {
        pools.ids().map(|pool| pools.missing(pool)).collect()
    }

    #[test]
    fn pools_have_the_papers_sizes_where_the_drive_allows() {
        assert_eq!(targets(&pools(128, 70_000)), [40, 10, 5]);
        assert_eq!(targets(&pools(59, 70_000)), [40, 10, 5]);
    }

    #[test]
    fn pools_shrink_to_the_drives_limits_and_size() {
        let small = targets(&pools(14, 70_000));
        assert!(small.iter().all(|&size| size >= 1) && small.iter().sum::<u32>() <= 10, "{small:?}");
        let few_zones = targets(&pools(128, 40));
        assert!(few_zones.iter().all(|&size| size >= 1) && few_zones.iter().sum::<u32>() <= 7, "{few_zones:?}");
    }

    #[test]
    fn pools_and_landing_zones_fit_whatever_callers_may_have_open() {
        for callers in 3..60 {
            for landing in 0..12 {
                let pools = Pools::new(Placement::default(), PoolSizes::default(), landing, callers, 70_000);
                let all = pools.target() + pools.landing;
                assert!(all <= callers && targets(&pools).iter().all(|&size| size >= 1), "{callers}, {landing}: {all}");
            }
        }
    }

    #[test]
    fn round_robin_visits_every_zone_in_turn() {
        let mut pools = pools(128, 70_000);
        let pool = pools.of(Stream::Meta);
        for zone in 0..3 {
            pools.add(pool, ZoneId(zone));
        }
        let pick = |pools: &mut Pools| {
            pools.choose(pool, 0, Company::default(), |_| Some(Offer { chunks: 0, room: 9 })).unwrap().0
        };
        assert_eq!([pick(&mut pools), pick(&mut pools), pick(&mut pools), pick(&mut pools)], [0, 1, 2, 0]);
        pools.remove(ZoneId(0));
        assert_eq!([pick(&mut pools), pick(&mut pools), pick(&mut pools)], [1, 2, 1]);
        assert_eq!(pools.choose(pool, 0, Company::default(), |_| None), None);
    }

    #[test]
    fn chunks_share_zones_only_where_they_must_and_then_with_their_neighbours() {
        let mut pools = pools(128, 70_000);
        let pool = pools.of(Stream::Meta);
        (0..3).for_each(|zone| pools.add(pool, ZoneId(zone)));
        let mut counts = BTreeMap::from([(ZoneId(0), 0), (ZoneId(1), 0), (ZoneId(2), 0)]);
        let mut place = |pools: &mut Pools, company: Company| {
            let offer = |zone| Some(Offer { chunks: *counts.get(&zone)?, room: 9 });
            let zone = pools.choose(pool, 0, company, offer).unwrap();
            *counts.get_mut(&zone).unwrap() += 1;
            zone.0
        };
        let before = |zone| Company { before: Some(ZoneId(zone)), ..Company::default() };
        for handle in 0..3 {
            pools.note_opened(pool, handle);
        }
        assert_eq!(
            [place(&mut pools, before(0)), place(&mut pools, before(0)), place(&mut pools, before(1))],
            [0, 1, 2]
        );
        for handle in 3..6 {
            pools.note_opened(pool, handle);
        }
        assert_eq!(place(&mut pools, before(1)), 1, "six chunks in three zones: two to a zone");
        assert_ne!(place(&mut pools, before(1)), 1);
        pools.note_moved(pool, ZoneId(7), ZoneId(1));
        let followed = pools.successor(pool, ZoneId(7));
        assert_eq!(
            place(&mut pools, Company { followed, ..Company::default() }),
            1,
            "those that were together stay so"
        );
        pools.remove(ZoneId(1));
        pools.add(pool, ZoneId(3));
        assert_eq!(pools.successor(pool, ZoneId(7)), None);
    }

    #[test]
    fn small_chunks_are_put_together_and_large_ones_alone() {
        let mut pools = pools(128, 70_000);
        let pool = pools.of(Stream::Gc);
        (0..4).for_each(|zone| pools.add(pool, ZoneId(zone)));
        // Zones 1 and 3 hold a small chunk that was sealed there.
        let rooms = [64_000, 48_000, 64_000, 20_000];
        let mut place = |expected| {
            let offer = |zone: ZoneId| Some(Offer { chunks: 0, room: rooms[zone.0 as usize] });
            pools.choose(pool, 0, Company { expected, ..Company::default() }, offer).unwrap().0
        };
        assert_eq!(place(16_000), 3, "the fullest zone in which it fits");
        assert_eq!(place(30_000), 1);
        assert!([0, 2].contains(&place(64_000)), "a zone of its own");
        assert!([0, 2].contains(&place(u32::MAX)));
        // A file's next chunk will be as long as its last.
        assert_eq!(pools.expected(pool), None);
        pools.note_sealed(pool, 16_000);
        pools.note_sealed(pool, 64_000);
        assert_eq!(
            [pools.expected(pool), pools.expected(pool), pools.expected(pool)],
            [Some(16_000), Some(64_000), None]
        );
    }

    #[test]
    fn a_zone_that_is_nearly_full_has_another_opened_in_time_where_the_drive_allows() {
        for (open_max, expected) in [(128, 1), (59, 0)] {
            let mut pools = pools(open_max, 70_000);
            let pool = pools.of(Stream::Meta);
            (0..5).for_each(|zone| pools.add(pool, ZoneId(zone)));
            assert_eq!(pools.missing(pool), 0);
            assert!(pools.note_ending(ZoneId(2)) && !pools.note_ending(ZoneId(2)));
            assert_eq!(pools.missing(pool), expected);
            pools.add(pool, ZoneId(5));
            assert_eq!(pools.missing(pool), 0);
            pools.remove(ZoneId(2));
            assert_eq!(pools.missing(pool), 0);
        }
    }
}
