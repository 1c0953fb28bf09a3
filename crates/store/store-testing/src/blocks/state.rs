//! Versions of all sectors of a store, and the clock of the calls to it.
//!
//! **Owns** the pages of sectors, which copies share until one of them changes. **Knows nothing of** tokens: it is told the number
//! of a call, and the life in which that began.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use shingle_store_api::{Durability, MAPPED_SECTORS_MIN, MappedRun};

use super::sector::{fill, written_by};
use super::versions::{Rules, Tick, Versions, ZEROS};

/// Sectors of a page.
const PAGE: u64 = 64;

/// A change of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Write(Durability),
    Zeros(Durability),
    Trim,
}

impl Change {
    fn durability(self) -> Option<Durability> {
        match self {
            Self::Write(durability) | Self::Zeros(durability) => Some(durability),
            Self::Trim => None,
        }
    }
}

#[derive(Clone)]
pub(super) struct State {
    pub(super) sectors: u64,
    pub(super) sector_bytes: u64,
    pub(super) rules: Rules,
    pub(super) life: u64,
    pages: Vec<Rc<Vec<Versions>>>,
    now: Tick,
    calls: u64,
    /// Begins of reads under way.
    reading: BTreeSet<Tick>,
    /// Sectors with writes that have completed and are not durable.
    cached: BTreeSet<u64>,
}

impl State {
    pub(super) fn new(sectors: u64, sector_bytes: u64) -> Self {
        let page = Rc::new(vec![Versions::default(); PAGE as usize]);
        let pages = vec![page; sectors.div_ceil(PAGE) as usize];
        let (reading, cached, rules) = (BTreeSet::new(), BTreeSet::new(), Rules::default());
        Self { sectors, sector_bytes, rules, life: 0, pages, now: 0, calls: 0, reading, cached }
    }

    pub(super) fn tick(&mut self) -> Tick {
        self.now += 1;
        self.now
    }

    /// The first begin of a read under way, or now.
    fn horizon(&self) -> Tick {
        self.reading.first().copied().unwrap_or(self.now + 1)
    }

    fn versions(&mut self, sector: u64) -> &mut Versions {
        assert!(sector < self.sectors, "sector {sector} is not one of {}", self.sectors);
        let page = Rc::make_mut(&mut self.pages[(sector / PAGE) as usize]);
        &mut page[(sector % PAGE) as usize]
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Versions> {
        self.pages.iter().flat_map(|page| page.iter())
    }

    /// The life is over.
    pub(super) fn cut(&mut self) {
        self.life += 1;
        self.reading.clear();
        self.cached.clear();
        for page in &mut self.pages {
            if !page.iter().all(Versions::is_settled) {
                Rc::make_mut(page).iter_mut().for_each(|versions| versions.cut(self.rules));
            }
        }
    }

    /// Returns the number of a call that begins.
    pub(super) fn begin(&mut self, sectors: Range<u64>, change: Change) -> u64 {
        let now = self.tick();
        self.calls += 1;
        let number = self.calls;
        for sector in sectors {
            let versions = self.versions(sector);
            match change {
                Change::Write(_) => versions.begin_write(number, false, now),
                Change::Zeros(_) => versions.begin_write(number, true, now),
                Change::Trim => versions.begin_trim(number, now),
            }
        }
        number
    }

    pub(super) fn data(&self, sectors: &Range<u64>, number: u64) -> Bytes {
        let mut data = vec![0; ((sectors.end - sectors.start) * self.sector_bytes) as usize];
        fill(&mut data, sectors.start, self.sector_bytes, number);
        data.into()
    }

    /// A change of this life has its answer.
    pub(super) fn complete(&mut self, sectors: Range<u64>, number: u64, change: Change) {
        let (now, rules) = (self.tick(), self.rules);
        let durable = change.durability() == Some(Durability::Durable);
        let horizon = self.horizon();
        for sector in sectors.clone() {
            let versions = self.versions(sector);
            versions.complete(number, durable, now);
            if durable {
                versions.forget(horizon, rules);
            }
        }
        if change.durability() == Some(Durability::Cached) {
            self.cached.extend(sectors);
        }
    }

    /// A flush of this life has its answer.
    pub(super) fn flushed(&mut self, began: Tick) {
        let (horizon, rules) = (self.horizon(), self.rules);
        for sector in std::mem::take(&mut self.cached) {
            let versions = self.versions(sector);
            let left = versions.flushed(began);
            versions.forget(horizon, rules);
            if left {
                self.cached.insert(sector);
            }
        }
    }

    /// Returns the begin of a read.
    pub(super) fn begin_read(&mut self) -> Tick {
        let began = self.tick();
        self.reading.insert(began);
        began
    }

    pub(super) fn end_read(&mut self, began: Tick) {
        self.reading.remove(&began);
    }

    /// Takes the bytes of a read.
    pub(super) fn take_bytes(&mut self, sectors: Range<u64>, began: Tick, bytes: &[u8]) -> Result<(), String> {
        let expected = (sectors.end - sectors.start) * self.sector_bytes;
        if bytes.len() as u64 != expected {
            return Err(format!("a read of {expected} bytes returned {}", bytes.len()));
        }
        let found = sectors.zip(bytes.chunks_exact(self.sector_bytes as usize));
        self.show(began, found.map(|(sector, bytes)| (sector, written_by(sector, bytes))))
    }

    /// Takes runs, which must cover the sectors from the first on, in order; those that are not mapped read as zeros.
    pub(super) fn take_runs(
        &mut self,
        sectors: Range<u64>,
        began: Tick,
        runs: &[MappedRun],
        runs_max: usize,
    ) -> Result<(), String> {
        let sector = self.sector_bytes;
        let (mut at, end) = (sectors.start * sector, sectors.end * sector);
        if runs.is_empty() || runs.len() > runs_max {
            return Err(format!("{} runs came where 1 to {runs_max} were asked for", runs.len()));
        }
        for run in runs {
            let whole = run.length > 0 && run.length.is_multiple_of(sector);
            if !whole || run.offset != at || run.length > end - at {
                return Err(format!("{run:?} does not go on at {at}, inside of sectors {sectors:?} of {sector} bytes"));
            }
            at += run.length;
        }
        let enough = (at / sector).saturating_sub(sectors.start) >= MAPPED_SECTORS_MIN;
        if at < end && runs.len() < runs_max && !enough {
            return Err(format!("{} runs end at {at}, before {end}, with room for more", runs.len()));
        }
        let unmapped = runs.iter().filter(|run| !run.mapped);
        let zeros = unmapped.flat_map(|run| run.offset / sector..(run.offset + run.length) / sector);
        self.show(began, zeros.map(|sector| (sector, Ok(ZEROS))))
    }

    fn show(&mut self, began: Tick, found: impl Iterator<Item = (u64, Result<u64, String>)>) -> Result<(), String> {
        let (now, rules, horizon) = (self.tick(), self.rules, self.horizon());
        for (sector, value) in found {
            let versions = self.versions(sector);
            let wrong = match value {
                Ok(value) if versions.show(value, began, now, rules) => {
                    versions.forget(horizon, rules);
                    continue;
                }
                Ok(ZEROS) => "reads as zeros".to_owned(),
                Ok(number) => format!("reads as write {number}"),
                Err(torn) => format!("is torn: {torn}"),
            };
            let known = versions.describe();
            return Err(format!("sector {sector} {wrong}, in a read from {began} to {now}; it had: {known}"));
        }
        Ok(())
    }
}
