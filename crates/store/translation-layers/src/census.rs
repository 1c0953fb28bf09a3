//! A count of the sectors in zones, by home.

use std::collections::{BTreeMap, BTreeSet};

use shingle_runtime::Runtime;
use shingle_translation::{Control, ZoneName, ZoneUse};

/// Extents that are looked at in one step.
const STEP: usize = 16_384;

/// A home: sectors that follow each other, and that one zone can hold.
pub(crate) type Home = u64;

/// Contents of a zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    /// Sectors in it, by home.
    pub(crate) homes: BTreeMap<Home, u64>,
    /// Something more is written to it.
    pub(crate) open: bool,
    /// A sequential run wrote it, or does.
    pub(crate) run: bool,
    /// Some of its sectors cannot be read, so it cannot be emptied.
    pub(crate) stuck: bool,
}

impl Contents {
    /// Sectors in it.
    pub(crate) fn live(&self) -> u64 {
        self.homes.values().sum()
    }

    /// The home that all of its sectors are of.
    fn only_home(&self) -> Option<Home> {
        let mut homes = self.homes.keys();
        homes.next().copied().filter(|_| homes.next().is_none())
    }
}

/// Sectors of a home.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    all: u64,
    /// The zone that holds most of them, of those that hold nothing else, and how many.
    base: Option<(ZoneName, u64)>,
}

/// Contents of all zones. (TLL-BASE-1)
#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    zones: BTreeMap<ZoneName, Contents>,
    homes: BTreeMap<Home, Spread>,
}

impl Census {
    /// Counts. Others go on meanwhile, so it is of no one moment.
    pub(crate) async fn take(rt: &Runtime, control: &Control) -> Self {
        let home_sectors = home_sectors(control);
        let mut zones = BTreeMap::<ZoneName, Contents>::new();
        let mut from = Some(0);
        while let Some(next) = from {
            let (extents, then) = control.extents(next, STEP);
            for extent in extents {
                let Some(zone) = control.zone_of(extent.place) else { continue };
                let contents = zones.entry(zone).or_default();
                let mut lba = extent.lba;
                while lba < extent.end() {
                    let home = lba / home_sectors;
                    let end = extent.end().min((home + 1) * home_sectors);
                    *contents.homes.entry(home).or_default() += end - lba;
                    lba = end;
                }
            }
            from = then;
            rt.yield_now().await;
        }
        for view in control.zones() {
            if let Some(contents) = zones.get_mut(&view.name) {
                contents.open = matches!(view.used, ZoneUse::Writes | ZoneUse::Copies);
                contents.run = view.run;
                contents.stuck = view.stuck;
            }
        }
        Self::of(zones)
    }

    /// Of zones with these contents.
    pub(crate) fn of(zones: impl IntoIterator<Item = (ZoneName, Contents)>) -> Self {
        let zones: BTreeMap<_, Contents> = zones.into_iter().collect();
        let mut homes: BTreeMap<Home, Spread> = BTreeMap::new();
        for (name, contents) in &zones {
            for (home, sectors) in &contents.homes {
                homes.entry(*home).or_default().all += sectors;
            }
            if let Some(home) = contents.only_home().filter(|_| !contents.open) {
                let (spread, sectors) = (homes.entry(home).or_default(), contents.live());
                if spread.base.is_none_or(|(_, most)| sectors > most) {
                    spread.base = Some((*name, sectors));
                }
            }
        }
        Self { zones, homes }
    }

    /// The bases of homes.
    pub(crate) fn bases(&self) -> BTreeSet<ZoneName> {
        self.homes.values().filter_map(|spread| spread.base.map(|(name, _)| name)).collect()
    }

    /// Zones of the cache that can be emptied: nothing more is written to them, and they do not become empty by themselves, as those do
    /// whose homes runs write anew.
    pub(crate) fn cache(&self) -> impl Iterator<Item = (ZoneName, &Contents)> {
        let (bases, streamed) = (self.bases(), self.streamed());
        let zones = self.zones.iter().filter(|(_, contents)| !contents.open && !contents.stuck);
        zones.filter_map(move |(name, contents)| {
            let cached = !bases.contains(name) && !contents.homes.keys().all(|home| streamed.contains(home));
            cached.then_some((*name, contents))
        })
    }

    /// Homes that a sequential run is writing anew.
    fn streamed(&self) -> BTreeSet<Home> {
        let open = self.zones.values().filter(|contents| contents.open && contents.run);
        open.flat_map(|contents| contents.homes.keys().copied()).collect()
    }

    /// Sectors that a home has.
    pub(crate) fn size(&self, home: Home) -> u64 {
        self.homes.get(&home).map_or(0, |spread| spread.all)
    }

    /// Sectors of a home that are not in its base.
    pub(crate) fn cached(&self, home: Home) -> u64 {
        self.homes.get(&home).map_or(0, |spread| spread.all - spread.base.map_or(0, |(_, in_base)| in_base))
    }
}

/// Sectors of a home: those that fill a zone.
pub(crate) fn home_sectors(control: &Control) -> u64 {
    control.shape().zone_sectors
}

#[cfg(test)]
mod tests {
    use shingle_base::ZoneId;

    use super::*;

    fn name(number: u32) -> ZoneName {
        ZoneName { zone: ZoneId(number), generation: number.into() }
    }

    fn contents(homes: &[(Home, u64)], open: bool) -> Contents {
        Contents { homes: homes.iter().copied().collect(), open, ..Contents::default() }
    }

    /// TLL-BASE-1
    #[test]
    fn a_base_has_most_of_its_home_and_nothing_else() {
        let census = Census::of([
            (name(1), contents(&[(0, 90)], false)),
            (name(2), contents(&[(0, 10)], false)),
            (name(3), contents(&[(0, 95), (1, 1)], false)),
            (name(4), contents(&[(1, 99)], true)),
            (name(5), contents(&[(1, 2)], false)),
        ]);
        assert_eq!(census.bases(), [name(1), name(5)].into());
        assert_eq!(census.cache().map(|(name, _)| name).collect::<Vec<_>>(), [name(2), name(3)]);
        assert_eq!([0, 1].map(|home| (census.size(home), census.cached(home))), [(195, 105), (102, 100)]);
        assert_eq!((census.size(7), census.cached(7)), (0, 0));
    }

    #[test]
    fn a_zone_that_cannot_be_emptied_or_is_being_overwritten_is_left_alone() {
        let run = Contents { run: true, ..contents(&[(0, 5)], true) };
        let stuck = Contents { stuck: true, ..contents(&[(1, 5), (2, 5)], false) };
        let census = Census::of([(name(1), run), (name(2), stuck), (name(3), contents(&[(0, 3), (0, 3)], false))]);
        assert_eq!(census.cache().count(), 0);
    }
}
