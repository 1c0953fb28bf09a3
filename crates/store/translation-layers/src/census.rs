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
    /// Its generation: the lower, the older.
    pub(crate) generation: u64,
}

impl Contents {
    /// Sectors in it.
    pub(crate) fn live(&self) -> u64 {
        self.homes.values().sum()
    }
}

/// Contents of all zones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    pub(crate) zones: BTreeMap<ZoneName, Contents>,
    /// Zones in which a home has sectors.
    spread: BTreeMap<Home, u64>,
}

impl Census {
    /// Counts. Others go on meanwhile, so it is of no one moment.
    pub(crate) async fn take(rt: &Runtime, control: &Control) -> Self {
        let home_sectors = home_sectors(control);
        let mut census = Self::default();
        let mut from = Some(0);
        while let Some(next) = from {
            let (extents, then) = control.extents(next, STEP);
            for extent in extents {
                let Some(zone) = control.zone_of(extent.place) else { continue };
                let contents = census.zones.entry(zone).or_default();
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
            if let Some(contents) = census.zones.get_mut(&view.name) {
                contents.open = matches!(view.used, ZoneUse::Writes | ZoneUse::Copies);
                contents.run = view.run;
                contents.generation = view.name.generation;
            }
        }
        for contents in census.zones.values() {
            for home in contents.homes.keys() {
                *census.spread.entry(*home).or_default() += 1;
            }
        }
        census
    }

    /// Homes that a sequential run is writing anew.
    pub(crate) fn streamed(&self) -> BTreeSet<Home> {
        let open = self.zones.values().filter(|contents| contents.open && contents.run);
        open.flat_map(|contents| contents.homes.keys().copied()).collect()
    }

    /// A zone is a home if nothing more is written to it, and all that it holds is of one home, which has nothing elsewhere.
    pub(crate) fn is_home(&self, contents: &Contents) -> bool {
        let mut homes = contents.homes.keys();
        let one = homes.next().filter(|_| homes.next().is_none());
        !contents.open && one.is_some_and(|home| self.spread.get(home) == Some(&1))
    }
}

/// Sectors of a home: those that fill a zone.
pub(crate) fn home_sectors(control: &Control) -> u64 {
    control.shape().zone_sectors
}
