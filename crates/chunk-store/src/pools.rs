//! Pools of open zones, one a stream, and which of them a chunk is given. (SMRstore, section 5.4, strategies 1 and 3.)

use shingle_base::ZoneId;
use shingle_zoned::Geometry;

use crate::config::{Allocation, Placement, PoolSizes};
use crate::types::Stream;

/// Open zones that chunks of one stream (or of all, without strategy 1) share.
#[derive(Debug)]
struct Pool {
    /// The stream its zones are marked with.
    stream: Stream,
    target: u32,
    zones: Vec<ZoneId>,
    cursor: usize,
}

/// The number of a pool.
pub(crate) type PoolId = usize;

/// All pools.
#[derive(Debug)]
pub(crate) struct Pools {
    pools: Vec<Pool>,
    allocation: Allocation,
}

impl Pools {
    /// Pools of the wanted sizes, scaled down so that with one metazone and a GC zone for each pool the drive's limits
    /// hold, and that they take at most a quarter of its data zones.
    pub(crate) fn new(placement: Placement, sizes: PoolSizes, geometry: &Geometry, data_zones: u32) -> Self {
        let streams: &[(Stream, u32)] = match (placement.allocation, placement.separate_streams) {
            (Allocation::OneZone, _) => &[(Stream::Data, 1)],
            (_, false) => &[(Stream::Data, sizes.total())],
            (_, true) => &[(Stream::Gc, sizes.gc), (Stream::Data, sizes.data), (Stream::Meta, sizes.meta)],
        };
        let pools = streams.len() as u32;
        let limits = [geometry.open_zones_max, geometry.active_zones_max];
        let limit = limits.into_iter().flatten().min().unwrap_or(u32::MAX);
        let budget = limit.saturating_sub(1 + pools).min(data_zones / 4).max(pools);
        let wanted: u32 = streams.iter().map(|&(_, size)| size.max(1)).sum();
        let scaled = |size: u32| {
            let size = u64::from(size.max(1));
            if wanted <= budget { size as u32 } else { (size * u64::from(budget) / u64::from(wanted)).max(1) as u32 }
        };
        let pools = streams
            .iter()
            .map(|&(stream, size)| Pool { stream, target: scaled(size), zones: Vec::new(), cursor: 0 })
            .collect();
        Self { pools, allocation: placement.allocation }
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

    /// How many zones the pool lacks.
    pub(crate) fn missing(&self, pool: PoolId) -> u32 {
        self.pools[pool].target.saturating_sub(self.pools[pool].zones.len() as u32)
    }

    /// All pools' sizes.
    pub(crate) fn target(&self) -> u32 {
        self.pools.iter().map(|pool| pool.target).sum()
    }

    pub(crate) fn add(&mut self, pool: PoolId, zone: ZoneId) {
        self.pools[pool].zones.push(zone);
    }

    /// Takes a zone out of whichever pool it is in.
    pub(crate) fn remove(&mut self, zone: ZoneId) {
        for pool in &mut self.pools {
            if let Some(at) = pool.zones.iter().position(|&other| other == zone) {
                pool.zones.remove(at);
                // The cursor keeps its place in the round.
                if at < pool.cursor {
                    pool.cursor -= 1;
                }
            }
        }
    }

    /// A zone of the pool that `fits`, by the allocation strategy; `random` decides where that is random.
    pub(crate) fn choose(&mut self, pool: PoolId, random: u64, fits: impl Fn(ZoneId) -> bool) -> Option<ZoneId> {
        let pool = &mut self.pools[pool];
        let count = pool.zones.len();
        let start = match self.allocation {
            Allocation::Random if count > 0 => (random % count as u64) as usize,
            Allocation::OneZone => 0,
            _ => pool.cursor,
        };
        let at = (0..count).map(|step| (start + step) % count).find(|&at| fits(pool.zones[at]))?;
        pool.cursor = at + 1;
        Some(pool.zones[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_base::Blocks;

    fn pools(open_max: u32, zones: u32) -> Pools {
        let geometry = Geometry::hm_smr(Blocks(64), zones, 0, open_max);
        Pools::new(Placement::default(), PoolSizes::default(), &geometry, zones - 10)
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
    fn round_robin_visits_every_zone_in_turn() {
        let mut pools = pools(128, 70_000);
        let pool = pools.of(Stream::Meta);
        for zone in 0..3 {
            pools.add(pool, ZoneId(zone));
        }
        let pick = |pools: &mut Pools| pools.choose(pool, 0, |_| true).unwrap().0;
        assert_eq!([pick(&mut pools), pick(&mut pools), pick(&mut pools), pick(&mut pools)], [0, 1, 2, 0]);
        pools.remove(ZoneId(0));
        assert_eq!([pick(&mut pools), pick(&mut pools), pick(&mut pools)], [1, 2, 1]);
        assert_eq!(pools.choose(pool, 0, |_| false), None);
    }
}
