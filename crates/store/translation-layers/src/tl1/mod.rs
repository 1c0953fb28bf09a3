//! TL1: a persistent cache in front of home zones. (FSTL, section IV-A, Algorithm 1.)
//!
//! The volume's sectors are divided into homes, each of which fits a zone. Writes go to zones of the cache. When the cache is full,
//! or the volume is idle, a zone of it is chosen, and each home that has sectors in it is merged: all its sectors, wherever they lie,
//! are copied to a fresh zone, the home's base from then on. The zones that they came from become empty.
//!
//! Differences from the paper: a home is where its sectors are, and not a place on the drive, so the merged zone is written once and not
//! twice, unless [`Tl1::scratch`] asks for it; long sequential writes get zones of their own, which become bases without any merging; and by the default policy,
//! what lives in a zone of the cache is moved on within the cache where that is cheaper than merges.

mod policy;

use std::collections::BTreeSet;
use std::time::Duration;

use shingle_runtime::Runtime;
use shingle_store_api::{StoreErrorKind, StoreResult};
use shingle_translation::{Control, Event, FREE_MIN, Route, ZoneName, ZoneUse, ZoneView};

use crate::census::{Census, Home, home_sectors};
use crate::moves::move_zone;
use crate::pace::Pace;

pub use policy::CachePolicy;
use policy::Work;

/// The time between two looks at the volume.
const POLL: Duration = Duration::from_millis(200);

/// Zones that are to be free in any case: merges take some before a checkpoint frees those that they emptied.
const WANTED_FREE_MIN: u32 = FREE_MIN + 4;

/// The time that the volume's own cleaner gets to win a zone.
const RECLAIM_PAUSE: Duration = Duration::from_millis(20);

/// Parameters of TL1.
#[derive(Clone, Copy, Debug)]
pub struct Tl1 {
    /// Choice of the next work for room in the cache.
    pub policy: CachePolicy,
    /// Zones of the cache. Fewer if the drive has not so many beside the homes.
    pub cache_zones: u32,
    /// The volume is idle after so much time without a call; `None` = it never is.
    pub idle: Option<Duration>,
    /// Sectors of a sequential run before it gets a zone of its own; `None` = none gets one.
    pub sequential: Option<u32>,
    /// Each merged home goes to a scratch zone first, and from there to its own, as on a drive whose homes have fixed places.
    /// (FSTL, section IV-A, steps c and d)
    pub scratch: bool,
}

impl Default for Tl1 {
    fn default() -> Self {
        // The paper's cache has 27 GB; runs are told apart after 8 MiB.
        let (policy, idle) = (CachePolicy::default(), Some(Duration::from_secs(1)));
        Self { policy, cache_zones: 100, idle, sequential: Some(2048), scratch: false }
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
    let mut layer = Layer { rt, control, options, bases: BTreeSet::new() };
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
    /// Zones that are known to be bases of homes.
    bases: BTreeSet<ZoneName>,
}

impl Layer {
    /// Zones in which the volume has something, and not only its snapshots, and that are not known to be bases.
    fn cached(&self) -> Vec<ZoneView> {
        let zones = self.control.zones().into_iter();
        zones.filter(|zone| zone.live > zone.kept && !zone.stuck && !self.bases.contains(&zone.name)).collect()
    }

    fn is_idle(&self) -> bool {
        self.options.idle.is_some_and(|idle| self.control.idle_for() >= idle)
    }

    /// The cache is full by its written blocks, or the volume is idle and a zone of the cache is written to no more.
    fn is_due(&self) -> bool {
        let cached = self.cached();
        let blocks: u64 = cached.iter().map(|zone| u64::from(zone.blocks)).sum();
        let most = u64::from(self.options.cache_zones) * u64::from(self.control.shape().zone_blocks);
        let closed = |zone: &ZoneView| matches!(zone.used, ZoneUse::Written | ZoneUse::Copied);
        self.control.wants_room() || blocks >= most || (self.is_idle() && cached.iter().any(closed))
    }

    /// Makes some room in the cache, if that is due. False if there is nothing that would.
    async fn clean(&mut self) -> StoreResult<bool> {
        let census = Census::take(&self.rt, &self.control).await;
        self.bases = census.bases();
        if !self.is_due() {
            // Some of the zones that seemed to be of the cache are bases.
            return Ok(true);
        }
        let idle = self.is_idle();
        let Some(work) = self.options.policy.choose(&census, home_sectors(&self.control), idle) else {
            // Zones that only snapshots need are left to the volume's own cleaner.
            self.control.reclaim();
            return Ok(false);
        };
        match work {
            Work::Merges(victim, homes) => self.merge_all(&census, &homes, Some(victim), idle).await?,
            Work::Merge(home) => self.merge_all(&census, &[home], None, idle).await?,
            Work::Move(victim) => {
                move_zone(&self.control, victim).await?;
            }
        }
        Ok(true)
    }

    /// Merges homes, until their victim is empty.
    async fn merge_all(
        &mut self,
        census: &Census,
        homes: &[Home],
        victim: Option<ZoneName>,
        idle: bool,
    ) -> StoreResult<()> {
        let control = self.control.clone();
        let times = if self.options.scratch { 2 } else { 1 };
        let _pace = (!idle).then(|| {
            let sectors: u64 = homes.iter().map(|&home| census.size(home)).sum();
            Pace::begin(&control, sectors * times)
        });
        for &home in homes {
            if control.wait(Duration::ZERO).await == Event::Closing || (idle && !self.is_idle()) {
                return Ok(());
            }
            // An earlier merge, or its writers, may have emptied it.
            if let Some(victim) = victim
                && !control.zones().iter().any(|zone| zone.name == victim && zone.live > zone.kept)
            {
                break;
            }
            self.merge(home).await?;
        }
        control.checkpoint().await
    }

    /// Copies all sectors of a home to one zone.
    async fn merge(&mut self, home: Home) -> StoreResult<()> {
        if self.options.scratch {
            self.copy_home(home).await?;
        }
        let base = self.copy_home(home).await?;
        self.bases.insert(base);
        Ok(())
    }

    /// Copies all sectors of a home to a fresh zone.
    async fn copy_home(&self, home: Home) -> StoreResult<ZoneName> {
        let sectors = home_sectors(&self.control);
        let range = home * sectors..((home + 1) * sectors).min(self.control.shape().sectors);
        let base = match self.control.take().await {
            Err(error) if error.kind == StoreErrorKind::NoSpace => {
                // Zones that merges have emptied become free with a checkpoint; else the volume has to win one.
                self.control.checkpoint().await?;
                self.control.reclaim();
                self.rt.sleep(RECLAIM_PAUSE).await;
                self.control.take().await?
            }
            taken => taken?,
        };
        self.control.copy_to_taken(&[range], None).await?;
        Ok(base)
    }
}
