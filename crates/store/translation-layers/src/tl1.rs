//! TL1: a persistent cache in front of home zones. (FSTL, section IV-A, Algorithm 1.)
//!
//! The volume's sectors are divided into homes, each of which fits a zone. Writes go to zones of the cache. When the cache is nearly
//! full, or the volume is idle, a zone of it is chosen, and each home that has sectors in it is merged: all its sectors, wherever they
//! lie, are copied to a fresh zone, which is the home from then on. The zones that they came from become empty.
//!
//! Differences from the paper: a home is where its sectors are, and not a place on the drive, so the merged zone is written once and not
//! twice; and long sequential writes get zones of their own, which become homes without any merging.

use std::time::Duration;

use shingle_runtime::Runtime;
use shingle_store_api::{StoreErrorKind, StoreResult};
use shingle_translation::{Control, Event, FREE_MIN, Route, ZoneName, ZoneUse};

use crate::census::{Census, Contents, Home, home_sectors};
use crate::pace::Pace;

/// The time between two looks at the volume.
const POLL: Duration = Duration::from_millis(200);

/// Zones that are to be free in any case: merges take some before a checkpoint frees those that they emptied.
const WANTED_FREE_MIN: u32 = FREE_MIN + 4;

/// The time that the volume's own cleaner gets to win a zone.
const RECLAIM_PAUSE: Duration = Duration::from_millis(20);

/// Choice of the cache zone that is cleaned. (FSTL, section IV-A.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// The oldest.
    Fifo,
    /// The one with the fewest sectors alive.
    MinValid,
    /// The one whose sectors are of the fewest homes.
    #[default]
    MinAssoc,
    /// The one with the best ratio of space to be won, weighted by age, to sectors to be copied. (LFS, section 3.)
    CostBenefit,
    /// The one whose homes have the most cached sectors each, in all of the cache: a merge costs the same however many it gets rid of.
    Dense,
}

impl CachePolicy {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Fifo, Self::MinValid, Self::MinAssoc, Self::CostBenefit, Self::Dense];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::MinValid => "min_valid",
            Self::MinAssoc => "min_assoc",
            Self::CostBenefit => "cost_benefit",
            Self::Dense => "dense",
        }
    }
}

/// Parameters of TL1.
#[derive(Clone, Copy, Debug)]
pub struct Tl1 {
    /// Choice of the zone that is cleaned.
    pub policy: CachePolicy,
    /// Zones of the cache. Fewer if the drive has not so many beside the homes.
    pub cache_zones: u32,
    /// The volume is idle after so much time without a call; `None` = it never is.
    pub idle: Option<Duration>,
    /// Sectors of a sequential run before it gets a zone of its own; `None` = none gets one.
    pub sequential: Option<u32>,
}

impl Default for Tl1 {
    fn default() -> Self {
        // The paper's cache has 27 GB; runs are told apart after 8 MiB.
        let (policy, idle) = (CachePolicy::default(), Some(Duration::from_secs(1)));
        Self { policy, cache_zones: 100, idle, sequential: Some(2048) }
    }
}

/// Runs TL1 until the volume closes.
pub async fn tl1(rt: Runtime, control: Control, options: Tl1) {
    if let Some(sectors) = options.sequential {
        control.route(Route::Sequential { sectors, align: home_sectors(&control) });
    }
    let shape = control.shape();
    let homes = shape.sectors.div_ceil(home_sectors(&control)) as u32;
    // The homes have their zones, whether or not they were ever merged.
    let most = shape.zones.saturating_sub(homes).saturating_sub(WANTED_FREE_MIN);
    let options = Tl1 { cache_zones: options.cache_zones.min(most).max(2), ..options };
    control.want_free(WANTED_FREE_MIN);
    let mut layer = Layer { rt, control, options, homes: Vec::new() };
    loop {
        match layer.control.wait(POLL).await {
            Event::Closing => return,
            Event::Room | Event::Timer => {}
        }
        let cleaned = if layer.is_due() { layer.clean().await } else { Ok(false) };
        if !matches!(cleaned, Ok(true)) && layer.control.wants_room() {
            // Nothing could be done: others have to do something first.
            layer.rt.sleep(POLL).await;
        }
    }
}

struct Layer {
    rt: Runtime,
    control: Control,
    options: Tl1,
    /// Zones that callers wrote, and that were found to be homes.
    homes: Vec<ZoneName>,
}

impl Layer {
    /// Zones of the cache that are written.
    fn cached(&self) -> u32 {
        let zones = self.control.zones();
        let in_cache =
            zones.iter().filter(|zone| matches!(zone.used, ZoneUse::Written | ZoneUse::Writes) && zone.live > 0);
        in_cache.filter(|zone| self.homes.binary_search(&zone.name).is_err()).count() as u32
    }

    fn is_idle(&self) -> bool {
        self.options.idle.is_some_and(|idle| self.control.idle_for() >= idle)
    }

    /// The cache has less than a zone left, or the volume is idle and there is something in the cache.
    fn is_due(&self) -> bool {
        let cached = self.cached();
        self.control.wants_room() || cached >= self.options.cache_zones || (self.is_idle() && cached > 1)
    }

    /// Cleans a zone of the cache, if that is due. False if there is none.
    async fn clean(&mut self) -> StoreResult<bool> {
        let census = Census::take(&self.rt, &self.control).await;
        let (homes, cache): (Vec<_>, Vec<_>) = census.zones.iter().partition(|(_, contents)| census.is_home(contents));
        self.homes = homes.into_iter().map(|(name, _)| *name).collect();
        if !self.is_due() {
            // Some of the zones that seemed to be of the cache are homes.
            return Ok(true);
        }
        // A zone whose sectors a run overwrites becomes empty by itself.
        let streamed = census.streamed();
        let stays = |contents: &Contents| !contents.homes.keys().all(|home| streamed.contains(home));
        let closed: Vec<_> = cache.into_iter().filter(|(_, contents)| !contents.open && stays(contents)).collect();
        let Some((victim, contents)) = choose(self.options.policy, &closed) else { return Ok(false) };
        let foreground = !self.is_idle();
        let mut pace = foreground.then(|| Pace::begin(&self.control, contents.homes.len() as u64));
        for &home in contents.homes.keys() {
            if self.control.wait(Duration::ZERO).await == Event::Closing || (!foreground && !self.is_idle()) {
                return Ok(true);
            }
            // An earlier merge, or its writers, may have emptied it.
            if self.control.living_in(victim).await.is_err() {
                break;
            }
            self.merge(home).await?;
            if let Some(pace) = &mut pace {
                pace.step();
            }
        }
        self.control.checkpoint().await?;
        Ok(true)
    }

    /// Copies all sectors of a home to one zone.
    async fn merge(&self, home: Home) -> StoreResult<()> {
        let sectors = home_sectors(&self.control);
        let range = home * sectors..((home + 1) * sectors).min(self.control.shape().sectors);
        match self.control.take().await {
            Err(error) if error.kind == StoreErrorKind::NoSpace => {
                // Zones that merges have emptied become free with a checkpoint; else the volume has to win one.
                self.control.checkpoint().await?;
                self.control.reclaim();
                self.rt.sleep(RECLAIM_PAUSE).await;
                self.control.take().await?;
            }
            taken => drop(taken?),
        }
        self.control.copy_to_taken(&[range], None).await?;
        Ok(())
    }
}

type Candidate<'z> = (&'z ZoneName, &'z Contents);

/// The zone of the cache to be cleaned.
fn choose<'z>(policy: CachePolicy, cache: &[Candidate<'z>]) -> Option<(ZoneName, &'z Contents)> {
    let newest = cache.iter().map(|(_, contents)| contents.generation).max()?;
    let cached = |home: &Home| cache.iter().filter_map(|(_, contents)| contents.homes.get(home)).sum::<u64>();
    let largest = cache.iter().map(|(_, contents)| contents.live()).max()?.max(1);
    // The lowest wins; all are whole numbers, so that runs are the same everywhere.
    let rank = |contents: &Contents| -> u128 {
        match policy {
            CachePolicy::Fifo => contents.generation.into(),
            CachePolicy::MinValid => contents.live().into(),
            CachePolicy::MinAssoc => contents.homes.len() as u128,
            CachePolicy::CostBenefit => {
                let (live, age) = (u128::from(contents.live()), u128::from(newest - contents.generation + 1));
                let free = u128::from(largest) + 1 - live.min(u128::from(largest));
                u128::MAX - (free * age * 1_000_000) / (u128::from(largest) + live)
            }
            CachePolicy::Dense => {
                let all: u128 = contents.homes.keys().map(|home| u128::from(cached(home))).sum();
                u128::MAX - all * 1_000 / (contents.homes.len() as u128).max(1)
            }
        }
    };
    let best = cache.iter().min_by_key(|(_, contents)| (rank(contents), contents.generation));
    best.map(|&(name, contents)| (*name, contents))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(generation: u64, homes: &[(Home, u64)]) -> Contents {
        Contents { homes: homes.iter().copied().collect(), open: false, run: false, generation }
    }

    #[test]
    fn each_policy_chooses_by_its_measure() {
        let name = |number: u32| ZoneName { zone: shingle_base::ZoneId(number), generation: number.into() };
        let names = [1, 2, 3, 4].map(name);
        let zones = [
            contents(1, &[(0, 10), (1, 10), (2, 10)]),
            contents(2, &[(3, 1), (4, 1), (5, 1)]),
            contents(3, &[(6, 50)]),
            contents(4, &[(7, 30), (8, 90)]),
        ];
        let cache: Vec<_> = names.iter().zip(&zones).collect();
        let chosen = CachePolicy::ALL.map(|policy| choose(policy, &cache).map(|(name, _)| name.zone.0));
        assert_eq!(chosen, [Some(1), Some(2), Some(3), Some(2), Some(4)]);
        assert!(choose(CachePolicy::Fifo, &[]).is_none());
    }
}
