//! The work that TL1 does next for room in its cache.

use shingle_translation::ZoneName;

use crate::census::{Census, Contents, Home};

/// Choice of the next work for room in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// The oldest zone of the cache. (FSTL, section IV-A)
    Fifo,
    /// The one with the fewest sectors alive. (FSTL, section IV-A)
    MinValid,
    /// The one whose sectors are of the fewest homes. (FSTL, section IV-A)
    MinAssoc,
    /// The one with the best ratio of space to be won, weighted by age, to sectors to be copied. (LFS, section 3)
    CostBenefit,
    /// The one whose homes have the most cached sectors each, in all of the cache: a merge costs the same however many it gets rid of.
    Dense,
    /// The work that copies the fewest sectors for each sector of room: a move of all that lives in a zone to the head of the cache, or
    /// a merge of one home.
    #[default]
    Cheapest,
}

/// Work that makes room in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Merges of all homes that have sectors in the zone.
    Merges(ZoneName, Vec<Home>),
    /// A merge of one home.
    Merge(Home),
    /// Copies of all that lives in the zone, to the head of the cache.
    Move(ZoneName),
}

impl CachePolicy {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Fifo, Self::MinValid, Self::MinAssoc, Self::CostBenefit, Self::Dense, Self::Cheapest];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::MinValid => "min_valid",
            Self::MinAssoc => "min_assoc",
            Self::CostBenefit => "cost_benefit",
            Self::Dense => "dense",
            Self::Cheapest => "cheapest",
        }
    }

    /// The next work; `None` if there is none. An idle volume has all of its sectors brought home.
    pub(super) fn choose(self, census: &Census, zone_sectors: u64, idle: bool) -> Option<Work> {
        let cache: Vec<_> = census.cache().collect();
        if self == Self::Cheapest {
            return cheapest(census, &cache, zone_sectors, idle);
        }
        let (name, contents) = self.victim(census, &cache)?;
        Some(Work::Merges(name, contents.homes.keys().copied().collect()))
    }

    fn victim<'c>(self, census: &Census, cache: &[(ZoneName, &'c Contents)]) -> Option<(ZoneName, &'c Contents)> {
        let newest = cache.iter().map(|(name, _)| name.generation).max()?;
        let largest = cache.iter().map(|(_, contents)| contents.live()).max()?.max(1);
        // The lowest wins; all are whole numbers, so that runs are the same everywhere.
        let rank = |name: &ZoneName, contents: &Contents| -> u128 {
            match self {
                Self::Fifo => name.generation.into(),
                Self::MinValid => contents.live().into(),
                Self::MinAssoc => contents.homes.len() as u128,
                Self::CostBenefit => {
                    let (live, age) = (u128::from(contents.live()), u128::from(newest - name.generation + 1));
                    let free = u128::from(largest) + 1 - live.min(u128::from(largest));
                    u128::MAX - (free * age * 1_000_000) / (u128::from(largest) + live)
                }
                Self::Dense | Self::Cheapest => {
                    let all: u128 = contents.homes.keys().map(|&home| u128::from(census.cached(home))).sum();
                    u128::MAX - all * 1_000 / (contents.homes.len() as u128).max(1)
                }
            }
        };
        let best = cache.iter().min_by_key(|(name, contents)| (rank(name, contents), name.generation));
        best.map(|&(name, contents)| (name, contents))
    }
}

/// Copied sectors, and the room that they make.
type Price = (u64, u64);

fn cheapest(census: &Census, cache: &[(ZoneName, &Contents)], zone_sectors: u64, idle: bool) -> Option<Work> {
    let merges = cache.iter().flat_map(|(_, contents)| contents.homes.keys());
    let merges = merges.map(|&home| ((census.size(home), census.cached(home)), Work::Merge(home)));
    let moves = cache.iter().filter(|(_, contents)| !idle && contents.live() < zone_sectors);
    let moves = moves.map(|&(name, contents)| ((contents.live(), zone_sectors - contents.live()), Work::Move(name)));
    let cheaper = |a: &(Price, Work), b: &(Price, Work)| {
        let product = |one: Price, other: Price| u128::from(one.0) * u128::from(other.1);
        product(a.0, b.0).cmp(&product(b.0, a.0))
    };
    moves.chain(merges).min_by(cheaper).map(|(_, work)| work)
}

#[cfg(test)]
mod tests {
    use shingle_base::ZoneId;

    use super::*;

    fn name(number: u32) -> ZoneName {
        ZoneName { zone: ZoneId(number), generation: number.into() }
    }

    /// Zones of the cache by their number, with the sectors of each home; and a base for each home, of 100 sectors with those cached.
    fn census(zones: &[(u32, &[(Home, u64)])]) -> Census {
        let mut all = Vec::new();
        let mut cached = std::collections::BTreeMap::<Home, u64>::new();
        for (number, homes) in zones {
            all.push((name(*number), Contents { homes: homes.iter().copied().collect(), ..Contents::default() }));
            homes.iter().for_each(|(home, sectors)| *cached.entry(*home).or_default() += sectors);
        }
        for (home, sectors) in cached {
            let base = Contents { homes: [(home, 200 - sectors)].into(), ..Contents::default() };
            all.push((name(1000 + home as u32), base));
        }
        Census::of(all)
    }

    #[test]
    fn each_policy_chooses_by_its_measure() {
        let census = census(&[
            (1, &[(0, 10), (1, 10), (2, 10)]),
            (2, &[(3, 1), (4, 1), (5, 1)]),
            (3, &[(6, 50), (9, 1)]),
            (4, &[(7, 30), (8, 90), (9, 1)]),
        ]);
        let zone = |policy: CachePolicy| match policy.choose(&census, 100, false) {
            Some(Work::Merges(name, _)) => name.zone.0,
            other => panic!("{policy:?}: {other:?}"),
        };
        let victims = CachePolicy::ALL.into_iter().filter(|&policy| policy != CachePolicy::Cheapest).map(zone);
        assert_eq!(victims.collect::<Vec<_>>(), [1, 2, 3, 2, 4]);
        assert_eq!(CachePolicy::Fifo.choose(&Census::of([]), 100, false), None);
    }

    #[test]
    fn the_cheapest_work_is_a_move_of_a_zone_in_which_little_lives() {
        let choose = |census: &Census, idle| CachePolicy::Cheapest.choose(census, 100, idle);
        // 3 sectors make room for 97.
        let few = census(&[(1, &[(0, 40), (1, 50)]), (2, &[(0, 1), (1, 2)])]);
        assert_eq!(choose(&few, false), Some(Work::Move(name(2))));
        // An idle volume brings the most sectors home for what it writes.
        assert_eq!(choose(&few, true), Some(Work::Merge(1)));
        // All zones are full: a home of 200 sectors makes room for 90 of them, a move of 99 sectors for 1.
        let full = census(&[(1, &[(0, 90), (1, 9)]), (2, &[(2, 50), (1, 49)])]);
        assert_eq!(choose(&full, false), Some(Work::Merge(0)));
    }
}
